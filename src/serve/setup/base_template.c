#include "serve/setup/base_template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "serve/setup/command.h"
#include "serve/setup/datadir.h"
#include "serve/setup/mirror.h"
#include "serve/setup/recipe.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include "wire/sha256.h"

#define DPKG_STATUS_MAX (16u << 20)
#define LAYER_ID_MAX 64
#define TAIL_LINES 8u
#define TAIL_BYTES 400u

struct build {
        int layers;          /* images/layers, opened */
        char *layers_path;   /* owned */
        char *manifest_path; /* owned */
        char *temp;          /* owned: the name in layers; NULL: none */
        char *root;          /* owned: its whole path */
        char *mirror;        /* owned */
        uint64_t started_ms;
        char tail[TAIL_LINES][TAIL_BYTES]; /* what the tools said last, for when they fail */
        unsigned tail_at;
        char layer[LAYER_ID_MAX];
};

static void template_say(const struct build *b, const char *what)
{
        (void)printf("template %s: [%3u s] %s\n", RECIPE_ALIAS, (unsigned)((clock_mono_ms() - b->started_ms) / 1000),
                     what);
        (void)fflush(stdout);
}

/* What killed builds left behind.  Called with the lock held, so none of them is alive. */
static void template_remove_leftovers(const struct build *b)
{
        DIR *dir = opendir(b->layers_path);
        const struct dirent *e;

        while (dir && (e = readdir(dir))) {
                if (strncmp(e->d_name, ".tmp-", 5) == 0)
                        (void)sys_remove_tree(b->layers, e->d_name); /* if it stays, the next call tries again */
        }
        if (dir)
                (void)closedir(dir);
}

/* --- the tree --- */

static void on_build_line(struct str line, void *arg)
{
        struct build *b = arg;
        char text[TAIL_BYTES];

        (void)snprintf(text, sizeof(text), "%.*s", STR_ARG(line));
        memcpy(b->tail[b->tail_at++ % TAIL_LINES], text, sizeof(text));
        if (str_starts(line, "I: ") && !str_starts(line, "I: running --")) /* a hook, with all its text */
                template_say(b, text + 3);
}

static void show_tail(const struct build *b)
{
        for (unsigned i = b->tail_at > TAIL_LINES ? b->tail_at - TAIL_LINES : 0; i < b->tail_at; i++)
                (void)fprintf(stderr, "  %s\n", b->tail[i % TAIL_LINES]);
}

static int template_run_tool(struct build *b, const char *const *argv, const char *root, struct err *err)
{
        const struct command c = {.argv = argv, .root = root, .on_line = on_build_line, .arg = b, .skip_flushes = true};
        int r;

        b->tail_at = 0;
        r = command_run(&c, err);
        if (r < 0 && err->kind != ERR_UNAVAILABLE)
                show_tail(b);
        return r;
}

/* Manual pages and documents stay out, licences stay in.  mmdebstrap would pass the first packages, which it unpacks itself,
 * through a slow filter for that: instead the files are removed after that step, and dpkg learns to leave them out for
 * all later ones. */
static const char leave_out_documents[] =
        "--extract-hook="
        "rm -rf \"$1\"/usr/share/man/* && "
        "find \"$1\"/usr/share/doc -mindepth 2 ! -name copyright ! -type d -delete && "
        "find \"$1\"/usr/share/doc -mindepth 1 -type d -empty -delete && "
        "printf '%s\\n' 'path-exclude=/usr/share/man/*' 'path-exclude=/usr/share/doc/*' "
        "'path-include=/usr/share/doc/*/copyright' >>\"$1\"/etc/dpkg/dpkg.cfg.d/99mmdebstrap";

