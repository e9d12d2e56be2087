#include "serve/setup/host_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cert_pair.h"
#include "model/conf.h"
#include "sys/fs.h"

#include "tap.h"

static char dir[] = "/tmp/sandglass-test-XXXXXX";
static int scratch; /* its fd */
static struct conf conf;
static struct host_files files;

static const char *at(const char *name)
{
        static char paths[8][128];
        static unsigned next;
        char *path = paths[next++ % ARRAY_LEN(paths)];

        (void)snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
        return path;
}

static bool put(const char *name, const char *text)
{
        return sys_replace_at(scratch, name, text, strlen(text), 0600) == 0;
}

static const char *given(const char *path)
{
        static char text[65536], whole[256];

        (void)snprintf(whole, sizeof(whole), "%s/data/host/given/%s", dir, path);
        return sys_read_at(AT_FDCWD, whole, text, sizeof(text)) < 0 ? NULL : text;
}

static unsigned count(const char *text, const char *what)
{
        unsigned n = 0;

        for (; text && (text = strstr(text, what)); text += strlen(what))
                n++;
        return n;
}

static const char *which(void)
{
        static char name[64];
        ssize_t n = readlinkat(scratch, "data/host/given", name, sizeof(name) - 1);

        name[n > 0 ? n : 0] = '\0';
        return name;
}

static const struct host_sources *sources(void)
{
        static const char *dirs[3], *bundles[2];
        static struct host_sources s;

        dirs[0] = strdup(at("no-such-directory"));
        dirs[1] = strdup(at("ca"));
        bundles[0] = strdup(at("system.crt"));
        s = (struct host_sources){dirs, bundles, strdup(at("resolv.conf"))};
        return &s;
}

static void without_certificates_there_are_name_servers_only(void)
{
        struct err err = {0};
        struct stat st;

        CHECK(put("resolv.conf", "nameserver 10.1.1.1\nsearch corp.example\n") && put("system.crt", ""));
        CHECK_INT(host_files_init(&files, &conf, sources(), &err), ==, 0);
        CHECK_STR(given("files/etc/resolv.conf"), "nameserver 198.18.0.1\nsearch corp.example\n");
        CHECK(!given("extra.pem") && !given("files/etc/sudoers.d/sandglass"));
        CHECK_INT(fstatat(scratch, "data/host", &st, 0), ==, 0);
        CHECK_INT(st.st_mode & 07777, ==, 0700);
}

