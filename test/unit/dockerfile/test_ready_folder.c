#include "dockerfile/ready_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"

static char top[] = "/tmp/sandglass-ready-XXXXXX";

static void put(const char *folder, const char *file, const char *text)
{
        char path[256];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/%s", top, folder);
        (void)mkdir(path, 0755);
        (void)snprintf(path, sizeof(path), "%s/%s/%s", top, folder, file);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, text, strlen(text)) < 0)
                abort();
        (void)close(fd);
}

static void make_folders(void)
{
        char path[256];

        put("web", "e2b.toml", "template_name = \"web\"\nstart_cmd = \"serve\"\nready_cmd = \"true\"\ncpu_count = 4\n");
        put("web", "e2b.Dockerfile", "FROM node:24\nCOPY page.html /srv/\n");
        put("web", "page.html", "hello");
        put("bad", "e2b.toml", "template_name = \"bad\"\ndockerfile = \"Dockerfile\"\n");
        put("bad", "Dockerfile", "FROM debian\n\nNONSENSE here\n");
        put("plain", "notes.txt", "no template");
        put("www", "e2b.toml", "template_name = \"web\"\n");
        put("lost", "e2b.toml", "template_name = \"gone\"\n");
        put("linked", "e2b.toml", "template_name = \"linked\"\n");
        put("linked", "e2b.Dockerfile", "FROM node:24\nCOPY program /opt/\n");
        (void)snprintf(path, sizeof(path), "%s/linked/program", top);
        if (symlink("../plain/notes.txt", path) < 0)
                abort();
}

static void knows_its_names(void)
{
        AUTO_BUF struct buf names = BUF_INIT(1000);

        CHECK_INT(ready_folder_names(top, &names), ==, 0);
        CHECK_INT(buf_add(&names, "", 1), ==, 0);
        CHECK_STR((const char *)buf_at(&names), "bad, linked, lost, web, www");
        CHECK(ready_folder_exists(top, "web") && ready_folder_exists(top, "www"));
        CHECK(!ready_folder_exists(top, "plain") && !ready_folder_exists(top, "none"));
        CHECK(!ready_folder_exists(top, "../web") && !ready_folder_exists(top, "") && !ready_folder_exists(top, "."));
}

static void reads_commands_steps_and_files(void)
{
        AUTO_READY_FOLDER struct ready_folder f = {.context.dir = -1};
        AUTO_CONTEXT_FILES struct context_files files = {0};
        AUTO_PROBLEMS struct problems problems = {0};

        CHECK_INT(ready_folder_load(top, "web", "amd64", &f, NULL), ==, 0);
        CHECK_STR(json_string_value(json_object_get(f.build.request, "fromImage")), "node:24");
        CHECK_STR(json_string_value(json_object_get(f.build.request, "startCmd")), "serve");
        CHECK_STR(json_string_value(json_object_get(f.build.request, "readyCmd")), "true");
        CHECK_INT(f.toml.cpu_count, ==, 4);
        CHECK_INT(f.build.copy_count, ==, 1);
        CHECK_INT(context_find(&f.context, &f.build.copies[0], &files, &problems, NULL), ==, 0);
        CHECK_INT(files.count, ==, 1);
}

static void knows_other_names(void)
{
        AUTO_FREE char *web = ready_folder_meaning(top, "web"), *www = ready_folder_meaning(top, "www"),
                       *lost = ready_folder_meaning(top, "lost"), *outside = ready_folder_meaning(top, "../web");
        json_t *all = ready_folder_other_names(top);

        CHECK(!web && !lost && !outside);
        CHECK_STR(www, "web");
        CHECK_INT(json_object_size(all), ==, 1);
        CHECK_STR(json_string_value(json_object_get(all, "www")), "web");
        json_decref(all);
}

static void copies_what_a_link_leads_to(void)
{
        AUTO_READY_FOLDER struct ready_folder f = {.context.dir = -1};
        AUTO_CONTEXT_FILES struct context_files files = {0};
        AUTO_PROBLEMS struct problems problems = {0};

        CHECK_INT(ready_folder_load(top, "linked", "amd64", &f, NULL), ==, 0);
        CHECK_INT(context_find(&f.context, &f.build.copies[0], &files, &problems, NULL), ==, 0);
        CHECK(files.count == 1 && S_ISREG(files.at[0].mode));
        CHECK(files.count == 1 && files.at[0].size == (int64_t)strlen("no template"));
}

static void says_what_is_wrong(void)
{
        AUTO_READY_FOLDER struct ready_folder f = {.context.dir = -1};
        struct err err = {0};

        CHECK_INT(ready_folder_load(top, "bad", "amd64", &f, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        CHECK(strstr(err.msg, "ready-made template bad: Dockerfile, line 3: "));
        CHECK_INT(ready_folder_load(top, "none", "amd64", &f, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
}

static void remove_folders(void)
{
        static const char *const files[] = {"web/e2b.toml",
                                            "web/e2b.Dockerfile",
                                            "web/page.html",
                                            "web",
                                            "www/e2b.toml",
                                            "www",
                                            "lost/e2b.toml",
                                            "lost",
                                            "linked/e2b.toml",
                                            "linked/e2b.Dockerfile",
                                            "linked/program",
                                            "linked",
                                            "bad/e2b.toml",
                                            "bad/Dockerfile",
                                            "bad",
                                            "plain/notes.txt",
                                            "plain"};
        char path[256];

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                (void)snprintf(path, sizeof(path), "%s/%s", top, files[i]);
                (void)remove(path);
        }
        (void)rmdir(top);
}

int main(void)
{
        if (!mkdtemp(top))
                return 1;
        make_folders();
        RUN(knows_its_names);
        RUN(knows_other_names);
        RUN(reads_commands_steps_and_files);
        RUN(copies_what_a_link_leads_to);
        RUN(says_what_is_wrong);
        remove_folders();
        return tap_done();
}
