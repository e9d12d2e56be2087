/* image.c - the command image: images that templates can be built from are pulled, loaded from archives, listed, removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

#define LINE_MAX_BYTES (1u << 20)
#define PASSWORD_VARIABLE "SANDGLASS_REGISTRY_PASSWORD"

const char image_usage[] =
        "usage: sandglass image pull [--user NAME] [--json] [--data DIR] IMAGE...\n"
        "       sandglass image load [--json] [--data DIR] FILE...\n"
        "       sandglass image list [--json] [--data DIR]\n"
        "       sandglass image rm [--data DIR] IMAGE...\n"
        "Images that templates can be built from (FROM), kept on the server for all teams.\n"
        "  pull   fetch an image from its registry: python:3.11, ghcr.io/NAME/NAME@sha256:...\n"
        "  load   take the images of an archive: `docker save`, or an OCI layout as a tar archive; - is stdin\n"
        "  rm     forget an image; templates that were built from it stay\n"
        "  --user NAME   log in at the registry with this name; " PASSWORD_VARIABLE " has the password\n";

/* ---- lines on the way ---- */

struct image_call {
        struct cli_api *api;
        struct progress_bar bar;
        struct buf text; /* of the line under way */
        json_t *result;  /* owned: the last line; NULL: not yet */
        uint64_t bytes;  /* of what is sent; 0: not known */
};

static void take_line(struct image_call *c, struct str line)
{
        json_t *msg = json_loadb(line.p, line.n, 0, NULL);
        json_int_t layer = json_integer_value(json_object_get(msg, "unpacking"));

        if (layer) {
                char doing[64];

                (void)snprintf(doing, sizeof(doing), "unpacking layer %d of %d of", (int)layer,
                               (int)json_integer_value(json_object_get(msg, "of")));
                progress_bar_say(&c->bar, doing);
        } else if (json_object_get(msg, "done")) {
                progress_bar_show(&c->bar, (uint64_t)json_integer_value(json_object_get(msg, "done")),
                                  (uint64_t)json_integer_value(json_object_get(msg, "total")));
        } else if (msg) {
                json_decref(c->result);
                c->result = json_incref(msg);
        }
        json_decref(msg);
}

static int on_body(int status, const char *bytes, size_t n, void *arg)
{
        struct image_call *c = arg;
        const char *end;

        (void)status;
        if (buf_add(&c->text, bytes, n) < 0)
                return 0; /* longer than any line of ours: the result is missing then */
        while (c->text.len > 0 && (end = memchr(buf_at(&c->text), '\n', c->text.len))) {
                size_t len = (size_t)(end - (const char *)buf_at(&c->text));

                take_line(c, (struct str){(const char *)buf_at(&c->text), len});
                buf_consume(&c->text, len + 1);
        }
        return 0;
}

static void on_sent(uint64_t bytes, void *arg)
{
        struct image_call *c = arg;

        progress_bar_show(&c->bar, bytes, c->bytes);
}

/* What came is the last line. */
static int take_result(struct image_call *c, json_t **ret, struct err *err)
{
        const char *message;

        if (!c->result && c->text.len > 0)
                c->result = json_loadb((const char *)buf_at(&c->text), c->text.len, 0, NULL);
        message = json_string_value(json_object_get(c->result, "message"));
        if (message)
                return err_set(err, ERR_UNAVAILABLE, "%s", message);
        if (!json_is_array(json_object_get(c->result, "images")))
                return err_set(err, ERR_INTERNAL, "the server's answer has no image");
        *ret = json_incref(json_object_get(c->result, "images"));
        return 0;
}

static int call_server(struct image_call *c, const char *target, const char *body, struct sg_request_options *o,
                       json_t **ret, struct err *err)
{
        const struct sg_call call = api_wait(c->api, SG_NO_TIMEOUT);
        struct sg_error why = {0};
        int r;

        buf_init(&c->text, LINE_MAX_BYTES);
        o->on_body = on_body;
        o->on_sent = on_sent;
        o->arg = c;
        r = sg_request(c->api->client, "POST", target, body, o, &call, NULL, &why);
        progress_bar_end(&c->bar);
        r = r < 0 ? api_error(c->api, &why, err) : take_result(c, ret, err);
        json_decref(c->result);
        buf_done(&c->text);
        return r;
}

static void show_images(const json_t *images, bool as_json)
{
        size_t i;
        json_t *image;

        if (as_json) {
                output_json(images);
                return;
        }
        json_array_foreach ((json_t *)(uintptr_t)images, i, image)
                (void)printf("%s %s\n", output_text(image, "name"), output_text(image, "digest"));
}

