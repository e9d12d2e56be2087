/* The local CA on a full disk: what is there is used as long as it is valid, and never replaced by half. */
#include <fcntl.h>
#include <openssl/pem.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "io/cert.h"
#include "io/tls.h"

#include "full_disk.h"
#include "tap.h"

static bool has_disk;
static char dir[64];

static char *path_of(const char *name)
{
        static char path[128];

        (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
        return path;
}

static long inode_of(const char *name)
{
        struct stat st;

        return stat(path_of(name), &st) == 0 ? (long)st.st_ino : -1;
}

static void leave_one_block(void)
{
        struct stat st;

        full_disk_fill();
        if (stat(full_disk_filler, &st) == 0)
                (void)!truncate(full_disk_filler, st.st_size - 4096);
}

/* cert.pem and key.pem for localhost that are valid for so many days. */
static bool issue(long days)
{
        FILE *f = fopen(path_of("ca.pem"), "re");
        X509 *ca = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL, *issuer = NULL, *leaf = NULL;
        EVP_PKEY *ca_key = NULL, *key = EVP_EC_gen("P-256");
        bool ok = false;

        if (f)
                (void)fclose(f);
        f = fopen(path_of("ca.key"), "re");
        ca_key = f ? PEM_read_PrivateKey(f, NULL, NULL, NULL) : NULL;
        if (f)
                (void)fclose(f);
        if (ca && ca_key && key)
                issuer = cert_make(&(struct cert_spec){.kind = CERT_ISSUER,
                                                       .common_name = "issuer",
                                                       .names = "critical,permitted;DNS:localhost",
                                                       .days = days,
                                                       .key = key,
                                                       .issuer = ca,
                                                       .issuer_key = ca_key});
        if (issuer)
                leaf = cert_make(&(struct cert_spec){.kind = CERT_LEAF,
                                                     .common_name = "leaf",
                                                     .names = "DNS:localhost,DNS:*.localhost",
                                                     .days = days,
                                                     .key = key,
                                                     .issuer = issuer,
                                                     .issuer_key = key});
        f = leaf ? fopen(path_of("cert.pem"), "we") : NULL;
        if (f) {
                ok = PEM_write_X509(f, leaf) == 1 && PEM_write_X509(f, issuer) == 1;
                (void)fclose(f);
        }
        f = ok ? fopen(path_of("key.pem"), "we") : NULL;
        if (f) {
                ok = PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1;
                (void)fclose(f);
        }
        X509_free(ca);
        X509_free(issuer);
        X509_free(leaf);
        EVP_PKEY_free(key);
        EVP_PKEY_free(ca_key);
        return ok;
}

static void a_certificate_that_ends_soon_does_for_now(void)
{
        struct err err = {0};
        long cert, key;

        if (!has_disk)
                SKIP("no mount namespace of our own");
        full_disk_make_room();
        CHECK_INT(tls_local_ca(dir, "localhost", &err), ==, 0);
        CHECK(issue(5));
        cert = inode_of("cert.pem");
        key = inode_of("key.pem");
        leave_one_block(); /* enough for a key, not for the certificate */
        CHECK_INT(tls_local_ca(dir, "localhost", &err), ==, 0);
        CHECK(inode_of("cert.pem") == cert && inode_of("key.pem") == key);
        full_disk_make_room();
        CHECK_INT(tls_local_ca(dir, "localhost", &err), ==, 0);
        CHECK(inode_of("cert.pem") != cert && inode_of("key.pem") != key);
}

static void one_that_is_of_no_use_is_an_error_and_stays(void)
{
        struct err err = {0};
        long cert, key;

        if (!has_disk)
                SKIP("no mount namespace of our own");
        full_disk_make_room();
        CHECK_INT(tls_local_ca(dir, "localhost", &err), ==, 0);
        cert = inode_of("cert.pem");
        key = inode_of("key.pem");
        leave_one_block();
        CHECK_INT(tls_local_ca(dir, "box.example.test", &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_NO_SPACE);
        CHECK(inode_of("cert.pem") == cert && inode_of("key.pem") == key);
        CHECK_INT(tls_local_ca(dir, "localhost", &err), ==, 0);
}

int main(void)
{
        has_disk = full_disk_mount("size=256k,mode=0755");
        (void)snprintf(dir, sizeof(dir), "%s/ca", full_disk_dir);
        RUN(a_certificate_that_ends_soon_does_for_now);
        RUN(one_that_is_of_no_use_is_an_error_and_stays);
        full_disk_remove();
        return tap_done();
}
