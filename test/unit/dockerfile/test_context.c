/* The files of a COPY, in directories made for it. */
#include "dockerfile/context.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/fs.h"

#include "tap.h"

struct tree {
        char dir[64];
        struct context context;
        struct dockerfile_copy copy;
        struct context_files files;
        struct problems problems;
        struct err err;
        int r;
};

static void tree_done(struct tree *t)
{
        context_files_done(&t->files);
        if (t->context.dir > 0)
                context_close(&t->context);
        problems_done(&t->problems);
        json_decref(t->copy.step);
        if (t->dir[0])
                (void)sys_remove_tree(AT_FDCWD, t->dir);
}
#define AUTO_TREE AUTO(tree_done)

static void put(const struct tree *t, const char *name, const char *content)
{
        AUTO_FREE char *path = NULL;
        FILE *f;

        if (asprintf(&path, "%s/%s", t->dir, name) < 0)
                abort();
        for (char *p = path + strlen(t->dir) + 1; (p = strchr(p, '/')); p++) {
                *p = 0;
                (void)mkdir(path, 0755);
                *p = '/';
        }
        f = fopen(path, "w");
        if (!f || fputs(content, f) < 0 || fclose(f) != 0 || chmod(path, 0644) < 0)
                abort();
}

static void start(struct tree *t)
{
        (void)snprintf(t->dir, sizeof(t->dir), "/tmp/test_context-XXXXXX");
        if (!mkdtemp(t->dir))
                abort();
        put(t, "a.txt", "A");
        put(t, "b.txt", "BB");
        put(t, "src/one.js", "1");
        put(t, "src/lib/two.js", "2");
        put(t, "node_modules/x/y.js", "no");
        put(t, ".dockerignore", "node_modules\n");
}

/* The archive's names, with blanks between; "!" and the problem when there is one. */
static char *found(struct tree *t, enum dockerfile_copy_kind kind, const char *src, const char *dest)
{
        size_t n = 0;
        char *out = NULL;
        FILE *f = open_memstream(&out, &n);

        context_files_done(&t->files);
        problems_done(&t->problems);
        json_decref(t->copy.step);
        if (t->context.dir <= 0 && context_open(t->dir, NULL, &t->context, &t->problems, &t->err) < 0)
                abort();
        t->copy = (struct dockerfile_copy){.kind = kind,
                                           .line = 3,
                                           .src = (char *)src,
                                           .dest = (char *)dest,
                                           .step = json_pack("{s:[s]}", "args", src)};
        t->r = context_find(&t->context, &t->copy, &t->files, &t->problems, &t->err);
        for (size_t i = 0; i < t->files.count; i++)
                (void)fprintf(f, "%s%s", i ? " " : "", t->files.at[i].name ? t->files.at[i].name : t->files.at[i].path);
        if (t->problems.count)
                (void)fprintf(f, "!%s", t->problems.at[0].text);
        (void)fclose(f);
        return out;
}

#define FOUND(t, src, dest, want)                                                                                      \
        do {                                                                                                           \
                AUTO_FREE char *got_ = found(t, DOCKERFILE_COPY, src, dest);                                           \
                CHECK_STR(got_, want);                                                                                 \
        } while (0)

static const char *source_sent(const struct tree *t)
{
        return json_string_value(json_array_get(json_object_get(t->copy.step, "args"), 0));
}

static void directories_are_taken_with_all_below(void)
{
        AUTO_TREE struct tree t = {0};

        start(&t);
        FOUND(&t, "src", "/app", "src src/lib src/lib/two.js src/one.js");
        FOUND(&t, "./src/lib/", "/app", "src/lib src/lib/two.js");
        FOUND(&t, ".", ".", " .dockerignore a.txt b.txt src src/lib src/lib/two.js src/one.js");
        FOUND(&t, "/a.txt", "x", "a.txt");
        CHECK_STR(source_sent(&t), "a.txt");
}

