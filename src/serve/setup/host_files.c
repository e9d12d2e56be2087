#include "serve/setup/host_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/host/instance.h"
#include "io/ca_certs.h"
#include "model/conf.h"
#include "model/network/resolvers.h"
#include "serve/setup/ca_bundle.h"
#include "serve/setup/datadir.h"
#include "serve/setup/host_files_write.h"
#include "sys/fs.h"
#include "sys/proc.h"

#define DEPTH_MAX 3u
#define FILE_MAX (1u << 20)
#define RESOLV_MAX (64u << 10)

static const char *const ca_dirs[] = {
        "/usr/local/share/ca-certificates",          /* Debian, Alpine */
        "/etc/pki/ca-trust/source/anchors",          /* Fedora */
        "/etc/pki/trust/anchors",                    /* openSUSE */
        "/etc/ca-certificates/trust-source/anchors", /* Arch */
        NULL,
};

const struct host_sources host_sources_default = {ca_dirs, ca_bundle_systems, "/etc/resolv.conf"};

/* ------------------------------------------------------------- the files of certificates */

typedef int on_ca_file(void *arg, int dir, const char *name);

static bool is_ca_name(const char *name)
{
        struct str s = str_of(name);

        return name[0] != '.' && (str_ends(s, ".crt") || str_ends(s, ".pem") || str_ends(s, ".cer"));
}

/* Each file that looks like a certificate, in the directory and those below it; links are followed, as
 * update-ca-certificates does. */
static int each_ca_file(int at, const char *path, unsigned depth, on_ca_file *on, void *arg)
{
        AUTO_CLOSE int dir = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        AUTO_DIR DIR *list = dir < 0 ? NULL : sys_list(dir);
        const struct dirent *e;
        int r = 0;

        while (r == 0 && list && (e = sys_list_next(list))) {
                if (is_ca_name(e->d_name))
                        r = on(arg, dir, e->d_name);
                else if (e->d_type == DT_DIR && depth < DEPTH_MAX)
                        r = each_ca_file(dir, e->d_name, depth + 1, on, arg);
        }
        return r;
}

static int each_ca(const struct host_files *h, on_ca_file *on, void *arg)
{
        const char *path = h->conf->sandbox_ca;
        struct stat st;

        for (size_t i = 0; !path && h->sources->ca_dirs[i]; i++)
                if (stat(h->sources->ca_dirs[i], &st) == 0)
                        path = h->sources->ca_dirs[i];
        if (!path || stat(path, &st) < 0)
                return 0;
        return S_ISDIR(st.st_mode) ? each_ca_file(AT_FDCWD, path, 0, on, arg) : on(arg, AT_FDCWD, path);
}

static int read_at(int dir, const char *name, struct buf *out)
{
        AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat st;
        ssize_t n;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        do
                n = buf_fill(out, fd, 65536);
        while (n > 0);
        return (int)n;
}

static int take_ca(void *arg, int dir, const char *name)
{
        AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);
        int r = read_at(dir, name, &text);

        if (r == 0)
                r = ca_certs_add(arg, (struct str){(const char *)buf_at(&text), text.len});
        if (r < 0)
                log_warn("sandbox_ca.skipped", "file=%s error=\"%s\"", name,
                         r == -EINVAL ? "no certificate in it" : strerror(-r));
        return r == -ENOMEM ? r : 0;
}

/* ------------------------------------------------------------- what stat(2) says */

static void stamp_add(uint64_t *stamp, const void *p, size_t n)
{
        for (size_t i = 0; i < n; i++)
                *stamp = (*stamp ^ ((const uint8_t *)p)[i]) * 0x100000001b3u; /* FNV-1a */
}

static int stamp_file(void *arg, int dir, const char *name)
{
        struct stat st;
        const bool is_there = fstatat(dir, name, &st, 0) == 0;

        stamp_add(arg, name, strlen(name) + 1);
        if (!is_there)
                return 0;
        stamp_add(arg, &st.st_ino, sizeof(st.st_ino));
        stamp_add(arg, &st.st_size, sizeof(st.st_size));
        stamp_add(arg, &st.st_mtim, sizeof(st.st_mtim));
        stamp_add(arg, &st.st_ctim, sizeof(st.st_ctim));
        return 0;
}

