/* The supervisor's certificate: what is noticed of its files, and what is taken. */
#include "serve/supervisor/certificate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "model/conf.h"

#include "cert_pair.h"
#include "tap.h"

static char dir[] = "/tmp/certificate-XXXXXX";

static char *in_dir(const char *name)
{
        static char path[8][64];
        static unsigned next;
        char *p = path[next++ % 8];

        (void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
        return p;
}

/* Certificate and key of their own into these files, by rename; NULL: not that one. */
static bool write_pair(const char *cert_file, const char *key_file)
{
        bool ok = cert_pair_write(in_dir("new.cert"), in_dir("new.key"), "DNS:*.box.example.test", 90);

        if (ok && cert_file)
                ok = rename(in_dir("new.cert"), in_dir(cert_file)) == 0;
        if (ok && key_file)
                ok = rename(in_dir("new.key"), in_dir(key_file)) == 0;
        return ok;
}

static int start(struct certificate *c, struct err *err)
{
        struct conf conf = {0};
        int r;

        if (conf_defaults(&conf, "/d", err) < 0)
                abort();
        conf.tls_cert = strdup(in_dir("cert"));
        conf.tls_key = strdup(in_dir("key"));
        r = certificate_init(c, &conf, err);
        conf_done(&conf);
        return r;
}

static ino_t inode_of(int fd)
{
        struct stat st;

        return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static void a_new_pair_is_taken_when_both_files_are_still(void)
{
        AUTO(certificate_done) struct certificate c = {.cert = -1, .key = -1};
        struct err err = {0};
        ino_t first;

        CHECK(write_pair("cert", "key"));
        CHECK_INT(start(&c, &err), ==, 0);
        first = inode_of(c.cert);
        CHECK(!certificate_look(&c) && !certificate_look(&c));
        CHECK(write_pair("cert", "key"));
        CHECK(!certificate_look(&c)); /* it may not be over yet */
        CHECK(certificate_look(&c));
        CHECK(inode_of(c.cert) != first);
        CHECK(!certificate_look(&c) && !certificate_look(&c));
}

static void a_pair_behind_links_is_noticed(void)
{
        AUTO(certificate_done) struct certificate c = {.cert = -1, .key = -1};
        struct err err = {0};

        CHECK(write_pair("cert1", "key1") && write_pair("cert2", "key2"));
        (void)unlink(in_dir("cert"));
        (void)unlink(in_dir("key"));
        CHECK(symlink("cert1", in_dir("cert")) == 0 && symlink("key1", in_dir("key")) == 0);
        CHECK_INT(start(&c, &err), ==, 0);
        CHECK(unlink(in_dir("cert")) == 0 && symlink("cert2", in_dir("cert")) == 0);
        CHECK(unlink(in_dir("key")) == 0 && symlink("key2", in_dir("key")) == 0);
        CHECK(!certificate_look(&c) && certificate_look(&c));
        CHECK(write_pair("cert2", "key2")); /* the links are as before */
        CHECK(!certificate_look(&c) && certificate_look(&c));
        CHECK(unlink(in_dir("cert")) == 0 && unlink(in_dir("key")) == 0);
}

static void half_a_pair_is_refused_and_the_one_before_stays(void)
{
        AUTO(certificate_done) struct certificate c = {.cert = -1, .key = -1};
        struct err err = {0};
        ino_t cert, key;

        CHECK(write_pair("cert", "key"));
        CHECK_INT(start(&c, &err), ==, 0);
        cert = inode_of(c.cert), key = inode_of(c.key);
        CHECK(write_pair("cert", NULL)); /* of another key */
        CHECK(!certificate_look(&c) && !certificate_look(&c) && !certificate_look(&c));
        CHECK(inode_of(c.cert) == cert && inode_of(c.key) == key);
        CHECK(unlink(in_dir("key")) == 0);
        CHECK(!certificate_look(&c) && !certificate_look(&c));
        CHECK(inode_of(c.cert) == cert && inode_of(c.key) == key);
        CHECK(write_pair("cert", "key"));
        CHECK(!certificate_look(&c) && certificate_look(&c));
}

static void a_first_pair_that_cannot_be_used_is_explained(void)
{
        AUTO(certificate_done) struct certificate c = {.cert = -1, .key = -1};
        struct err err = {0};

        CHECK(write_pair("cert", "key") && write_pair("cert", NULL));
        CHECK_INT(start(&c, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        CHECK(strstr(err.msg, "cannot be used with the key") && strstr(err.msg, ": key values mismatch"));
        certificate_done(&c);
        CHECK(unlink(in_dir("cert")) == 0);
        CHECK_INT(start(&c, &err), <, 0);
        CHECK(strstr(err.msg, "/cert'"));
}

int main(void)
{
        char command[64];

        if (!mkdtemp(dir))
                return 1;
        log_setup("test", LOG_ERROR);
        RUN(a_new_pair_is_taken_when_both_files_are_still);
        RUN(a_pair_behind_links_is_noticed);
        RUN(half_a_pair_is_refused_and_the_one_before_stays);
        RUN(a_first_pair_that_cannot_be_used_is_explained);
        (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
        return system(command) != 0 ? 1 : tap_done();
}