static void the_hash_is_that_of_other_clients(void)
{
        AUTO_TREE struct tree t = {0};
        AUTO_BUF struct buf text = BUF_INIT(4096);
        struct stat dir, file;
        char path[100], want[SHA256_HEX_LEN + 1];

        start(&t);
        FOUND(&t, "src/lib", "/app", "src/lib src/lib/two.js");
        (void)snprintf(path, sizeof(path), "%s/src/lib", t.dir);
        CHECK_INT(stat(path, &dir), ==, 0);
        (void)snprintf(path, sizeof(path), "%s/src/lib/two.js", t.dir);
        CHECK_INT(stat(path, &file), ==, 0);
        CHECK_INT(buf_addf(&text, "COPY src/lib /appsrc/lib%u%lldsrc/lib/two.js%u12", dir.st_mode,
                           (long long)dir.st_size, file.st_mode),
                  ==, 0);
        sha256_hex((struct str){(const char *)buf_at(&text), text.len}, want);
        CHECK_STR(t.files.hash, want);
        CHECK_STR(json_string_value(json_object_get(t.copy.step, "filesHash")), want);
}

static void wildcards_find_what_docker_finds(void)
{
        AUTO_TREE struct tree t = {0};

        start(&t);
        FOUND(&t, "*.txt", "/d/", "a.txt b.txt");
        CHECK_STR(source_sent(&t), "*.txt");
        FOUND(&t, "a*.txt", "/d", "a.txt"); /* one file may get another name */
        CHECK_STR(source_sent(&t), "a.txt");
        FOUND(&t, "src/*", "/d/", "src/two.js src/one.js"); /* of a directory what is in it */
        CHECK_STR(source_sent(&t), "src/*");
        FOUND(&t, "s*/*.js", "/d/", "src/one.js");
        FOUND(&t, "*/lib", "/d/", "two.js");
        FOUND(&t, "*.txt", "/d", "!'*.txt' matches 2 files: the destination must be a directory, and end with /");
        FOUND(&t, "*.none", "/d/", "!nothing in the context matches '*.none'");
        FOUND(&t, "node_modules/*", "/d/", "!nothing in the context matches 'node_modules/*'");
}

static void what_is_not_there_is_told(void)
{
        AUTO_TREE struct tree t = {0};

        start(&t);
        FOUND(&t, "nope", "x", "!'nope' is not in the context");
        CHECK_INT(t.problems.at[0].line, ==, 3);
        FOUND(&t, "node_modules", "x", "!'node_modules' is not in the context: .dockerignore leaves it out");
        FOUND(&t, "../x", "x", "!'../x' is outside of the context");
}

static void links_stay_links_except_for_the_source(void)
{
        AUTO_TREE struct tree t = {0};
        char path[100];

        start(&t);
        (void)snprintf(path, sizeof(path), "%s/src/link", t.dir);
        CHECK_INT(symlink("/nowhere", path), ==, 0);
        (void)snprintf(path, sizeof(path), "%s/to", t.dir);
        CHECK_INT(symlink("a.txt", path), ==, 0);
        (void)snprintf(path, sizeof(path), "%s/out", t.dir);
        CHECK_INT(symlink("/etc/passwd", path), ==, 0);
        FOUND(&t, "src", "x", "src src/lib src/lib/two.js src/link src/one.js");
        CHECK(S_ISLNK(t.files.at[3].mode));
        FOUND(&t, "to", "x", "to");
        CHECK(S_ISREG(t.files.at[0].mode));
        FOUND(&t, "out", "x", "!'out' is a link that leads out of the context");
}

static void kept_files_bring_their_directories(void)
{
        AUTO_TREE struct tree t = {0};

        start(&t);
        put(&t, ".dockerignore", "**\n!src/lib/two.js\n");
        FOUND(&t, ".", "x", " src src/lib src/lib/two.js");
}

/* What `tar -t` says of the archive. */
static char *listing(const struct tree *t, bool is_compressed)
{
        char command[200], *out = calloc(1, 4096);
        int fd = -1;
        FILE *f;
        struct err err = {0};

        if (context_archive(&t->context, &t->files, is_compressed, &fd, &err) < 0)
                return out;
        (void)snprintf(command, sizeof(command), "tar -t%s -f /proc/%d/fd/%d | tr '\\n' ' '", is_compressed ? "z" : "",
                       (int)getpid(), fd);
        f = popen(command, "r");
        if (f) {
                (void)!fread(out, 1, 4095, f);
                (void)pclose(f);
        }
        (void)close(fd);
        return out;
}