/* ---- pull ---- */

static json_t *pull_body(const struct cli_options *o, const char *image, struct err *err)
{
        const char *password = o->user ? getenv(PASSWORD_VARIABLE) : NULL;

        if (!o->user)
                return json_pack("{s:s}", "image", image);
        if (!password || !password[0]) {
                (void)err_set(err, ERR_INVALID, "--user: the variable " PASSWORD_VARIABLE " has no password");
                return NULL;
        }
        return json_pack("{s:s,s:{s:s,s:s,s:s}}", "image", image, "registry", "type", "registry", "username", o->user,
                         "password", password);
}

static int pull_one(struct cli_api *api, const struct cli_options *o, const char *image, struct err *err)
{
        json_t *body = pull_body(o, image, err), *images = NULL;
        AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        struct image_call c = {.api = api};
        int r;

        json_decref(body);
        if (!text)
                return err->kind ? -EINVAL : err_set(err, ERR_INVALID, "'%s' is not text", image);
        progress_bar_begin(&c.bar, "pulling", image);
        r = call_server(&c, "/sandglass/images", text, &(struct sg_request_options){0}, &images, err);
        if (r == 0)
                show_images(images, o->json);
        json_decref(images);
        return r;
}

/* ---- load ---- */

static int load_one(struct cli_api *api, const struct cli_options *o, const char *path, struct err *err)
{
        AUTO_CLOSE int fd =
                strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
        struct image_call c = {.api = api};
        json_t *images = NULL;
        struct stat st;
        int r;

        if (fd < 0)
                return err_sys(err, -errno, "open '%s'", path);
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
                c.bytes = (uint64_t)st.st_size;
        progress_bar_begin(&c.bar, "loading", path);
        r = call_server(
                &c, "/sandglass/images/load", NULL,
                &(struct sg_request_options){.content_type = "application/x-tar", .sends_fd = true, .body_fd = fd},
                &images, err);
        if (r == 0)
                show_images(images, o->json);
        json_decref(images);
        return r;
}

/* ---- list, rm ---- */

static void print_images(const json_t *list)
{
        size_t i;
        json_t *v;

        (void)printf("%-50s %-19s %-9s %8s  %s\n", "NAME", "DIGEST", "FROM", "MB", "CREATED");
        json_array_foreach ((json_t *)(uintptr_t)list, i, v)
                (void)printf("%-50s %-19.19s %-9s %8.1f  %.19s\n", output_text(v, "name"), output_text(v, "digest"),
                             output_text(v, "source"), (double)json_integer_value(json_object_get(v, "bytes")) / 1e6,
                             output_text(v, "createdAt"));
}

static int list_all(struct cli_api *api, const struct cli_options *o, const char *none, struct err *err)
{
        json_t *list = NULL;
        int r = api_images(api, &list, err);

        (void)none;
        if (r == 0)
                output_list(list, o->json, print_images);
        json_decref(list);
        return r;
}

static int remove_one(struct cli_api *api, const struct cli_options *o, const char *image, struct err *err)
{
        (void)o;
        return api_image_remove(api, image, err);
}

static const struct image_deed {
        const char *word;
        unsigned takes;
        bool has_args;
        int (*run)(struct cli_api *api, const struct cli_options *o, const char *arg, struct err *err);
} deeds[] = {
        {"pull", CLI_DATA | CLI_JSON | CLI_USER, true, pull_one},
        {"load", CLI_DATA | CLI_JSON, true, load_one},
        {"list", CLI_DATA | CLI_JSON, false, list_all},
        {"rm", CLI_DATA, true, remove_one},
};

int image_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        const struct image_deed *d = NULL;
        struct cli_api api;
        struct err err = {0};
        int code = 0;

        for (size_t i = 0; argc > 1 && i < ARRAY_LEN(deeds); i++)
                if (strcmp(deeds[i].word, argv[1]) == 0)
                        d = &deeds[i];
        if (d)
                argc--, argv++;
        if (cli_options_parse(argc, argv, d ? d->takes : 0, &o, &err) < 0 || o.help || !d ||
            (o.arg_count > 0) != d->has_args)
                return cli_usage(&o, image_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("image", &err);
        for (int i = 0; i < (d->has_args ? o.arg_count : 1); i++)
                if (d->run(&api, &o, o.args[i], &err) < 0) {
                        code = cli_fail("image", &err);
                        err = (struct err){0};
                }
        api_close(&api);
        return code;
}
