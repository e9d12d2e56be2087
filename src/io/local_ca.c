/* The local CA: ca.pem signs an issuer that is limited to the domain, which signs the leaf; cert.pem holds leaf and
 * issuer, key.pem the one key of both.  Whoever serves can so also sign the single names that tls.c needs where a
 * verifier refuses the wildcard, without holding the CA's key: the issuer can do no more than the wildcard could. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/cert.h"
#include "io/tls.h"

#define LEFT_DAYS_MIN 30
#define CA_DAYS 3650L
#define LEAF_DAYS 820L /* some verifiers refuse more than 825 */

struct pair {
        X509 *cert;
        X509 *issuer; /* second certificate of the file, or NULL */
        EVP_PKEY *key;
};

static void pair_done(struct pair *p)
{
        X509_free(p->cert);
        X509_free(p->issuer);
        EVP_PKEY_free(p->key);
        *p = (struct pair){0};
}
#define AUTO_PAIR AUTO(pair_done)

static FILE *open_file(const char *dir, const char *name)
{
        AUTO_BUF struct buf path = BUF_INIT(4096);

        if (buf_addf(&path, "%s/%s", dir, name) < 0 || !buf_cstr(&path))
                return NULL;
        return fopen(buf_cstr(&path), "re");
}

/* What is there; members stay NULL for what is missing or broken. */
static void pair_load(struct pair *p, const char *dir, const char *cert_name, const char *key_name)
{
        FILE *f;

        f = open_file(dir, cert_name);
        if (f) {
                p->cert = PEM_read_X509(f, NULL, NULL, NULL);
                p->issuer = p->cert ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
                (void)fclose(f);
        }
        f = open_file(dir, key_name);
        if (f) {
                p->key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
                (void)fclose(f);
        }
}

static bool is_valid_for(const X509 *cert, int days_min)
{
        int days = 0, seconds = 0;

        return ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert)) == 1 && days >= days_min && seconds >= 0;
}

static bool ca_is_usable(const struct pair *ca, int days)
{
        return ca->cert && ca->key && X509_check_private_key(ca->cert, ca->key) == 1 && is_valid_for(ca->cert, days);
}

static bool is_address(const char *domain)
{
        unsigned char bin[16];

        return inet_pton(AF_INET, domain, bin) == 1;
}

static bool leaf_is_usable(const struct pair *leaf, const struct pair *ca, const char *domain, int days)
{
        if (!leaf->cert || !leaf->issuer || !leaf->key || X509_check_private_key(leaf->cert, leaf->key) != 1 ||
            !is_valid_for(leaf->cert, days) || !is_valid_for(leaf->issuer, days) ||
            X509_verify(leaf->cert, leaf->key) != 1 || X509_verify(leaf->issuer, ca->key) != 1)
                return false;
        return is_address(domain) ? X509_check_ip_asc(leaf->cert, domain, 0) == 1 : cert_has_name(leaf->cert, domain);
}

static int paths_of(const char *dir, const char *name, struct buf *path, struct buf *tmp, struct err *err)
{
        if (buf_addf(path, "%s/%s", dir, name) < 0 || buf_addf(tmp, "%s/.%s.tmp", dir, name) < 0 || !buf_cstr(path) ||
            !buf_cstr(tmp))
                return err_sys(err, -ENOMEM, "write %s", name);
        return 0;
}

static int write_file(const char *dir, const char *name, mode_t mode, BIO *content, struct err *err)
{
        AUTO_BUF struct buf tmp = BUF_INIT(4096), path = BUF_INIT(4096);
        AUTO_CLOSE int fd = -1;
        char *p = NULL;
        long n = BIO_get_mem_data(content, &p);
        int r = paths_of(dir, name, &path, &tmp, err);

        if (r < 0)
                return r;
        (void)unlink(buf_cstr(&tmp)); /* of an interrupted start */
        fd = open(buf_cstr(&tmp), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd < 0 || fchmod(fd, mode) < 0 || write(fd, p, (size_t)n) != n || fsync(fd) < 0) {
                r = errno ? -errno : -EIO;
                (void)unlink(buf_cstr(&tmp));
                return err_sys(err, r, "write '%s'", buf_cstr(&path));
        }
        return 0;
}

static int put_in_place(const char *dir, const char *name, struct err *err)
{
        AUTO_BUF struct buf tmp = BUF_INIT(4096), path = BUF_INIT(4096);
        int r = paths_of(dir, name, &path, &tmp, err);

        if (r == 0 && rename(buf_cstr(&tmp), buf_cstr(&path)) < 0)
                r = err_sys(err, -errno, "write '%s'", buf_cstr(&path));
        return r;
}

static void discard(const char *dir, const char *name) /* what was written and not put in place */
{
        AUTO_BUF struct buf tmp = BUF_INIT(4096), path = BUF_INIT(4096);

        if (paths_of(dir, name, &path, &tmp, NULL) == 0)
                (void)unlink(buf_cstr(&tmp));
}