static void archives_hold_the_files(void)
{
        AUTO_TREE struct tree t = {0};
        AUTO_FREE char *plain = NULL, *zipped = NULL, *long_name = NULL, *want = NULL;
        char name[160];

        start(&t);
        FOUND(&t, "src", "/app", "src src/lib src/lib/two.js src/one.js");
        plain = listing(&t, false);
        CHECK_STR(plain, "src/ src/lib/ src/lib/two.js src/one.js ");
        zipped = listing(&t, true);
        CHECK_STR(zipped, plain);
        memset(name, 'n', sizeof(name));
        name[sizeof(name) - 1] = 0;
        put(&t, name, "long");
        FOUND(&t, name, "/app", name);
        long_name = listing(&t, true);
        CHECK(asprintf(&want, "%s ", name) > 0);
        CHECK_STR(long_name, want);
}

static void add_knows_archives(void)
{
        AUTO_TREE struct tree t = {0};
        AUTO_FREE char *as_add = NULL, *as_copy = NULL, *names = NULL, *packed = NULL;
        char command[200];

        start(&t);
        (void)snprintf(command, sizeof(command), "cd %s && tar -czf x.tgz src && tar -cJf x.txz src && gzip a.txt",
                       t.dir);
        CHECK_INT(system(command), ==, 0);
        as_add = found(&t, DOCKERFILE_ADD, "x.tgz", "/opt");
        CHECK_INT(t.files.kind, ==, CONTEXT_ARCHIVE);
        CHECK_STR(source_sent(&t), ".");
        names = listing(&t, true);
        CHECK_STR(names, "src/ src/one.js src/lib/ src/lib/two.js ");
        as_copy = found(&t, DOCKERFILE_COPY, "x.tgz", "/opt");
        CHECK_INT(t.files.kind, ==, CONTEXT_FILES);
        CHECK_STR(source_sent(&t), "x.tgz");
        packed = found(&t, DOCKERFILE_ADD, "a.txt.gz", "/opt"); /* compressed, but no archive */
        CHECK_INT(t.files.kind, ==, CONTEXT_FILES);
        free(found(&t, DOCKERFILE_ADD, "x.txz", "/opt"));
        CHECK_INT(t.files.kind, ==, CONTEXT_ARCHIVE);
        CHECK_STR(t.files.program, "xz");
        free(names);
        names = listing(&t, false);
        CHECK_STR(names, "src/ src/one.js src/lib/ src/lib/two.js ");
}

static void documents_are_files(void)
{
        AUTO_TREE struct tree t = {0};
        AUTO_FREE char *names = NULL;

        start(&t);
        CHECK_INT(context_open(t.dir, NULL, &t.context, &t.problems, &t.err), ==, 0);
        t.copy = (struct dockerfile_copy){.kind = DOCKERFILE_DOCUMENT,
                                          .src = "EOF",
                                          .dest = "/x",
                                          .content = "text",
                                          .step = json_pack("{s:[s]}", "args", "EOF")};
        CHECK_INT(context_find(&t.context, &t.copy, &t.files, &t.problems, &t.err), ==, 0);
        CHECK_INT(strlen(t.files.hash), ==, SHA256_HEX_LEN);
        names = listing(&t, true);
        CHECK_STR(names, "EOF ");
}

int main(void)
{
        RUN(directories_are_taken_with_all_below);
        RUN(the_hash_is_that_of_other_clients);
        RUN(wildcards_find_what_docker_finds);
        RUN(what_is_not_there_is_told);
        RUN(links_stay_links_except_for_the_source);
        RUN(kept_files_bring_their_directories);
        RUN(archives_hold_the_files);
        RUN(add_knows_archives);
        RUN(documents_are_files);
        return tap_done();
}
