#include "serve/setup/host_files_write.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/storage/host_layer.h"
#include "io/ca_certs.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include "wire/sha256.h"

#define FRESH ".new-given"
#define LINK ".new-link"
#define NAME_MAX_BYTES 48
#define TEXT_MAX (8u << 20)

/* What sudo would drop: with these, `sudo npm install` trusts and reaches what `npm install` does. */
#define KEPT_VARS                                                                                                      \
        "SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PIP_CERT GIT_SSL_CAINFO AWS_CA_BUNDLE NODE_EXTRA_CA_CERTS "   \
        "DENO_CERT"

static int put(int dir, const char *path, mode_t mode, struct str text)
{
        AUTO_CLOSE int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        size_t done = 0;

        if (fd < 0)
                return -errno;
        while (done < text.n) {
                ssize_t n = write(fd, text.p + done, text.n - done);

                if (n < 0)
                        return -errno;
                done += (size_t)n;
        }
        return fchmod(fd, mode) < 0 ? -errno : 0;
}

static int make_dirs(int dir)
{
        int r = sys_make_dir(dir, HOST_LAYER_FILES, 0755);
        char path[128];

        for (size_t i = 0; i < HOST_LAYER_DIRS && r == 0; i++) {
                (void)snprintf(path, sizeof(path), HOST_LAYER_FILES "/%s", host_layer_dirs[i]);
                if (mkdirat(dir, path, 0755) < 0)
                        r = -errno;
        }
        return r;
}

/* ------------------------------------------------------------- certificates */

static unsigned count_before(const struct ca_certs *c, size_t at)
{
        unsigned n = 0;

        for (size_t i = 0; i < at; i++)
                n += c->list[i].name_hash == c->list[at].name_hash;
        return n;
}

/* For OpenSSL, which finds a certificate by the hash of its subject, as file .0, .1 and so on without a gap.
 * Two authorities with one subject are rare; the image's with the same subject would be hidden in this directory, not in the bundle. */
static int put_cert(int dir, const struct ca_certs *c, size_t i)
{
        const struct ca_cert *one = &c->list[i];
        char path[128];
        int r;

        (void)snprintf(path, sizeof(path), HOST_LAYER_FILES "/etc/ssl/certs/%08x.%u", one->name_hash,
                       count_before(c, i));
        r = put(dir, path, 0644, str_of(one->pem));
        if (r < 0)
                return r;
        (void)snprintf(path, sizeof(path), HOST_LAYER_FILES "/usr/local/share/ca-certificates/sandglass-%s.crt",
                       one->mark);
        return put(dir, path, 0644, str_of(one->pem));
}

static struct str text_of(const struct buf *b)
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

static int put_certs(int dir, const struct host_content *c)
{
        AUTO_BUF struct buf extra = BUF_INIT(TEXT_MAX), bundle = BUF_INIT(TEXT_MAX);
        int r = buf_add(&bundle, c->bundle.p, c->bundle.n);

        for (size_t i = 0; i < c->certs->count && r == 0; i++) {
                const char *pem = c->certs->list[i].pem;

                r = put_cert(dir, c->certs, i);
                if (r == 0)
                        r = buf_addc(&extra, pem);
                if (r == 0 && !memmem(c->bundle.p, c->bundle.n, pem, strlen(pem)))
                        r = buf_addf(&bundle, "%s%s", bundle.len && !str_ends(text_of(&bundle), "\n") ? "\n" : "", pem);
        }
        if (r == 0)
                r = put(dir, HOST_LAYER_EXTRA, 0644, text_of(&extra));
        if (r == 0)
                r = put(dir, HOST_LAYER_BUNDLE, 0644, text_of(&bundle));
        if (r == 0 && linkat(dir, HOST_LAYER_EXTRA, dir, HOST_LAYER_FILES HOST_LAYER_CA, 0) < 0)
                r = -errno;
        if (r == 0 && linkat(dir, HOST_LAYER_BUNDLE, dir, HOST_LAYER_FILES HOST_LAYER_CA_ALL, 0) < 0)
                r = -errno;
        return r;
}

/* ------------------------------------------------------------- sudo */

static bool is_variable(const char *name)
{
        if (!isalpha((unsigned char)name[0]) && name[0] != '_')
                return false;
        for (; *name; name++)
                if (!isalnum((unsigned char)*name) && *name != '_')
                        return false;
        return true;
}

