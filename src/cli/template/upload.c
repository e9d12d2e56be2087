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
#include "io/tls.h"

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

static ssize_t send_piece(struct http_call *call, void *p, size_t n, void *arg)
{
        ssize_t got = read(*(int *)arg, p, n);

        (void)call;
        return got < 0 ? -errno : got;
}

/* The link authorises; the headers are the server's. */
static int put(struct http_client *client, const char *target, const json_t *given, int fd, struct err *err)
{
        struct http_header headers[HEADERS_MAX + 1] = {0};
        AUTO(http_answer_done) struct http_answer answer = {0};
        struct http_call_options call = {
                .method = "PUT", .target = target, .headers = headers, .on_send = send_piece, .arg = &fd};
        struct stat st;
        const char *name;
        json_t *value;
        size_t n = 0;
        int r;

        json_object_foreach ((json_t *)given, name, value)
                if (n < HEADERS_MAX && json_is_string(value))
                        headers[n++] = (struct http_header){name, json_string_value(value)};
        if (fstat(fd, &st) < 0)
                return err_sys(err, -errno, "read the archive");
        call.send_bytes = st.st_size;
        r = http_client_run(client, &call, 1u << 20, &answer, err);
        if (r < 0)
                return r;
        if (answer.head.status < 200 || answer.head.status > 299)
                return err_set(err, ERR_INTERNAL, "the server refused the files: %u %.*s", answer.head.status,
                               (int)(answer.body.len < 100 ? answer.body.len : 100),
                               answer.body.len ? (const char *)buf_at(&answer.body) : "");
        return 0;
}

static int send_archive(struct cli_api *api, const struct source *s, const struct context_files *f, const json_t *link,
                        int signals, struct err *err)
{
        const char *url = json_string_value(json_object_get(link, "url")), *target = NULL;
        AUTO_FREE char *origin = NULL;
        AUTO_CLOSE int fd = -1;
        struct http_client *client = NULL;
        int r = split_url(url, &origin, &target, err);

        if (r == 0)
                r = context_archive(&s->context, f, !is_near(url), &fd, err);
        if (r == 0)
                r = api_client(api, origin, NULL, &client, err);
        if (r < 0)
                return r;
        http_client_set_timeouts(client, &(struct http_timeouts){.idle_ms = HTTP_NO_TIMEOUT, .total_ms = UPLOAD_MS});
        http_client_cancel_on(client, signals);
        r = put(client, target, json_object_get(link, "headers"), fd, err);
        (void)http_client_free(client);
        return r;
}

static int upload_one(struct cli_api *api, const struct source *s, const struct context_files *f,
                      const char *template_id, int signals, struct view *v, struct err *err)
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
                        r = send_archive(api, s, f, link, signals, err);
        }
        json_decref(link);
        return r < 0 && err->sys != EINTR ? err_wrap(err, "%s:%u", s->dockerfile, f->copy->line) : r;
}

int upload_files(struct cli_api *api, const struct source *s, const char *template_id, int signals, struct view *v,
                 struct err *err)
{
        json_t *sent = json_object(); /* the same files may be copied twice */
        int r = 0;

        for (size_t i = 0; r == 0 && i < s->build.copy_count; i++) {
                if (json_object_get(sent, s->files[i].hash))
                        continue;
                (void)json_object_set_new(sent, s->files[i].hash, json_true());
                r = upload_one(api, s, &s->files[i], template_id, signals, v, err);
        }
        json_decref(sent);
        return r;
}
