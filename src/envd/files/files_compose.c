/* files_compose.c - POST /files/compose: joins several files into one, in slices, so that other requests get their
 * turn. The result appears whole or not at all: the file is written under another name, then renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/list.h"
#include "envd/files/files.h"
#include "envd/rpc/answer.h"
#include "envd/rpc/field.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/paths.h"
#include "http/server.h"
#include "io/loop.h"

#define BODY_MAX (1u << 20)
#define SLICE (8u << 20)
#define SUFFIX_LEN 20

struct compose {
        struct handler_context *context;
        struct http_request *rq;
        struct task task;
        struct user user;
        char **sources; /* owned, resolved */
        size_t count, at;
        char *destination, *temporary; /* owned */
        int in, out;
};

static void compose_closed(struct http_request *rq, bool is_complete)
{
        struct compose *c = rq->user;

        (void)is_complete;
        loop_unpost(&c->task);
        close_fd(&c->in);
        if (c->out >= 0)
                (void)unlink(c->temporary); /* the result is not complete */
        close_fd(&c->out);
        for (size_t i = 0; i < c->count; i++)
                free(c->sources[i]);
        free(c->sources);
        free(c->destination);
        free(c->temporary);
        user_done(&c->user);
        free(c);
}

static void compose_fail(struct compose *c, int sys, const char *what)
{
        if (sys == ENOSPC || sys == EDQUOT)
                answer_error(c->rq, 507, "not enough disk space available");
        else
                answer_error(c->rq, 500, "error composing file: %s: %s", what, errno_text(sys));
}

static void compose_finish(struct compose *c)
{
        if (!c->context->keep_user && fchown(c->out, c->user.uid, c->user.gid) < 0) {
                compose_fail(c, errno, "chown");
                return;
        }
        if (rename(c->temporary, c->destination) < 0) {
                compose_fail(c, errno, "rename");
                return;
        }
        close_fd(&c->out);
        for (size_t i = 0; i < c->count; i++)
                (void)unlink(c->sources[i]); /* the result is in place: a source that stays does no harm */
        answer_json(c->rq, 200,
                    json_pack("{s:o, s:o, s:s}", "name", json_text(path_base(c->destination)), "path",
                              json_text(str_of(c->destination)), "type", "file"));
}

/* Copy some more bytes.  1 there is more to do; 0 all is copied; negative errno. */
static int compose_step(struct compose *c)
{
        ssize_t n;

        if (c->in < 0) {
                if (c->at == c->count)
                        return 0;
                c->in = open(c->sources[c->at], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
                if (c->in < 0)
                        return -errno;
        }
        n = copy_file_range(c->in, NULL, c->out, NULL, SLICE, 0);
        if (n < 0)
                return -errno;
        if (n == 0) {
                close_fd(&c->in);
                c->at++;
        }
        return 1;
}

static void compose_turn(struct task *t)
{
        struct compose *c = CONTAINER_OF(t, struct compose, task);
        int r = compose_step(c);

        if (r > 0)
                loop_post(c->context->loop, &c->task);
        else if (r < 0)
                compose_fail(c, -r, "copy");
        else
                compose_finish(c);
}

/* A source must be a regular file, and not the destination.  false: the request has been answered. */
static bool compose_add_source(struct compose *c, const char *given)
{
        char *path;
        struct stat st;

        if (!files_resolve(c->context, c->rq, given, &c->user, &path))
                return false;
        c->sources[c->count++] = path;
        if (strcmp(path, c->destination) == 0)
                answer_error(c->rq, 400, "source path \"%s\" cannot be the same as destination", given);
        else if (stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
                answer_error(c->rq, 404, "source file not found: %s", given);
        else if (stat(path, &st) < 0)
                compose_fail(c, errno, given);
        else if (!S_ISREG(st.st_mode))
                answer_error(c->rq, 400, "source path is not a regular file: %s", given);
        else
                return true;
        return false;
}

static bool compose_open_output(struct compose *c)
{
        AUTO_FAULT struct fault f = {0};
        char id[SUFFIX_LEN + 1];

        random_id(id, SUFFIX_LEN);
        if (asprintf(&c->temporary, "%s.e2b-compose.%s.tmp", c->destination, id) < 0) {
                c->temporary = NULL;
                compose_fail(c, ENOMEM, "open");
                return false;
        }
        if (dirs_ensure_parent(c->destination, &c->user, c->context->keep_user, &f) < 0) {
                answer_error(c->rq, f.sys == ENOSPC ? 507 : 500, "error ensuring directories: %s", fault_text(&f));
                return false;
        }
        c->out = open(c->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (c->out < 0)
                compose_fail(c, errno, "open");
        return c->out >= 0;
}

struct compose_request { /* borrowed from the message */
        json_t *sources;
        const char *destination, *username;
};

static bool compose_decode(struct compose *c, const json_t *in, struct compose_request *ret)
{
        AUTO_FAULT struct fault f = {0};

        if (!json_is_object(in))
                answer_error(c->rq, 400, "invalid request body: an object expected");
        else if (field_text_list(in, "sourcePaths", &ret->sources, &f) < 0 ||
                 field_text(in, "destination", &ret->destination, &f) < 0 ||
                 field_text(in, "username", &ret->username, &f) < 0)
                answer_error(c->rq, 400, "invalid request body: %s", fault_text(&f));
        else if (json_array_size(ret->sources) == 0)
                answer_error(c->rq, 400, "source_paths must not be empty");
        else if (!ret->destination || !ret->destination[0])
                answer_error(c->rq, 400, "destination is required");
        else
                return true;
        return false;
}

/* All that comes before the first byte is copied.  false: the request has been answered. */
static bool compose_prepare(struct compose *c, const json_t *in)
{
        struct compose_request want = {0};
        const json_t *v;
        size_t i;

        if (!compose_decode(c, in, &want) || !files_find_user(c->context, c->rq, want.username, &c->user) ||
            !files_resolve(c->context, c->rq, want.destination, &c->user, &c->destination))
                return false;
        c->sources = calloc(json_array_size(want.sources), sizeof(*c->sources));
        if (!c->sources) {
                compose_fail(c, ENOMEM, "prepare");
                return false;
        }
        json_array_foreach (want.sources, i, v) {
                if (!compose_add_source(c, json_string_value(v)))
                        return false;
        }
        return compose_open_output(c);
}

static void compose_on_body(struct http_request *rq, struct str body)
{
        struct compose *c = rq->user;
        json_error_t why;
        json_t *in = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, &why);

        if (!in)
                answer_error(rq, 400, "invalid request body: %s", why.text);
        else if (compose_prepare(c, in))
                loop_post(c->context->loop, &c->task);
        json_decref(in);
}

void files_compose(struct handler_context *context, struct http_request *rq)
{
        struct compose *c = calloc(1, sizeof(*c));

        if (!c) {
                answer_error(rq, 503, "out of memory");
                return;
        }
        *c = (struct compose){.context = context, .rq = rq, .task.run = compose_turn, .in = -1, .out = -1};
        rq->user = c;
        rq->on_close = compose_closed;
        http_read_body(rq, BODY_MAX, compose_on_body);
}