static int put_sudoers(int dir, const struct host_content *c)
{
        AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
        const char *name;
        json_t *v;
        int r = buf_addc(&text, "Defaults env_keep += \"" KEPT_VARS);

        json_object_foreach ((json_t *)c->env, name, v)
                if (r == 0 && is_variable(name))
                        r = buf_addf(&text, " %s", name);
        if (r == 0)
                r = buf_addc(&text, "\"\n");
        return r < 0 ? r : put(dir, HOST_LAYER_FILES "/etc/sudoers.d/sandglass", 0440, text_of(&text));
}

/* ------------------------------------------------------------- the directory */

static int write_all(int dir, const struct host_content *c)
{
        int r = make_dirs(dir);

        if (r == 0)
                r = put(dir, HOST_LAYER_FILES "/etc/resolv.conf", 0644, c->resolv_conf);
        if (r == 0 && c->certs->count > 0)
                r = put_certs(dir, c);
        if (r == 0 && (c->certs->count > 0 || json_object_size(c->env) > 0))
                r = put_sudoers(dir, c);
        return r;
}

static void add_text(struct sha256 *sum, struct str text)
{
        sha256_add(sum, &text.n, sizeof(text.n));
        sha256_add(sum, text.p, text.n);
}

static int name_given(const struct host_content *c, char out[NAME_MAX_BYTES])
{
        char boot[SYS_BOOT_ID_MAX] = "", hex[2 * SHA256_LEN + 1];
        uint8_t digest[SHA256_LEN];
        struct sha256 sum;
        const char *name;
        json_t *v;
        int r = sys_boot_id(boot);

        if (r < 0)
                return r;
        sha256_init(&sum);
        add_text(&sum, str_of(boot));
        add_text(&sum, c->resolv_conf);
        add_text(&sum, c->certs->count > 0 ? c->bundle : STR(""));
        for (size_t i = 0; i < c->certs->count; i++)
                add_text(&sum, str_of(c->certs->list[i].pem));
        json_object_foreach ((json_t *)c->env, name, v)
                add_text(&sum, str_of(name));
        sha256_end(&sum, digest);
        hex_encode(digest, sizeof(digest), hex);
        (void)snprintf(out, NAME_MAX_BYTES, HOST_LAYER_GIVEN "-%.24s", hex);
        return 0;
}

static bool is_given(int host, const char *name)
{
        char now[NAME_MAX_BYTES];
        ssize_t n = readlinkat(host, HOST_LAYER_GIVEN, now, sizeof(now) - 1);

        now[n > 0 ? n : 0] = '\0';
        return strcmp(now, name) == 0 && faccessat(host, name, F_OK, 0) == 0;
}

/* Directories of before: what the engine made of them has links to their files. */
static void remove_others(int host, const char *name)
{
        AUTO_DIR DIR *list = sys_list(host);
        const struct dirent *e;

        while (list && (e = sys_list_next(list)))
                if (str_starts(str_of(e->d_name), HOST_LAYER_GIVEN "-") && strcmp(e->d_name, name) != 0)
                        (void)sys_remove_tree(host, e->d_name); /* the next time tries again */
}

static int write_given(int host, const char *name, const struct host_content *c)
{
        AUTO_CLOSE int dir = -1;
        int r = sys_remove_tree(host, FRESH);

        if (r == 0)
                r = sys_make_dir(host, FRESH, 0755);
        if (r == 0)
                r = dir = sys_open_dir(host, FRESH);
        if (r >= 0)
                r = write_all(dir, c);
        if (r == 0)
                r = sys_remove_tree(host, name); /* of a time when the rename below failed */
        if (r == 0 && renameat(host, FRESH, host, name) < 0)
                r = -errno;
        (void)unlinkat(host, LINK, 0);
        if (r == 0 && (symlinkat(name, host, LINK) < 0 || renameat(host, LINK, host, HOST_LAYER_GIVEN) < 0))
                r = -errno;
        return r;
}

int host_files_write(const char *data_dir, const struct host_content *c, struct err *err)
{
        AUTO_CLOSE int data = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), host = -1;
        char name[NAME_MAX_BYTES];
        int r = data < 0 ? -errno : sys_make_dir(data, HOST_LAYER_DIR, 0700);

        if (r == 0)
                r = host = sys_open_dir(data, HOST_LAYER_DIR);
        if (r >= 0)
                r = name_given(c, name);
        if (r == 0 && !is_given(host, name))
                r = write_given(host, name, c);
        if (r < 0)
                return err_sys(err, r, "write " HOST_LAYER_DIR "/" HOST_LAYER_GIVEN);
        remove_others(host, name);
        return 0;
}
