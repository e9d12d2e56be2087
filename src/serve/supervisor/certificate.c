#include "serve/supervisor/certificate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "io/cert_facts.h"
#include "io/tls.h"
#include "model/conf.h"
#include "serve/supervisor/role.h"

#define SOON_S (14 * 24 * 3600)

static struct file_stamp stamp_of(const char *path)
{
        struct file_stamp s;
        struct stat st;

        memset(&s, 0, sizeof(s)); /* also between the members: stamps are compared as bytes */
        if (stat(path, &st) < 0)
                return s;
        s.device = st.st_dev;
        s.inode = st.st_ino;
        s.size = st.st_size;
        s.changed = st.st_ctim;
        s.modified = st.st_mtim;
        return s;
}

static struct pair_stamp stamp_pair(const struct certificate *c)
{
        struct pair_stamp p;

        memset(&p, 0, sizeof(p));
        p.cert = stamp_of(c->cert_path);
        p.key = stamp_of(c->key_path);
        return p;
}

static bool is_same_pair(const struct pair_stamp *a, const struct pair_stamp *b)
{
        return memcmp(a, b, sizeof(*a)) == 0;
}

/* Would an edge be able to use these two? */
static int check_pair(int cert, int key, const struct certificate *c, struct err *err)
{
        struct tls_context *t = NULL;
        char cert_path[64], key_path[64];
        const char *reason;
        struct err why = {0};
        int r;

        (void)snprintf(cert_path, sizeof(cert_path), "/proc/self/fd/%d", cert);
        (void)snprintf(key_path, sizeof(key_path), "/proc/self/fd/%d", key);
        r = tls_context_create(&(struct tls_options){.cert_pem_path = cert_path, .key_pem_path = key_path}, &t, &why);
        t = tls_context_free(t);
        if (r == 0)
                return 0;
        reason = strrchr(why.msg, ':'); /* before it are the names of our copies */
        return err_set(err, ERR_INVALID, "the certificate '%s' cannot be used with the key '%s': %s", c->cert_path,
                       c->key_path, reason ? reason + 2 : why.msg);
}

/* What an operator should know about the pair in use. */
static void describe_pair(const struct certificate *c, const char *event)
{
        char path[64], ends[CLOCK_TEXT_MAX];
        struct cert_facts f;
        struct err err = {0};
        int64_t now_s = clock_real_ms() / 1000;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", c->cert);
        if (cert_facts_of_file(path, c->name, NULL, &f, &err) < 0)
                return;
        clock_format(f.ends_s * 1000000000, ends);
        log_info(event, "file=%s ends=%s", c->cert_path, ends);
        if (f.ends_s < now_s + SOON_S)
                log_warn("certificate.ends", "file=%s ends=%s: clients %s it", c->cert_path, ends,
                         f.ends_s < now_s ? "refuse" : "will soon refuse");
        if (!f.covers_name)
                log_warn("certificate.names", "file=%s: it is not for %s, so clients refuse it", c->cert_path, c->name);
}

/* Programs that renew certificates keep links to the newest files. */
static int read_linked(const char *path, int *ret_fd, struct err *err)
{
        AUTO_FREE char *real = realpath(path, NULL);

        return real ? file_to_memfd(real, ret_fd, err) : err_sys(err, -errno, "read '%s'", path);
}

static int read_pair(struct certificate *c, struct err *err)
{
        AUTO_CLOSE int cert = -1, key = -1;
        int r;

        r = read_linked(c->cert_path, &cert, err);
        if (r == 0)
                r = read_linked(c->key_path, &key, err);
        if (r == 0)
                r = check_pair(cert, key, c, err);
        if (r < 0)
                return r;
        close_fd(&c->cert);
        close_fd(&c->key);
        c->cert = TAKE_FD(cert);
        c->key = TAKE_FD(key);
        return 0;
}

/* Some name of a sandbox: a certificate for it is one for *.<domain>. */
static char *sample_name(const char *domain)
{
        char *name;

        return asprintf(&name, "3000-i.%.*s", (int)strcspn(domain, ":"), domain) < 0 ? NULL : name;
}

int certificate_init(struct certificate *c, const struct conf *conf, struct err *err)
{
        int r;

        *c = (struct certificate){
                .cert_path = conf->tls_cert ? strdup(conf->tls_cert) : conf_path(conf, "ca/cert.pem"),
                .key_path = conf->tls_key ? strdup(conf->tls_key) : conf_path(conf, "ca/key.pem"),
                .name = sample_name(conf->domain),
                .cert = -1,
                .key = -1,
        };
        if (!c->cert_path || !c->key_path || !c->name)
                return err_set(err, ERR_LIMIT, "out of memory");
        c->read = c->seen = stamp_pair(c);
        r = read_pair(c, err);
        if (r == 0 && conf->tls_cert) /* our own is known to be right, and is not for such names alone */
                describe_pair(c, "certificate.read");
        return r;
}

bool certificate_look(struct certificate *c)
{
        struct pair_stamp now = stamp_pair(c);
        bool is_settled = is_same_pair(&now, &c->seen);
        struct err err = {0};

        c->seen = now;
        if (!is_settled || is_same_pair(&now, &c->read))
                return false;
        c->read = now;
        if (read_pair(c, &err) < 0) {
                log_error("certificate.refused", "error=\"%s\", the one before stays in use", err.msg);
                return false;
        }
        describe_pair(c, "certificate.renewed");
        return true;
}

void certificate_done(struct certificate *c)
{
        free(c->cert_path);
        free(c->key_path);
        free(c->name);
        close_fd(&c->cert);
        close_fd(&c->key);
}
