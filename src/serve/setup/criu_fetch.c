#include "serve/setup/criu_fetch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "serve/setup/command.h"
#include "serve/setup/datadir.h"
#include "serve/setup/mirror.h"
#include "sys/fs.h"

#define SUITE "forky"
#define PATH_BYTES_MAX 4096
#define LIBS_MAX 64
#define TAIL_BYTES 160

struct fetch {
        int dir; /* criu_dir, opened */
        const char *path;
        char *temp;   /* owned: path of .tmp-*; NULL: none */
        char *mirror; /* owned */
        uint64_t started_ms;
        char tail[TAIL_BYTES];           /* what apt said last */
        char libs[LIBS_MAX][TAIL_BYTES]; /* what criu is linked with: names */
        size_t lib_count;
        char version[TAIL_BYTES];
};

static void criu_say(const struct fetch *f, const char *what)
{
        (void)printf("criu: [%3u s] %s\n", (unsigned)((clock_mono_ms() - f->started_ms) / 1000), what);
        (void)fflush(stdout);
}

static int no_memory(struct err *err)
{
        return err_set(err, ERR_LIMIT, "out of memory");
}

/* "<temp>/<below>" */
static int path_below(const struct fetch *f, char out[PATH_BYTES_MAX], const char *fmt, ...) PRINTF(3, 4);
static int path_below(const struct fetch *f, char out[PATH_BYTES_MAX], const char *fmt, ...)
{
        int n = snprintf(out, PATH_BYTES_MAX, "%s/", f->temp), more;
        va_list ap;

        if (n < 0 || n >= PATH_BYTES_MAX)
                return -ENAMETOOLONG;
        va_start(ap, fmt);
        more = vsnprintf(out + n, (size_t)(PATH_BYTES_MAX - n), fmt, ap);
        va_end(ap);
        return more < 0 || more >= PATH_BYTES_MAX - n ? -ENAMETOOLONG : 0;
}

/* ------------------------------------------------------------- apt, in a world of its own */

static const char *keyring(void)
{
        static const char *const places[] = {"/usr/share/keyrings/debian-archive-keyring.pgp",
                                             "/usr/share/keyrings/debian-archive-keyring.gpg"};

        return access(places[0], R_OK) == 0 ? places[0] : places[1];
}

/* The host's settings hold (a proxy, say), but for what would touch the host's own state or change what is chosen. */
static int write_apt_conf(const struct fetch *f, struct err *err)
{
        AUTO_BUF struct buf conf = BUF_INIT(16u << 10), sources = BUF_INIT(4096);
        char path[PATH_BYTES_MAX];
        int r;

        r = buf_addf(&conf,
                     "#clear APT::Update;\n#clear DPkg::Pre-Install-Pkgs;\n#clear DPkg::Pre-Invoke;\n"
                     "#clear DPkg::Post-Invoke;\n#clear APT::Default-Release;\n#clear APT::Architectures;\n"
                     "Dir::Etc::sourcelist \"%s/apt/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n"
                     "Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"/dev/null\";\n"
                     "Dir::State \"%s/apt\";\nDir::State::status \"%s/apt/status\";\nDir::Cache \"%s/apt/cache\";\n"
                     "APT::Install-Recommends \"0\";\nAPT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n"
                     "Acquire::Retries \"2\";\nAcquire::http::Timeout \"20\";\nAcquire::https::Timeout \"20\";\n",
                     f->temp, f->temp, f->temp, f->temp);
        if (r == 0)
                r = buf_addf(&sources, "deb [signed-by=%s] %s %s main\n", keyring(), f->mirror, SUITE);
        if (r == 0)
                r = path_below(f, path, "apt/apt.conf");
        if (r == 0)
                r = file_replace(path, 0644, buf_at(&conf), conf.len);
        if (r == 0)
                r = path_below(f, path, "apt/sources.list");
        if (r == 0)
                r = file_replace(path, 0644, buf_at(&sources), sources.len);
        if (r == 0)
                r = path_below(f, path, "apt/status");
        if (r == 0)
                r = file_replace(path, 0644, "", 0);
        return r < 0 ? err_sys(err, r, "set up apt in '%s'", f->temp) : 0;
}

static int criu_make_dirs(const struct fetch *f, struct err *err)
{
        static const char *const dirs[] = {"apt",
                                           "apt/lists",
                                           "apt/lists/partial",
                                           "apt/cache",
                                           "apt/cache/archives",
                                           "apt/cache/archives/partial",
                                           "root",
                                           "tool",
                                           "tool/lib"};
        char path[PATH_BYTES_MAX];

        for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
                int r = path_below(f, path, "%s", dirs[i]);

                if (r < 0 || mkdir(path, 0755) < 0)
                        return err_sys(err, r < 0 ? r : -errno, "make '%s'", path);
        }
        return 0;
}

