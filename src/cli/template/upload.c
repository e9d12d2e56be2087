#include "cli/template/upload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/api.h"
#include "cli/template/source.h"
#include "cli/template/view.h"

#define HEADERS_MAX 16
#define UPLOAD_MS 3600000u

/* "http://host:1/path?query" into "http://host:1" and what follows. */
static int split_url(const char *url, char **ret_origin, const char **ret_target, struct err *err)
{
        const char *host = strstr(url, "://"), *path = host ? strchr(host + 3, '/') : NULL;

        if (!path)
                return err_set(err, ERR_INTERNAL, "the server's link for an upload is no URL");
        *ret_origin = strndup(url, (size_t)(path - url));
        *ret_target = path;
        return *ret_origin ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

static bool is_near(const char *url)
{
        return strstr(url, "://127.") || strstr(url, "://localhost") || strstr(url, "://[::1]");
}

/* The link authorises; the headers are the server's. */
static int put(struct cli_api *api, const char *origin, const char *target, const json_t *given, int fd,
               struct err *err)
{
        struct sg_pair headers[HEADERS_MAX + 1] = {0};
        const struct sg_request_options o = {
                .headers = headers, .url = origin, .sends_fd = true, .body_fd = fd, .answer_max = 1u << 20};
        const struct sg_call call = api_wait(api, UPLOAD_MS);
        struct sg_error why = {0};
        const char *name;
        json_t *value;
        size_t n = 0;

        json_object_foreach ((json_t *)given, name, value)
                if (n < HEADERS_MAX && json_is_string(value))
                        headers[n++] = (struct sg_pair){name, json_string_value(value)};
        if (sg_request(api->client, "PUT", target, NULL, &o, &call, NULL, &why) == 0)
                return 0;
        if (why.http_status)
                return err_set(err, ERR_INTERNAL, "the server refused the files: %d %.100s", why.http_status,
                               why.message);
        return api_error(api, &why, err);
}

static int send_archive(struct cli_api *api, const struct source *s, const struct context_files *f, const json_t *link,
                        struct err *err)
{
        const char *url = json_string_value(json_object_get(link, "url")), *target = NULL;
        AUTO_FREE char *origin = NULL;
        AUTO_CLOSE int fd = -1;
        int r = split_url(url, &origin, &target, err);

        if (r == 0)
                r = context_archive(&s->context, f, !is_near(url), &fd, err);
        return r < 0 ? r : put(api, origin, target, json_object_get(link, "headers"), fd, err);
}

static int upload_one(struct cli_api *api, const struct source *s, const struct context_files *f,
                      const char *template_id, struct view *v, struct err *err)
{
        AUTO_FREE char *target = NULL, *doing = NULL;
        json_t *link = NULL;
        int r = 0;

        if (asprintf(&target, "/templates/%s/files/%s", template_id, f->hash) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = api_request(api, "GET", target, NULL, &link, err);
        if (r == 0 && !json_is_true(json_object_get(link, "present"))) {
                if (!json_is_string(json_object_get(link, "url")))
                        r = err_set(err, ERR_INTERNAL, "the server gave no link for an upload");
                if (r == 0 && asprintf(&doing, "uploading %s", f->copy->src) > 0)
                        view_doing(v, doing);
                if (r == 0)
                        r = send_archive(api, s, f, link, err);
        }
        json_decref(link);
        return r < 0 && err->sys != EINTR ? err_wrap(err, "%s:%u", s->dockerfile, f->copy->line) : r;
}

int upload_files(struct cli_api *api, const struct source *s, const char *template_id, struct view *v, struct err *err)
{
        json_t *sent = json_object(); /* the same files may be copied twice */
        int r = 0;

        for (size_t i = 0; r == 0 && i < s->build.copy_count; i++) {
                if (json_object_get(sent, s->files[i].hash))
                        continue;
                (void)json_object_set_new(sent, s->files[i].hash, json_true());
                r = upload_one(api, s, &s->files[i], template_id, v, err);
        }
        json_decref(sent);
        return r;
}
