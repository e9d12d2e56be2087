/* doctor --remote: what it says about files and settings; names and connections are for the functional suite. */
#include "cli/doctor/remote_checks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/doctor/addresses.h"
#include "cli/options.h"

#include "cert_pair.h"
#include "tap.h"

static char dir[] = "/tmp/remote-XXXXXX";

static char *in_dir(const char *name)
{
        static char path[8][64];
        static unsigned next;
        char *p = path[next++ % 8];

        (void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
        return p;
}

/* A certificate that is its own authority, and its key, as NAME.pem and NAME.key. */
static bool make_pair(const char *name, const char *names, long days)
{
        char cert_file[32], key_file[32];

        (void)snprintf(cert_file, sizeof(cert_file), "%s.pem", name);
        (void)snprintf(key_file, sizeof(key_file), "%s.key", name);
        return cert_pair_write(in_dir(cert_file), in_dir(key_file), names, days);
}

static struct check_result run_check(const char *name, const struct remote_env *env)
{
        struct check_result r = {.state = CHECK_MISSING};

        for (const struct remote_check *c = remote_checks; c->name; c++)
                if (strcmp(c->name, name) == 0)
                        c->run(env, &r);
        printf("# %s: %s\n", name, r.detail);
        return r;
}

static struct check_result of_file(const char *cert, const char *key)
{
        const struct remote_env env = {.domain = (char *)"box.example.test",
                                       .host = (char *)"box.example.test",
                                       .port = 443,
                                       .listen = (char *)"127.0.0.1:3000",
                                       .tls_listen = (char *)"0.0.0.0:443",
                                       .tls_cert = in_dir(cert),
                                       .tls_key = in_dir(key)};

        return run_check("certificate file", &env);
}

static void each_fault_of_a_certificate_is_named(void)
{
        struct check_result r;

        CHECK(make_pair("good", "DNS:*.box.example.test", 90) && make_pair("short", "DNS:*.box.example.test", 5));
        CHECK(make_pair("old", "DNS:*.box.example.test", -1) && make_pair("other", "DNS:*.example.test", 90));
        (void)setenv("SSL_CERT_FILE", in_dir("good.pem"), 1);
        r = of_file("good.pem", "good.key");
        CHECK_INT(r.state, ==, CHECK_OK);
        CHECK(strstr(r.detail, "for *.box.example.test by An authority, for "));
        r = of_file("good.pem", "other.key");
        CHECK(r.state == CHECK_MISSING && strstr(r.detail, "key values mismatch"));
        r = of_file("old.pem", "old.key");
        CHECK(r.state == CHECK_MISSING && strstr(r.detail, "has expired"));
        r = of_file("other.pem", "other.key");
        CHECK(r.state == CHECK_MISSING && strstr(r.detail, "is not for *.box.example.test"));
        r = of_file("short.pem", "short.key");
        CHECK(r.state == CHECK_MISSING && strstr(r.detail, "not trusted: "));
        (void)setenv("SSL_CERT_FILE", in_dir("short.pem"), 1);
        r = of_file("short.pem", "short.key");
        CHECK(r.state == CHECK_NOTE && strstr(r.detail, " more days only"));
        r = of_file("none.pem", "good.key");
        CHECK(r.state == CHECK_MISSING && strstr(r.detail, "none.pem"));
        r = of_file("good.pem", "none.key");
        CHECK(r.state == CHECK_NOTE && strstr(r.detail, "none.key"));
}

static enum check_state listening(const char *listen, const char *tls_listen, uint16_t port)
{
        const struct remote_env env = {.domain = (char *)"d",
                                       .host = (char *)"d",
                                       .port = port,
                                       .listen = (char *)(size_t)listen,
                                       .tls_listen = (char *)(size_t)tls_listen};

        return run_check("listening", &env).state;
}

static void what_the_server_listens_on_is_judged(void)
{
        CHECK_INT(listening("127.0.0.1:3000", "0.0.0.0:443", 443), ==, CHECK_OK);
        CHECK_INT(listening("127.0.0.1:3000", "[::]:443", 443), ==, CHECK_OK);
        CHECK_INT(listening("127.0.0.1:3000", "127.0.0.1:443", 443), ==, CHECK_MISSING);
        CHECK_INT(listening("0.0.0.0:3000", "0.0.0.0:443", 443), ==, CHECK_NOTE);
        CHECK_INT(listening("127.0.0.1:3000", "0.0.0.0:3443", 443), ==, CHECK_NOTE);
        CHECK_INT(listening(NULL, NULL, 443), ==, CHECK_NOTE);
}

static bool write_listening(const char *text)
{
        FILE *f;

        (void)mkdir(in_dir("run"), 0700);
        f = fopen(in_dir("run/listening"), "we");
        if (!f)
                return false;
        (void)fputs(text, f);
        return fclose(f) == 0;
}

static void the_server_is_found_by_its_directory_its_domain_or_the_environment(void)
{
        struct remote_env env = {0};
        struct cli_options o = {.data = dir};
        struct err err = {0};

        (void)unsetenv("E2B_DOMAIN");
        (void)unsetenv("E2B_API_KEY");
        CHECK_INT(remote_env_find(&o, &env, &err), <, 0);
        CHECK(strstr(err.msg, "which server?"));
        CHECK(write_listening("{\"listen\":\"127.0.0.1:1\",\"tls_listen\":\"0.0.0.0:2\",\"domain\":\"box.test:2\"}"));
        CHECK_INT(remote_env_find(&o, &env, &err), ==, 0);
        CHECK(env.port == 2 && env.authority && strcmp(env.host, "box.test") == 0 && env.listen);
        remote_env_done(&env);
        o.domain = "box.test"; /* the same server, by another port */
        CHECK_INT(remote_env_find(&o, &env, &err), ==, 0);
        CHECK(env.port == 443 && env.listen && strcmp(env.domain, "box.test") == 0);
        remote_env_done(&env);
        o.domain = "elsewhere.test";
        CHECK_INT(remote_env_find(&o, &env, &err), ==, 0);
        CHECK(!env.listen && !env.authority && env.port == 443);
        remote_env_done(&env);
        o = (struct cli_options){.domain = "a:b"};
        CHECK_INT(remote_env_find(&o, &env, &err), <, 0);
        CHECK_STR(err.msg, "'a:b' is not NAME or NAME:PORT");
        remote_env_done(&env);
        (void)setenv("E2B_DOMAIN", "far.test", 1);
        o = (struct cli_options){0};
        CHECK_INT(remote_env_find(&o, &env, &err), ==, 0);
        CHECK(!env.listen && strcmp(env.host, "far.test") == 0);
        remote_env_done(&env);
}

static struct addresses set_of(const char *const *list)
{
        struct addresses a = {0};

        for (; *list; list++)
                addresses_add(&a, *list);
        return a;
}
#define SET(...) set_of((const char *const[]){__VA_ARGS__, NULL})

static void addresses_are_the_same_in_any_order(void)
{
        const struct addresses a = SET("192.0.2.2", "2001:db8::1", "192.0.2.1"),
                               b = SET("2001:db8::1", "192.0.2.1", "192.0.2.2", "192.0.2.1"),
                               c = SET("192.0.2.1", "192.0.2.2"), d = SET("192.0.2.1", "192.0.2.3");
        struct addresses many = {0};
        char text[64], brief[16], name[16];

        CHECK(addresses_equal(&a, &b));
        CHECK(!addresses_equal(&a, &c) && !addresses_equal(&c, &d));
        addresses_format(&a, text, sizeof(text));
        CHECK_STR(text, "192.0.2.1, 192.0.2.2, 2001:db8::1");
        addresses_format(&a, brief, sizeof(brief));
        CHECK_STR(brief, "192.0.2.1");
        for (unsigned i = 0; i < ADDRESSES_MAX + 3; i++) {
                (void)snprintf(name, sizeof(name), "192.0.2.%u", i);
                addresses_add(&many, name);
        }
        CHECK_INT(many.count, ==, ADDRESSES_MAX);
}

int main(void)
{
        char command[64];

        if (!mkdtemp(dir))
                return 1;
        RUN(each_fault_of_a_certificate_is_named);
        RUN(what_the_server_listens_on_is_judged);
        RUN(addresses_are_the_same_in_any_order);
        RUN(the_server_is_found_by_its_directory_its_domain_or_the_environment);
        (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
        return system(command) != 0 ? 1 : tap_done();
}