static void on_line(struct str line, void *arg)
{
        struct fetch *f = arg;

        if (str_starts(line, "E: ") || !str_starts(str_of(f->tail), "E: "))
                (void)snprintf(f->tail, sizeof(f->tail), "%.*s", STR_ARG(line));
}

static int criu_run_tool(struct fetch *f, const char *const *argv, void (*each)(struct str line, void *arg),
                         struct err *err)
{
        const struct command c = {.argv = argv, .on_line = each, .arg = f};
        int r;

        f->tail[0] = '\0';
        r = command_run(&c, err);
        if (r < 0 && err->kind == ERR_INTERNAL && f->tail[0])
                return err_set(err, ERR_INTERNAL, "%s: %s", argv[0], f->tail);
        return r;
}

static int download(struct fetch *f, struct err *err)
{
        char conf[PATH_BYTES_MAX];
        const char *const update[] = {"apt-get", "-c", conf, "-q", "update", NULL};
        const char *const get[] = {"apt-get", "-c", conf, "-q", "-y", "--download-only", "install", "criu", NULL};
        int r = path_below(f, conf, "apt/apt.conf");

        if (r < 0)
                return err_sys(err, r, "name apt's settings");
        criu_say(f, "reading the package lists of Debian " SUITE);
        r = criu_run_tool(f, update, on_line, err);
        if (r < 0)
                return r;
        criu_say(f, "downloading CRIU and its libraries");
        return criu_run_tool(f, get, on_line, err);
}

static int criu_unpack(struct fetch *f, struct err *err)
{
        char pattern[PATH_BYTES_MAX], root[PATH_BYTES_MAX];
        glob_t found = {0};
        int r = path_below(f, pattern, "apt/cache/archives/*.deb");

        if (r == 0)
                r = path_below(f, root, "root");
        if (r < 0)
                return err_sys(err, r, "name the packages");
        if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0) {
                globfree(&found);
                return err_set(err, ERR_INTERNAL, "apt downloaded nothing");
        }
        for (size_t i = 0; i < found.gl_pathc && r == 0; i++) {
                const char *const argv[] = {"dpkg-deb", "-x", found.gl_pathv[i], root, NULL};
                const char *name = strrchr(found.gl_pathv[i], '/') + 1;

                if (strncmp(name, "criu_", 5) == 0)
                        (void)snprintf(f->version, sizeof(f->version), "%.*s", (int)strcspn(name + 5, "_"), name + 5);
                r = criu_run_tool(f, argv, on_line, err);
        }
        globfree(&found);
        return r;
}

/* ------------------------------------------------------------- what is needed of it */

/* The one file that fits, wherever this architecture keeps it. */
static int find_one(const struct fetch *f, const char *pattern, char out[PATH_BYTES_MAX], struct err *err)
{
        char full[PATH_BYTES_MAX];
        glob_t found = {0};
        int r = path_below(f, full, "%s", pattern);

        if (r == 0 && glob(full, 0, NULL, &found) == 0 && found.gl_pathc > 0) {
                int n = snprintf(out, PATH_BYTES_MAX, "%s", found.gl_pathv[0]);

                r = n < 0 || n >= PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
        } else if (r == 0) {
                r = -ENOENT;
        }
        globfree(&found);
        return r < 0 ? err_sys(err, r, "find '%s' in the packages", pattern) : 0;
}

/* "\tlibnet.so.9 => /path/libnet.so.9 (0x...)" */
static void on_library(struct str line, void *arg)
{
        struct fetch *f = arg;
        struct str name;

        line = str_trim(line);
        if (str_cut(&line, ' ', &name) && str_starts(line, "=> /") && name.n < TAIL_BYTES && f->lib_count < LIBS_MAX &&
            !memchr(name.p, '/', name.n))
                (void)snprintf(f->libs[f->lib_count++], TAIL_BYTES, "%.*s", STR_ARG(name));
}

/* The file behind a link, under the name by which it is asked for. */
static int criu_keep(const struct fetch *f, const char *from, const char *as, struct err *err)
{
        AUTO_FREE char *file = realpath(from, NULL);
        char to[PATH_BYTES_MAX];
        int r = file ? path_below(f, to, "tool/%s", as) : -errno;

        if (r == 0 && (strncmp(file, f->temp, strlen(f->temp)) != 0 || rename(file, to) < 0))
                r = errno ? -errno : -EXDEV;
        return r < 0 ? err_sys(err, r, "keep '%s'", as) : 0;
}