static void each_certificate_is_found_where_programs_look(void)
{
        struct err err = {0};
        unsigned hashed = 0, named = 0;
        AUTO_DIR DIR *d = NULL;
        AUTO_CLOSE int certs = -1;
        const struct dirent *e;

        CHECK_INT(sys_make_dir(scratch, "ca", 0755) | sys_make_dir(scratch, "ca/more", 0755), ==, 0);
        CHECK(cert_pair_write(at("ca/a.crt"), at("a.key"), "DNS:a.test", 5));
        CHECK(cert_pair_write(at("ca/more/b.pem"), at("b.key"), "DNS:b.test", 5));
        CHECK(cert_pair_write(at("ca/not-asked-for.txt"), at("c.key"), "DNS:c.test", 5));
        CHECK(put("ca/nonsense.crt", "no certificate\n"));
        CHECK(put("system.crt", "-----BEGIN CERTIFICATE-----\nsystem\n-----END CERTIFICATE-----"));
        CHECK_INT(host_files_init(&files, &conf, sources(), &err), ==, 0);
        CHECK_INT(count(given("extra.pem"), "BEGIN CERTIFICATE"), ==, 2);
        CHECK_INT(count(given("bundle.pem"), "-----BEGIN CERTIFICATE-----\n"), ==, 3);
        CHECK_INT(count(given("bundle.pem"), "PRIVATE"), ==, 0);
        CHECK_INT(count(given("files/etc/sandglass/ca.pem"), "BEGIN CERTIFICATE"), ==, 2);
        CHECK(strstr(given("files/etc/sudoers.d/sandglass"), "NODE_EXTRA_CA_CERTS"));
        certs = open(at("data/host/given/files/etc/ssl/certs"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        d = sys_list(certs);
        while (d && (e = sys_list_next(d))) /* both have the same subject */
                hashed +=
                        strlen(e->d_name) == 10 && e->d_name[8] == '.' && (e->d_name[9] == '0' || e->d_name[9] == '1');
        CHECK_INT(hashed, ==, 2);
        sys_list_end_p(&d);
        (void)close(certs);
        certs = open(at("data/host/given/files/usr/local/share/ca-certificates"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        d = sys_list(certs);
        while (d && (e = sys_list_next(d)))
                named += str_starts(str_of(e->d_name), "sandglass-") && str_ends(str_of(e->d_name), ".crt");
        CHECK_INT(named, ==, 2);
}

static void the_same_is_not_written_again(void)
{
        struct err err = {0};
        struct stat before, after;

        CHECK_INT(stat(at("data/host/given/extra.pem"), &before), ==, 0);
        CHECK_INT(host_files_init(&files, &conf, sources(), &err), ==, 0);
        CHECK_INT(stat(at("data/host/given/extra.pem"), &after), ==, 0);
        CHECK_INT(before.st_ino, ==, after.st_ino);
}

static void a_change_is_taken_at_the_second_look(void)
{
        char before[64], former[80];

        (void)snprintf(before, sizeof(before), "%s", which());
        CHECK(cert_pair_write(at("ca/a.crt"), at("a.key"), "DNS:a2.test", 5));
        host_files_look(&files); /* somebody may just be writing it */
        CHECK_STR(which(), before);
        host_files_look(&files);
        CHECK(strcmp(which(), before) != 0);
        (void)snprintf(former, sizeof(former), "data/host/%.63s", before);
        CHECK_INT(faccessat(scratch, former, F_OK, 0), <, 0);
        CHECK(put("resolv.conf", "nameserver 9.9.9.9\n"));
        host_files_look(&files);
        host_files_look(&files);
        CHECK_STR(given("files/etc/resolv.conf"), "nameserver 9.9.9.9\n");
        (void)unlinkat(scratch, "ca/a.crt", 0);
        host_files_look(&files);
        host_files_look(&files);
        CHECK_INT(count(given("extra.pem"), "BEGIN CERTIFICATE"), ==, 1);
}

static void the_setting_names_a_file_or_nothing(void)
{
        struct err err = {0};

        conf.sandbox_ca = strdup(at("nowhere"));
        CHECK_INT(host_files_init(&files, &conf, sources(), &err), <, 0);
        CHECK(strstr(err.msg, "sandbox_ca"));
        free(conf.sandbox_ca);
        conf.sandbox_ca = strdup(at("ca/more/b.pem"));
        CHECK_INT(host_files_init(&files, &conf, sources(), &err), ==, 0);
        CHECK_INT(count(given("extra.pem"), "BEGIN CERTIFICATE"), ==, 1);
        free(conf.sandbox_ca);
        conf.sandbox_ca = NULL;
}

static void sudo_keeps_variables_with_plain_names(void)
{
        struct err err = {0};

        conf.sandbox_env =
                json_loads("{\"HTTP_PROXY\":\"x\",\"a b\":\"x\",\"q\\\"\":\"x\",\"no_proxy\":\"y\"}", 0, NULL);
        CHECK_INT(host_files_init(&files, &conf, sources(), &err), ==, 0);
        CHECK(strstr(given("files/etc/sudoers.d/sandglass"), " HTTP_PROXY no_proxy\"\n"));
        json_decref(conf.sandbox_env);
        conf.sandbox_env = NULL;
}

int main(void)
{
        int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct err err = {0};

        if (!mkdtemp(dir) || conf_defaults(&conf, at("data"), &err) < 0 || mkdir(at("data"), 0755) < 0)
                return 1;
        scratch = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        RUN(without_certificates_there_are_name_servers_only);
        RUN(each_certificate_is_found_where_programs_look);
        RUN(the_same_is_not_written_again);
        RUN(a_change_is_taken_at_the_second_look);
        RUN(the_setting_names_a_file_or_nothing);
        RUN(sudo_keeps_variables_with_plain_names);
        conf_done(&conf);
        (void)sys_remove_tree(tmp, dir + strlen("/tmp/"));
        (void)close(tmp);
        return tap_done();
}