static uint64_t stamp_all(const struct host_files *h)
{
        uint64_t stamp = 0xcbf29ce484222325u;

        (void)each_ca(h, stamp_file, &stamp);
        for (size_t i = 0; h->sources->system_bundles[i]; i++)
                (void)stamp_file(&stamp, AT_FDCWD, h->sources->system_bundles[i]);
        (void)stamp_file(&stamp, AT_FDCWD, h->sources->resolv_conf);
        return stamp;
}

/* ------------------------------------------------------------- all of it */

static int make_resolv_conf(const struct host_files *h, struct buf *out)
{
        AUTO_BUF struct buf text = BUF_INIT(RESOLV_MAX);
        struct resolvers r;

        if (read_at(AT_FDCWD, h->sources->resolv_conf, &text) < 0)
                buf_reset(&text); /* none: the C library asks 127.0.0.1 then */
        resolvers_parse((struct str){text.len ? (const char *)buf_at(&text) : "", text.len}, &r);
        resolvers_replace(&r, h->conf->sandbox_dns);
        return resolvers_write(&r, resolvers_are_open(&r) ? 0 : INSTANCE_GATEWAY, out);
}

static int renew(const struct host_files *h, struct err *err)
{
        AUTO_FREE struct ca_certs *certs = calloc(1, sizeof(*certs));
        AUTO_BUF struct buf bundle = BUF_INIT(CA_BUNDLE_SYSTEM_MAX), resolv = BUF_INIT(RESOLV_MAX);
        struct host_content content = {.certs = certs, .env = h->conf->sandbox_env};
        int r = certs ? each_ca(h, take_ca, certs) : -ENOMEM;

        if (r == 0)
                r = make_resolv_conf(h, &resolv);
        if (r == 0 && certs->count > 0 && !ca_bundle_read_system(h->sources->system_bundles, &bundle))
                buf_reset(&bundle);
        content.bundle = (struct str){bundle.len ? (const char *)buf_at(&bundle) : "", bundle.len};
        content.resolv_conf = (struct str){(const char *)buf_at(&resolv), resolv.len};
        if (r < 0)
                (void)err_sys(err, r, "collect certificates");
        else if (certs->count == 0 && h->conf->sandbox_ca && access(h->conf->sandbox_ca, F_OK) < 0)
                r = err_sys(err, -errno, "sandbox_ca: '%s'", h->conf->sandbox_ca);
        else
                r = host_files_write(h->conf->data_dir, &content, err);
        if (certs)
                ca_certs_done(certs);
        return r;
}

int host_files_init(struct host_files *h, const struct conf *c, const struct host_sources *s, struct err *err)
{
        int r;

        *h = (struct host_files){.conf = c, .sources = s};
        h->used = h->seen = stamp_all(h);
        r = renew(h, err);
        if (r == 0 || err->kind != ERR_NO_SPACE)
                return r;
        h->is_full = true;
        log_warn("host_files.full", "error=\"%s\", trying again", err->msg);
        *err = (struct err){0};
        return 0;
}

void host_files_look(struct host_files *h)
{
        uint64_t now = stamp_all(h), before = h->seen;
        struct err err = {0};

        h->seen = now;
        if ((now == h->used && !h->is_full) || now != before)
                return;
        if (renew(h, &err) < 0 && err.kind == ERR_NO_SPACE && h->is_full)
                return; /* the log has it */
        h->used = now;
        h->is_full = err.kind == ERR_NO_SPACE;
        if (err.kind != ERR_NONE)
                log_warn("host_files.kept", "error=\"%s\", new sandboxes get what there was before", err.msg);
        else
                log_info("host_files.renewed", "for=\"sandboxes that are started or resumed from now on\"");
}
