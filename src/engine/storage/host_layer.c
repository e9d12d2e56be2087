#include "engine/storage/host_layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/log.h"
#include "engine/storage/host_layer_look.h"
#include "model/ids.h"
#include "sys/fs.h"
#include "wire/sha256.h"

#define BUNDLE_MAX (2 * HOST_BUNDLE_MAX) /* with the operator's certificates */
#define KEY_MAX 40
#define FOUND_MAX 4096u

const char *const host_layer_dirs[HOST_LAYER_DIRS] = {
        [HOST_ETC] = "etc",
        [HOST_SANDGLASS] = "etc/sandglass",
        [HOST_SSL] = "etc/ssl",
        [HOST_CERTS] = "etc/ssl/certs",
        [HOST_SUDOERS] = "etc/sudoers.d",
        [HOST_USR] = "usr",
        [HOST_LOCAL] = "usr/local",
        [HOST_SHARE] = "usr/local/share",
        [HOST_AUTHORITIES] = "usr/local/share/ca-certificates",
};

static const char bundle_path[] = HOST_BUNDLE_PATH;

void host_layer_init(struct host_layer *h, int dir, const char *boot_id)
{
        *h = (struct host_layer){.dir = dir};
        (void)snprintf(h->trees, sizeof(h->trees), "trees-%s", boot_id);
}

static void forget_found(struct host_layer *h)
{
        MAP_EACH (slot, &h->found)
                free(slot->value);
        map_done(&h->found);
        h->found = (struct map){0};
}

void host_layer_done(struct host_layer *h)
{
        forget_found(h);
}

void host_layer_tidy(const struct host_layer *h)
{
        AUTO_DIR DIR *list = h->dir < 0 ? NULL : sys_list(h->dir);
        const struct dirent *e;

        while (list && (e = sys_list_next(list)))
                if (str_starts(str_of(e->d_name), "trees-") && strcmp(e->d_name, h->trees) != 0)
                        (void)sys_remove_tree(h->dir, e->d_name); /* the next engine tries again */
}

/* ------------------------------------------------------------- which one */

static int open_layer(const struct host_layer_stack *s, const char *name)
{
        return sys_open_beneath(layer_id_is_sealed(name) ? s->sealed : s->layers, name, O_PATH | O_DIRECTORY, 0);
}

static const struct host_found *find(struct host_layer *h, const struct host_layer_stack *s, size_t i)
{
        struct host_found *f = map_get(&h->found, str_of(s->names[i]));
        AUTO_CLOSE int layer = -1;

        if (f)
                return f;
        if (h->found.used >= FOUND_MAX)
                return NULL;
        layer = open_layer(s, s->names[i]);
        f = layer < 0 ? NULL : calloc(1, sizeof(*f));
        if (f && (host_look(layer, f) < 0 || map_put(&h->found, str_of(s->names[i]), f, NULL) < 0)) {
                free(f);
                f = NULL;
        }
        return f;
}

/* What the template's directories look like, from all its layers. */
static int look_at_stack(struct host_layer *h, const struct host_layer_stack *s, struct host_view *v)
{
        const struct host_found *found[PLAN_LAYERS_MAX];

        if (h->found.used + s->count > FOUND_MAX)
                forget_found(h);
        for (size_t i = 0; i < s->count; i++) {
                found[i] = find(h, s, i);
                if (!found[i])
                        return -EIO;
        }
        host_view_merge(v, found, s->count);
        return 0;
}

int host_layer_version(int dir, char out[HOST_LAYER_VERSION_MAX])
{
        ssize_t n = readlinkat(dir, HOST_LAYER_GIVEN, out, HOST_LAYER_VERSION_MAX - 1);

        if (n < 0)
                return -errno;
        out[n] = '\0';
        return strchr(out, '/') ? -EINVAL : 0;
}

bool host_layer_version_is_valid(struct str name)
{
        static const char prefix[] = HOST_LAYER_GIVEN "-", chars[] = "0123456789abcdefghijklmnopqrstuvwxyz";

        return name.n < HOST_LAYER_VERSION_MAX && str_starts(name, prefix) &&
               strspn(name.p + strlen(prefix), chars) == name.n - strlen(prefix);
}