static int bootstrap(struct build *b, struct err *err)
{
        AUTO_FREE char *include = NULL, *source = NULL;
        int r;

        if (asprintf(&include, "--include=%s", recipe_packages) < 0 ||
            asprintf(&source, "deb %s %s main", b->mirror, RECIPE_SUITE) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        const char *const argv[] = {"mmdebstrap",
                                    "--mode=root",
                                    "--variant=apt",
                                    "--aptopt=Acquire::Languages \"none\"",
                                    "--aptopt=Acquire::Retries \"3\"",
                                    "--dpkgopt=force-unsafe-io",
                                    leave_out_documents,
                                    include,
                                    RECIPE_SUITE,
                                    b->root,
                                    source,
                                    NULL};

        /* apt's own user downloads, and must get there; others would have to guess the name. */
        if (fchmod(b->layers, 0711) < 0)
                return err_sys(err, -errno, "open '%s' to apt", b->layers_path);
        r = template_run_tool(b, argv, NULL, err);
        if (fchmod(b->layers, 0700) < 0 && r == 0)
                r = err_sys(err, -errno, "close '%s'", b->layers_path);
        return r;
}

static int put_file(int root, const struct recipe_file *f)
{
        AUTO_CLOSE int fd = -1;
        size_t n = strlen(f->text);

        (void)unlinkat(root, f->path, 0); /* a link there would lead elsewhere */
        fd = openat(root, f->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, f->mode);
        if (fd < 0 || write(fd, f->text, n) != (ssize_t)n || fchown(fd, f->owner, f->owner) < 0 ||
            fchmod(fd, f->mode) < 0)
                return -errno;
        return 0;
}

static int configure(struct build *b, struct err *err)
{
        AUTO_CLOSE int root = -1;
        int r = 0;

        template_say(b, "setting up the user and the environment");
        for (size_t i = 0; r == 0 && recipe_steps[i]; i++)
                r = template_run_tool(b, recipe_steps[i], b->root, err);
        if (r < 0)
                return r;
        root = open(b->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return err_sys(err, -errno, "open '%s'", b->root);
        for (const struct recipe_file *f = recipe_files; f->path; f++) {
                r = put_file(root, f);
                if (r < 0)
                        return err_sys(err, r, "write '/%s' in the template", f->path);
        }
        return 0;
}

static int add_recipe(struct buf *text)
{
        int r = buf_addf(text, "%s\n%s\n", RECIPE_SUITE, recipe_packages);

        for (size_t i = 0; r == 0 && recipe_steps[i]; i++)
                for (size_t k = 0; r == 0 && recipe_steps[i][k]; k++)
                        r = buf_addf(text, "%s\n", recipe_steps[i][k]);
        for (const struct recipe_file *f = recipe_files; r == 0 && f->path; f++)
                r = buf_addf(text, "%s %o %u\n%s\n", f->path, f->mode, f->owner, f->text);
        return r;
}

/* Named after its content: the recipe and the exact packages. */
static int name_layer(struct build *b, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(DPKG_STATUS_MAX);
        AUTO_FREE char *path = NULL;
        char hex[SHA256_HEX_LEN + 1];
        int r;

        if (asprintf(&path, "%s/var/lib/dpkg/status", b->root) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = add_recipe(&text);
        if (r == 0)
                r = file_read(path, &text);
        if (r < 0)
                return err_sys(err, r, "read '%s'", path);
        sha256_hex((struct str){(const char *)buf_at(&text), text.len}, hex);
        (void)snprintf(b->layer, sizeof(b->layer), "%s-%.16s", RECIPE_ALIAS, hex);
        return 0;
}

/* --- in place --- */

static int install_layer(struct build *b, struct err *err)
{
        struct stat st;

        template_say(b, "flushing to disk");
        if (syncfs(b->layers) < 0)
                return err_sys(err, -errno, "flush the template to disk");
        if (fstatat(b->layers, b->layer, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return 0; /* the very same content is there already; b->temp is removed as leftover */
        if (renameat(b->layers, b->temp, b->layers, b->layer) < 0)
                return err_sys(err, -errno, "put layer '%s' in place", b->layer);
        free(b->temp);
        b->temp = NULL;
        if (fsync(b->layers) < 0)
                return err_sys(err, -errno, "flush the layer's name to disk");
        return 0;
}

static int install_manifest(struct build *b, struct err *err)
{
        char when[CLOCK_TEXT_MAX];
        AUTO_FREE char *text = NULL;
        json_t *m;
        int r;

        clock_format(clock_real_ns(), when);
        m = json_pack("{s:s, s:s, s:[s], s:i, s:i, s:i, s:s, s:s}", "alias", RECIPE_ALIAS, "templateID",
                      RECIPE_TEMPLATE_ID, "layers", b->layer, "cpuCount", 2, "memoryMB", 1024, "diskSizeMB", 10240,
                      "defaultUser", "user", "builtAt", when);
        text = m ? json_dumps(m, JSON_INDENT(2)) : NULL;
        json_decref(m);
        if (!text)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = file_replace(b->manifest_path, 0644, text, strlen(text));
        return r < 0 ? err_sys(err, r, "write '%s'", b->manifest_path) : 0;
}

static int template_build_tree(struct build *b, const char *mirror, struct err *err)
{
        char id[9];
        int r;

        random_id(id, 8);
        if (asprintf(&b->temp, ".tmp-%s", id) < 0 || asprintf(&b->root, "%s/%s", b->layers_path, b->temp) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (mkdirat(b->layers, b->temp, 0755) < 0 || chmod(b->root, 0755) < 0)
                return err_sys(err, -errno, "make directory '%s'", b->root);
        r = mirror_find(mirror, &b->mirror, err);
        if (r < 0)
                return r;
        template_say(b, "making a Debian " RECIPE_SUITE " file system; this takes a minute or two, once");
        r = bootstrap(b, err);
        if (r == 0)
                r = configure(b, err);
        if (r == 0)
                r = name_layer(b, err);
        return r;
}

/* --- one at a time --- */

static void build_done(struct build *b)
{
        if (b->temp)
                (void)sys_remove_tree(b->layers, b->temp);
        free(b->layers_path);
        free(b->manifest_path);
        free(b->temp);
        free(b->root);
        free(b->mirror);
        close_fd(&b->layers);
}

static int build_init(struct build *b, const char *images_dir, struct err *err)
{
        *b = (struct build){.layers = -1, .started_ms = clock_mono_ms()};
        if (asprintf(&b->layers_path, "%s/layers", images_dir) < 0 ||
            asprintf(&b->manifest_path, "%s/templates/%s.json", images_dir, RECIPE_ALIAS) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        b->layers = open(b->layers_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return b->layers < 0 ? err_sys(err, -errno, "open '%s'", b->layers_path) : 0;
}

/* The directory itself is the lock.  While somebody else builds, wait with signals let through: nothing is ours yet, so
 * ending there is clean. */
static int build_lock(const struct build *b, struct err *err)
{
        sigset_t set = sys_signals_to_end(), old;
        int r;

        if (flock(b->layers, LOCK_EX | LOCK_NB) == 0)
                return 0;
        template_say(b, "another build is running, waiting for it");
        (void)sigprocmask(SIG_UNBLOCK, &set, &old);
        r = flock(b->layers, LOCK_EX) < 0 ? -errno : 0;
        (void)sigprocmask(SIG_SETMASK, &old, NULL);
        return r < 0 ? err_sys(err, r, "lock '%s'", b->layers_path) : 0;
}

static bool has_template(const struct build *b)
{
        return access(b->manifest_path, F_OK) == 0;
}

static int build_locked(struct build *b, const char *mirror, struct err *err)
{
        char done[64 + LAYER_ID_MAX];
        int r;

        template_remove_leftovers(b);
        r = template_build_tree(b, mirror, err);
        if (r == 0)
                r = install_layer(b, err);
        if (r == 0)
                r = install_manifest(b, err);
        if (r < 0)
                return err_wrap(err, "template %s", RECIPE_ALIAS);
        (void)snprintf(done, sizeof(done), "done: layer %s", b->layer);
        template_say(b, done);
        return 0;
}

int base_template_build(const char *images_dir, const char *mirror, struct err *err)
{
        AUTO(build_done) struct build b;
        int r;

        r = build_init(&b, images_dir, err);
        if (r == 0)
                r = build_lock(&b, err);
        return r < 0 ? r : build_locked(&b, mirror, err);
}

int base_template_ensure(const char *images_dir, const char *mirror, struct err *err)
{
        AUTO(build_done) struct build b;
        int r;

        r = build_init(&b, images_dir, err);
        if (r < 0)
                return r;
        if (has_template(&b)) {
                if (flock(b.layers, LOCK_EX | LOCK_NB) == 0)
                        template_remove_leftovers(&b);
                return 0;
        }
        r = build_lock(&b, err);
        if (r == 0 && !has_template(&b))
                r = build_locked(&b, mirror, err);
        return r;
}