static int pair_save(const struct pair *p, const char *dir, const char *cert_name, const char *key_name,
                     struct err *err)
{
        BIO *cert = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_secmem());
        int r;

        if (!cert || !key || PEM_write_bio_X509(cert, p->cert) != 1 ||
            (p->issuer && PEM_write_bio_X509(cert, p->issuer) != 1) ||
            PEM_write_bio_PrivateKey(key, p->key, NULL, NULL, 0, NULL, NULL) != 1)
                r = err_set(err, ERR_INTERNAL, "encode %s", cert_name);
        else
                r = write_file(dir, key_name, 0600, key, err);
        if (r == 0)
                r = write_file(dir, cert_name, 0644, cert, err);
        if (r == 0) /* the key first: without the certificate that fits, both are made anew at the next start */
                r = put_in_place(dir, key_name, err);
        if (r == 0)
                r = put_in_place(dir, cert_name, err);
        if (r < 0)
                discard(dir, key_name);
        BIO_free(cert);
        BIO_free(key);
        return r;
}

static int make_ca(struct pair *ca, struct err *err)
{
        pair_done(ca);
        ca->key = EVP_EC_gen("P-256");
        if (ca->key)
                ca->cert = cert_make(&(struct cert_spec){
                        .kind = CERT_ROOT,
                        .common_name = "Sandglass local CA",
                        .days = CA_DAYS,
                        .key = ca->key,
                        .issuer_key = ca->key,
                });
        return ca->cert ? 0 : err_set(err, ERR_INTERNAL, "make the local CA: OpenSSL refused");
}

/* The names of the leaf, and the limits of the issuer: the same names. */
static void describe_names(const char *domain, struct cert_spec *leaf, struct cert_spec *issuer, char *text, size_t n)
{
        static const char local_limits[] = "permitted;DNS:localhost,permitted;IP:127.0.0.1/255.255.255.255,"
                                           "permitted;IP:::1/FFFF:FFFF:FFFF:FFFF:FFFF:FFFF:FFFF:FFFF";
        size_t half = n / 2;

        leaf->names = text;
        issuer->names = text + half;
        if (is_address(domain)) {
                (void)snprintf(text, half, "IP:%s,DNS:localhost,IP:127.0.0.1,IP:::1", domain);
                (void)snprintf(text + half, half, "critical,permitted;IP:%s/255.255.255.255,%s", domain, local_limits);
        } else if (strcmp(domain, "localhost") == 0) {
                (void)snprintf(text, half, "DNS:localhost,DNS:*.localhost,IP:127.0.0.1,IP:::1");
                (void)snprintf(text + half, half, "critical,%s", local_limits);
        } else {
                (void)snprintf(text, half, "DNS:%s,DNS:*.%s,DNS:localhost,IP:127.0.0.1,IP:::1", domain, domain);
                (void)snprintf(text + half, half, "critical,permitted;DNS:%s,%s", domain, local_limits);
        }
}

static int make_leaf(struct pair *leaf, const struct pair *ca, const char *domain, struct err *err)
{
        struct cert_spec server = {.kind = CERT_LEAF, .common_name = "Sandglass", .days = LEAF_DAYS};
        struct cert_spec issuer = {
                .kind = CERT_ISSUER,
                .common_name = "Sandglass local issuer",
                .days = LEAF_DAYS,
                .issuer = ca->cert,
                .issuer_key = ca->key,
        };
        char text[2 * 800]; /* twice two names of 253 bytes and the fixed part */

        describe_names(domain, &server, &issuer, text, sizeof(text));
        pair_done(leaf);
        leaf->key = EVP_EC_gen("P-256");
        issuer.key = server.key = server.issuer_key = leaf->key;
        leaf->issuer = leaf->key ? cert_make(&issuer) : NULL;
        server.issuer = leaf->issuer;
        leaf->cert = leaf->issuer ? cert_make(&server) : NULL;
        return leaf->cert ? 0 : err_set(err, ERR_INTERNAL, "make the certificate for '%s': OpenSSL refused", domain);
}

/* What is there, for as long as it lasts: there is no room on disk for what is to come after it. */
static bool lasts_for_now(const char *dir, const char *domain)
{
        AUTO_PAIR struct pair ca = {0}, leaf = {0};

        pair_load(&ca, dir, "ca.pem", "ca.key");
        pair_load(&leaf, dir, "cert.pem", "key.pem");
        return ca_is_usable(&ca, 0) && leaf_is_usable(&leaf, &ca, domain, 0);
}

int tls_local_ca(const char *dir, const char *domain, struct err *err)
{
        AUTO_PAIR struct pair ca = {0}, leaf = {0};
        int r = 0;

        if (!cert_is_plain_name(domain))
                return err_set(err, ERR_INVALID, "domain '%s' is not a plain lower-case host name", domain);
        if (mkdir(dir, 0755) < 0 && errno != EEXIST)
                return err_sys(err, -errno, "make directory '%s'", dir);
        pair_load(&ca, dir, "ca.pem", "ca.key");
        if (!ca_is_usable(&ca, LEFT_DAYS_MIN)) {
                r = make_ca(&ca, err);
                if (r == 0)
                        r = pair_save(&ca, dir, "ca.pem", "ca.key", err);
        }
        if (r == 0)
                pair_load(&leaf, dir, "cert.pem", "key.pem");
        if (r == 0 && !leaf_is_usable(&leaf, &ca, domain, LEFT_DAYS_MIN)) {
                r = make_leaf(&leaf, &ca, domain, err);
                if (r == 0)
                        r = pair_save(&leaf, dir, "cert.pem", "key.pem", err);
        }
        if ((r == -ENOSPC || r == -EDQUOT) && lasts_for_now(dir, domain))
                r = 0;
        ERR_clear_error(); /* of files that were missing */
        return r;
}
