#include "serve/setup/ca_bundle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "serve/setup/datadir.h"

#define SYSTEM_MAX CA_BUNDLE_SYSTEM_MAX
#define OWN_MAX (16u << 10)

const char *const ca_bundle_systems[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
        "/etc/ssl/ca-bundle.pem",             /* openSUSE */
        "/etc/ssl/cert.pem",                  /* Alpine */
        NULL,
};

static struct str text_of(const struct buf *b)
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

static bool has_certificate(const struct buf *b)
{
        static const char begin[] = "-----BEGIN CERTIFICATE-----";
        struct str text = text_of(b);

        return memmem(text.p, text.n, begin, strlen(begin)) != NULL;
}

bool ca_bundle_read_system(const char *const systems[], struct buf *out)
{
        for (; *systems; systems++) {
                AUTO_FREE char *real = realpath(*systems, NULL);

                buf_reset(out);
                if (real && file_read(real, out) == 0 && has_certificate(out))
                        return true;
        }
        return false;
}

static int add_own(struct buf *all, const struct buf *own)
{
        struct str before = text_of(all), ours = text_of(own);
        int r = 0;

        if (memmem(before.p, before.n, ours.p, ours.n)) /* after `sandglass trust` */
                return 0;
        if (!str_ends(before, "\n"))
                r = buf_addc(all, "\n");
        return r < 0 ? r : buf_add(all, ours.p, ours.n);
}

/* The same bytes again need no writing, which a full disk would refuse. */
static int replace_changed(const char *path, const struct buf *text)
{
        AUTO_BUF struct buf old = BUF_INIT(SYSTEM_MAX + OWN_MAX);

        if (file_read(path, &old) == 0 && str_eq(text_of(&old), text_of(text)))
                return 0;
        return file_replace(path, 0644, buf_at(text), text->len);
}

int ca_bundle_renew(const char *dir, const char *const systems[], struct err *err)
{
        AUTO_BUF struct buf all = BUF_INIT(SYSTEM_MAX + OWN_MAX), own = BUF_INIT(OWN_MAX);
        AUTO_FREE char *path = NULL, *own_path = NULL;
        int r;

        if (asprintf(&path, "%s/bundle.pem", dir) < 0 || asprintf(&own_path, "%s/ca.pem", dir) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (!ca_bundle_read_system(systems, &all)) {
                (void)unlink(path);
                return err_set(err, ERR_NOT_FOUND,
                               "this system has no file of certificate authorities: install ca-certificates");
        }
        r = file_read(own_path, &own);
        if (r == 0 && !has_certificate(&own))
                r = -EINVAL;
        if (r < 0)
                return err_sys(err, r, "read '%s'", own_path);
        r = add_own(&all, &own);
        if (r == 0)
                r = replace_changed(path, &all);
        return r < 0 ? err_sys(err, r, "write '%s'", path) : 0;
}