static int criu_pick(struct fetch *f, struct err *err)
{
        char loader[PATH_BYTES_MAX], program[PATH_BYTES_MAX], libs[PATH_BYTES_MAX], path[PATH_BYTES_MAX],
                as[TAIL_BYTES + 8];
        const char *const list[] = {loader, "--library-path", libs, "--list", program, NULL};
        int r;

        if ((r = find_one(f, "root/usr/lib/*-linux-gnu*/ld-linux*.so.*", loader, err)) < 0 ||
            (r = find_one(f, "root/usr/sbin/criu", program, err)) < 0)
                return r;
        (void)snprintf(libs, sizeof(libs), "%.*s", (int)(strrchr(loader, '/') - loader), loader);
        r = criu_run_tool(f, list, on_library, err);
        if (r == 0 && f->lib_count == 0)
                r = err_set(err, ERR_INTERNAL, "CRIU's libraries are not in the packages");
        for (size_t i = 0; i < f->lib_count && r == 0; i++) {
                int n = snprintf(path, sizeof(path), "%s/%s", libs, f->libs[i]);

                (void)snprintf(as, sizeof(as), "lib/%s", f->libs[i]);
                r = n < 0 || (size_t)n >= sizeof(path) ? err_sys(err, -ENAMETOOLONG, "%s", as)
                                                       : criu_keep(f, path, as, err);
        }
        if (r == 0)
                r = criu_keep(f, loader, "ld.so", err);
        return r < 0 ? r : criu_keep(f, program, "criu", err);
}

static int criu_install(struct fetch *f, struct err *err)
{
        char tool[PATH_BYTES_MAX], version[PATH_BYTES_MAX];
        int r = path_below(f, version, "tool/version");

        if (r == 0)
                r = file_replace(version, 0644, f->version, strlen(f->version));
        if (r == 0)
                r = path_below(f, tool, "tool");
        if (r == 0 && syncfs(f->dir) < 0)
                r = -errno;
        if (r == 0)
                r = sys_remove_tree(f->dir, "tool"); /* one that did not work */
        if (r == 0 && (renameat(AT_FDCWD, tool, f->dir, "tool") < 0 || fsync(f->dir) < 0))
                r = -errno;
        return r < 0 ? err_sys(err, r, "put CRIU in place") : 0;
}

/* ------------------------------------------------------------- all of it */

static void criu_remove_leftovers(const struct fetch *f)
{
        DIR *d = opendir(f->path);
        const struct dirent *e;

        while (d && (e = readdir(d)))
                if (strncmp(e->d_name, ".tmp-", 5) == 0)
                        (void)sys_remove_tree(f->dir, e->d_name); /* if it stays, the next call tries again */
        if (d)
                (void)closedir(d);
}

static int fetch_into_temp(struct fetch *f, const char *mirror, struct err *err)
{
        int r;

        if ((r = criu_make_dirs(f, err)) < 0 || (r = mirror_find(mirror, &f->mirror, err)) < 0 ||
            (r = write_apt_conf(f, err)) < 0 || (r = download(f, err)) < 0 || (r = criu_unpack(f, err)) < 0 ||
            (r = criu_pick(f, err)) < 0)
                return r;
        return criu_install(f, err);
}

int criu_fetch(const char *criu_dir, const char *mirror, struct err *err)
{
        struct fetch f = {.path = criu_dir, .started_ms = clock_mono_ms()};
        char name[16] = ".tmp-", done[TAIL_BYTES + 32];
        int r;

        f.dir = open(criu_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (f.dir < 0)
                return err_sys(err, -errno, "open '%s'", criu_dir);
        criu_remove_leftovers(&f);
        random_id(name + 5, 8);
        if (asprintf(&f.temp, "%s/%s", criu_dir, name) < 0) {
                f.temp = NULL;
                r = no_memory(err);
        } else {
                r = mkdirat(f.dir, name, 0700) < 0 ? err_sys(err, -errno, "make '%s'", f.temp)
                                                   : fetch_into_temp(&f, mirror, err);
        }
        if (r == 0) {
                (void)snprintf(done, sizeof(done), "done: CRIU %s", f.version);
                criu_say(&f, done);
        }
        criu_remove_leftovers(&f);
        free(f.temp);
        free(f.mirror);
        close_fd(&f.dir);
        return r < 0 ? err_wrap(err, "fetch CRIU") : 0;
}
