#include "serve/options.h"

#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

#include "tap.h"

#define PARSE(o, e, ...)                                                                                               \
        ({                                                                                                             \
                char *argv_[] = {"serve", __VA_ARGS__, NULL};                                                          \
                serve_options_parse((int)ARRAY_LEN(argv_) - 1, argv_, (o), (e));                                       \
        })

/* A config file with this text, gone with the variable. */
struct file {
        char path[64];
};
static void file_done(struct file *f)
{
        (void)unlink(f->path);
}
static struct file file_with(const char *text)
{
        struct file f = {"/tmp/sandglass-test-XXXXXX"};
        AUTO_CLOSE int fd = mkstemp(f.path);

        if (fd < 0 || write(fd, text, strlen(text)) < 0)
                f.path[0] = 0;
        return f;
}

static void options_become_configuration(void)
{
        AUTO(serve_options_done) struct serve_options o = {0};
        struct err e = {0};

        CHECK_INT(PARSE(&o, &e, "--data", "/d", "--listen", "0.0.0.0:0", "--insecure-listen", "--tls-listen=[::1]:9",
                        "--stop-sandboxes", "--check", "--mirror", "http://m/"),
                  ==, 0);
        CHECK_STR(o.conf.data_dir, "/d");
        CHECK_STR(o.conf.images_dir, "/d/images");
        CHECK_STR(o.conf.listen, "0.0.0.0:0");
        CHECK_STR(o.conf.tls_listen, "[::1]:9");
        CHECK(o.conf.stop_sandboxes);
        CHECK(o.check);
        CHECK(!o.domain_is_given);
        CHECK_STR(o.mirror, "http://m/");
}

static void relative_paths_become_absolute(void)
{
        AUTO(serve_options_done) struct serve_options o = {0};
        struct err e = {0};

        CHECK_INT(PARSE(&o, &e, "--data", "d", "--images", "i"), ==, 0);
        CHECK(o.conf.data_dir[0] == '/');
        CHECK(o.conf.images_dir[0] == '/');
}

static void options_win_over_the_file(void)
{
        AUTO(serve_options_done) struct serve_options o = {0};
        AUTO(file_done)
        struct file f = file_with("{\"listen\":\"127.0.0.1:1\",\"domain\":\"a.example\",\"pool_size\":3}");
        struct err e = {0};

        CHECK_INT(PARSE(&o, &e, "--listen", "127.0.0.1:2", "--config", f.path), ==, 0);
        CHECK_STR(o.conf.listen, "127.0.0.1:2");
        CHECK_STR(o.conf.domain, "a.example");
        CHECK_INT(o.conf.pool_size, ==, 3);
        CHECK(o.domain_is_given);
}

static void a_bad_file_is_named(void)
{
        AUTO(file_done) struct file broken = file_with("{\n\"listen\":\n}"), unknown = file_with("{\"pools\":1}");
        struct serve_options o;
        struct err e = {0};

        CHECK_INT(PARSE(&o, &e, "--config", broken.path), <, 0);
        CHECK(strstr(e.msg, broken.path) && strstr(e.msg, "line 3"));
        CHECK_INT(PARSE(&o, &e, "--config", unknown.path), <, 0);
        CHECK(strstr(e.msg, "pools: unknown key"));
        CHECK_INT(PARSE(&o, &e, "--config", "/does/not/exist"), <, 0);
}

static void wrong_use_is_refused(void)
{
        struct serve_options o;
        struct err e = {0};

        CHECK_INT(PARSE(&o, &e, "--frobnicate"), <, 0);
        CHECK_STR(e.msg, "--frobnicate: unknown option");
        CHECK_INT(PARSE(&o, &e, "--data"), <, 0);
        CHECK_STR(e.msg, "--data: needs a value");
        CHECK_INT(PARSE(&o, &e, "here"), <, 0);
        CHECK_STR(e.msg, "here: unexpected argument");
        CHECK_INT(PARSE(&o, &e, "--listen", "3000"), <, 0);
        CHECK_STR(e.msg, "listen: '3000' is not ADDRESS:PORT");
        CHECK_INT(PARSE(&o, &e, "--domain", "Bad_Name"), <, 0);
        CHECK_INT(PARSE(&o, &e, "--tls-cert", "/c"), <, 0);
        CHECK_INT(e.kind, ==, ERR_INVALID);
}

int main(void)
{
        RUN(options_become_configuration);
        RUN(relative_paths_become_absolute);
        RUN(options_win_over_the_file);
        RUN(a_bad_file_is_named);
        RUN(wrong_use_is_refused);
        return tap_done();
}