static void name_tree(const char *given, const struct host_view *v, char out[KEY_MAX])
{
        uint8_t digest[SHA256_LEN];
        struct sha256 sum;

        sha256_init(&sum);
        sha256_add(&sum, given, strlen(given) + 1);
        sha256_add(&sum, v->dirs, sizeof(v->dirs));
        sha256_add(&sum, &v->bundle.kind, sizeof(v->bundle.kind));
        if (v->bundle.kind == HOST_FILE)
                sha256_add(&sum, v->digest, sizeof(v->digest));
        sha256_end(&sum, digest);
        hex_encode(digest, 16, out);
}

/* ------------------------------------------------------------- making it */

/* Links: the files are the same in all of these layers. */
static int link_files(int from, int to)
{
        AUTO_DIR DIR *list = sys_list(from);
        const struct dirent *e;
        struct stat st;

        while (list && (e = sys_list_next(list)))
                if (fstatat(from, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
                    linkat(from, e->d_name, to, e->d_name, 0) < 0)
                        return -errno;
        return list ? 0 : -errno;
}

static int make_dir(int given, int tree, enum host_dir d, const struct host_entry *like)
{
        AUTO_CLOSE int from = -1, to = -1;
        char path[80];
        int r;

        if (mkdirat(tree, host_layer_dirs[d], 0700) < 0)
                return -errno;
        (void)snprintf(path, sizeof(path), HOST_LAYER_FILES "/%s", host_layer_dirs[d]);
        from = sys_open_dir(given, path);
        to = sys_open_dir(tree, host_layer_dirs[d]);
        r = from < 0 ? from : to < 0 ? to : link_files(from, to);
        if (r == 0 && like->kind == HOST_DIR && (fchown(to, like->uid, like->gid) < 0 || fchmod(to, like->mode) < 0))
                r = -errno;
        if (r == 0 && like->kind != HOST_DIR && fchmod(to, 0755) < 0)
                r = -errno;
        return r;
}

static int read_file(int dir, const char *path, struct buf *out)
{
        AUTO_CLOSE int fd = sys_open_beneath(dir, path, O_RDONLY | O_NONBLOCK, 0);
        ssize_t n;

        if (fd < 0)
                return fd;
        do
                n = buf_fill(out, fd, 65536);
        while (n > 0);
        return (int)n;
}

/* Each of the operator's certificates that the template does not have already. */
static int add_extra(struct buf *bundle, struct str extra)
{
        static const char end[] = "-----END CERTIFICATE-----\n";
        int r = bundle->len > 0 && buf_at(bundle)[bundle->len - 1] != '\n' ? buf_addc(bundle, "\n") : 0;

        while (r == 0 && extra.n > 0) {
                const char *last = memmem(extra.p, extra.n, end, strlen(end));
                size_t n = last ? (size_t)(last - extra.p) + strlen(end) : extra.n;

                if (!memmem(buf_at(bundle), bundle->len, extra.p, n))
                        r = buf_add(bundle, extra.p, n);
                extra = (struct str){extra.p + n, extra.n - n};
        }
        return r;
}

static int write_bundle(int tree, struct buf *text)
{
        AUTO_CLOSE int fd = openat(tree, bundle_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        int r = fd < 0 ? -errno : 0;

        while (r >= 0 && text->len > 0)
                r = (int)buf_drain(text, fd);
        return r < 0 ? r : fchmod(fd, 0644) < 0 ? -errno : 0;
}

static int make_bundle(int given, int tree, const struct host_view *v, const struct host_layer_stack *s)
{
        AUTO_BUF struct buf text = BUF_INIT(BUNDLE_MAX), extra = BUF_INIT(BUNDLE_MAX);
        AUTO_CLOSE int layer = -1;
        int r;

        if (v->bundle.kind == HOST_OTHER || v->dirs[HOST_CERTS].kind == HOST_OTHER ||
            faccessat(given, HOST_LAYER_EXTRA, F_OK, 0) < 0)
                return 0; /* a link, for example: of a distribution that has its bundle elsewhere */
        if (v->bundle.kind != HOST_FILE)
                return linkat(given, HOST_LAYER_BUNDLE, tree, bundle_path, 0) < 0 ? -errno : 0;
        layer = open_layer(s, s->names[v->bundle_layer]);
        r = layer < 0 ? layer : read_file(layer, bundle_path, &text);
        if (r == 0)
                r = read_file(given, HOST_LAYER_EXTRA, &extra);
        if (r == 0)
                r = add_extra(&text, (struct str){(const char *)buf_at(&extra), extra.len});
        return r < 0 ? r : write_bundle(tree, &text);
}

static bool is_wanted(int given, const struct host_view *v, enum host_dir d)
{
        if (v->dirs[d].kind == HOST_OTHER)
                return false;
        if (d == HOST_SUDOERS)
                return v->dirs[d].kind == HOST_DIR; /* without sudo there is nothing to tell it */
        return d == HOST_ETC || faccessat(given, HOST_LAYER_EXTRA, F_OK, 0) == 0;
}

static int fill_tree(int given, int tree, const struct host_view *v, const struct host_layer_stack *s)
{
        int r = 0;

        for (unsigned d = 0; d < HOST_LAYER_DIRS && r == 0; d++)
                if (is_wanted(given, v, d))
                        r = make_dir(given, tree, d, &v->dirs[d]);
        return r < 0 ? r : make_bundle(given, tree, v, s);
}

/* Under another name first: several processes start sandboxes. */
static int make_tree(const struct host_layer *h, const char *given_name, const char *name, const struct host_view *v,
                     const struct host_layer_stack *s)
{
        AUTO_CLOSE int given = sys_open_dir(h->dir, given_name), trees = -1, tree = -1;
        char fresh[32] = ".new-";
        int r = given < 0 ? given : sys_make_dir(h->dir, h->trees, 0700);

        if (r == 0)
                r = trees = sys_open_dir(h->dir, h->trees);
        if (r < 0)
                return r;
        random_id(fresh + strlen(fresh), 12);
        r = sys_make_dir(trees, fresh, 0755);
        if (r == 0)
                r = tree = sys_open_dir(trees, fresh);
        if (r >= 0)
                r = fill_tree(given, tree, v, s);
        if (r == 0 && renameat2(trees, fresh, trees, name, RENAME_NOREPLACE) < 0 && errno != EEXIST)
                r = -errno;
        (void)sys_remove_tree(trees, fresh); /* if another process was faster, or this one failed */
        return r;
}

static int open_tree_dir(struct host_layer *h, const struct host_layer_stack *s)
{
        char given[HOST_LAYER_VERSION_MAX], name[KEY_MAX], path[sizeof(h->trees) + KEY_MAX];
        struct host_view v;
        int r = host_layer_version(h->dir, given);

        if (r == 0)
                r = look_at_stack(h, s, &v);
        if (r < 0)
                return r;
        name_tree(given, &v, name);
        (void)snprintf(path, sizeof(path), "%s/%s", h->trees, name);
        r = sys_open_beneath(h->dir, path, O_PATH | O_DIRECTORY, 0);
        if (r != -ENOENT)
                return r;
        r = make_tree(h, given, name, &v, s);
        return r < 0 ? r : sys_open_beneath(h->dir, path, O_PATH | O_DIRECTORY, 0);
}

int host_layer_open(struct host_layer *h, const struct host_layer_stack *s)
{
        int r;

        if (h->dir < 0)
                return -1;
        r = open_tree_dir(h, s);
        if (r == -ENOENT)
                r = open_tree_dir(h, s); /* what is given was replaced in between */
        if (r < 0)
                log_warn("host_layer.none", "error=\"%s\", the sandbox has the template's own files", strerror(-r));
        return r < 0 ? -1 : r;
}
