/* Files of a sandbox: read, write, list, stat, delete, rename, directories. */
#include <stdlib.h>
#include <string.h>

#include "agent/api/file_target.h"
#include "agent/api/handlers.h"
#include "agent/exchange/ask.h"
#include "agent/exchange/exchange.h"
#include "agent/exchange/relay.h"
#include "agent/exchange/sandbox_find.h"
#include "agent/request/accept.h"
#include "agent/request/file_request.h"
#include "agent/request/text_field.h"
#include "base/err.h"
#include "model/json_field.h"
#include "wire/url.h"

#define DEPTH_MAX 64

struct file_call {
        char *path, *user; /* owned; of the query.  user NULL: the default one of the sandbox */
        uint32_t depth;
        struct file_request file;
        json_t *body; /* owned; for envd */
        const char *method;
        unsigned status; /* of the answer, when envd's is 200 */
};

static void file_call_free(struct exchange *x)
{
        struct file_call *c = x->job;

        free(c->path);
        free(c->user);
        file_request_done(&c->file);
        json_decref(c->body);
        free(c);
}

static struct file_call *file_call_create(struct exchange *x)
{
        struct file_call *c = calloc(1, sizeof(*c));

        if (!c) {
                tell_no_memory(x);
                return NULL;
        }
        x->job = c;
        x->job_free = file_call_free;
        return c;
}

/* The same with ?path= and ?user= of the query.  NULL: the request is answered. */
static struct file_call *file_call_of_query(struct exchange *x)
{
        struct file_call *c = file_call_create(x);
        struct err err = {0};

        if (c && file_query_decode(x, &c->path, &c->user, &err) < 0) {
                tell_err(x, &err);
                return NULL;
        }
        return c;
}

/* The same with the user of the body, or of ?user=.  NULL: the request is answered. */
static struct file_call *file_call_of_body(struct exchange *x)
{
        struct file_call *c = file_call_create(x);
        const char *user = NULL;
        struct err err = {0};

        if (!c)
                return NULL;
        if (text_field_user(x->body, &user, &err) < 0 || (!user && file_user_decode(x, &c->user, &err) < 0)) {
                tell_err(x, &err);
                return NULL;
        }
        if (!user)
                return c;
        c->user = strdup(user);
        if (c->user)
                return c;
        tell_no_memory(x);
        return NULL;
}

/* ---- calls of envd's filesystem ---- */

static void file_call_ask(struct exchange *x, void (*on_answer)(struct exchange *x, const struct ask_answer *a))
{
        struct file_call *c = x->job;

        if (c->body)
                ask(x, &(struct ask_options){.to = ASK_DAEMON,
                                             .method = "POST",
                                             .target = c->method,
                                             .body = c->body,
                                             .user = c->user,
                                             .on_answer = on_answer});
        else
                tell_no_memory(x);
}

static void entry_answered(struct exchange *x, const struct ask_answer *a)
{
        struct file_call *c = x->job;

        if (a->status == 200)
                tell_json(x, c->status, file_entry_show(json_object_get(a->body, "entry")));
        else
                ask_pass_error(x, a);
}

static void entry_start(struct exchange *x)
{
        file_call_ask(x, entry_answered);
}

void agent_stat_file(struct exchange *x)
{
        struct file_call *c = file_call_of_query(x);

        if (!c)
                return;
        c->method = "/filesystem.Filesystem/Stat";
        c->body = json_pack("{s:s}", "path", c->path);
        c->status = 200;
        sandbox_find_running(x, entry_start);
}

void agent_rename_file(struct exchange *x)
{
        struct file_call *c = file_call_of_body(x);
        const char *from, *to;
        struct err err = {0};

        if (!c)
                return;
        if (file_path_decode(x->body, "from", &from, &err) < 0 || file_path_decode(x->body, "to", &to, &err) < 0) {
                tell_err(x, &err);
                return;
        }
        c->method = "/filesystem.Filesystem/Move";
        c->body = json_pack("{s:s,s:s}", "source", from, "destination", to);
        c->status = 200;
        sandbox_find_running(x, entry_start);
}

void agent_make_directory(struct exchange *x)
{
        struct file_call *c = file_call_of_body(x);
        const char *path;
        struct err err = {0};

        if (!c)
                return;
        if (file_path_decode(x->body, "path", &path, &err) < 0) {
                tell_err(x, &err);
                return;
        }
        c->method = "/filesystem.Filesystem/MakeDir";
        c->body = json_pack("{s:s}", "path", path);
        c->status = 201;
        sandbox_find_running(x, entry_start);
}

static void list_answered(struct exchange *x, const struct ask_answer *a)
{
        json_t *list, *one;
        size_t i;

        if (a->status != 200) {
                ask_pass_error(x, a);
                return;
        }
        list = json_array();
        json_array_foreach (json_object_get(a->body, "entries"), i, one)
                (void)json_array_append_new(list, file_entry_show(one));
        tell_json(x, 200, json_with(json_object(), "entries", list));
}

static void list_start(struct exchange *x)
{
        file_call_ask(x, list_answered);
}

void agent_list_files(struct exchange *x)
{
        struct file_call *c = file_call_of_query(x);
        AUTO_FREE char *depth = NULL;
        struct err err = {0};

        if (!c)
                return;
        c->depth = 1;
        if (exchange_query(x, "depth", &depth, &err) < 0 ||
            (depth && parse_u32(str_of(depth), 1, DEPTH_MAX, &c->depth) < 0)) {
                tell_error(x, 400, NULL, "parameter 'depth' must be from 1 to %d", DEPTH_MAX);
                return;
        }
        c->method = "/filesystem.Filesystem/ListDir";
        c->body = json_pack("{s:s,s:I}", "path", c->path, "depth", (json_int_t)c->depth);
        sandbox_find_running(x, list_start);
}

/* ---- delete: what is not there is told ---- */

static void remove_answered(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 200)
                tell_empty(x, 204);
        else
                ask_pass_error(x, a);
}

static void remove_seen(struct exchange *x, const struct ask_answer *a)
{
        struct file_call *c = x->job;

        c->method = "/filesystem.Filesystem/Remove";
        if (a->status == 200)
                file_call_ask(x, remove_answered);
        else
                ask_pass_error(x, a);
}

static void remove_start(struct exchange *x)
{
        file_call_ask(x, remove_seen);
}

void agent_delete_file(struct exchange *x)
{
        struct file_call *c = file_call_of_query(x);

        if (!c)
                return;
        c->method = "/filesystem.Filesystem/Stat";
        c->body = json_pack("{s:s}", "path", c->path);
        sandbox_find_running(x, remove_start);
}

/* ---- read ---- */

static void read_answered(struct exchange *x, const struct ask_answer *a)
{
        struct file_call *c = x->job;
        json_t *obj;

        if (a->status != 200) {
                ask_pass_error(x, a);
                return;
        }
        obj = file_show(c->path, a->text);
        if (obj)
                tell_json(x, 200, obj);
        else
                tell_no_memory(x);
}

static void read_start(struct exchange *x)
{
        struct file_call *c = x->job;
        AUTO_BUF struct buf target = BUF_INIT(FILE_TARGET_MAX);

        if (file_target("/files?path=", c->path, "username", c->user, &target) < 0) {
                tell_error(x, 400, NULL, "parameter 'path' is too long");
                return;
        }
        ask(x, &(struct ask_options){.to = ASK_DAEMON,
                                     .method = "GET",
                                     .target = buf_cstr(&target),
                                     .wants_bytes = true,
                                     .on_answer = read_answered});
}

/* Of a job that relay() replaces by its own. */
static void file_relay(struct exchange *x, const struct relay_options *o)
{
        file_call_free(x);
        x->job = NULL;
        x->job_free = NULL;
        relay(x, o);
}

static void read_raw_start(struct exchange *x)
{
        struct file_call *c = x->job;
        AUTO_BUF struct buf target = BUF_INIT(FILE_TARGET_MAX);

        if (file_target("/files?path=", c->path, "username", c->user, &target) < 0)
                tell_error(x, 400, NULL, "parameter 'path' is too long");
        else
                file_relay(x, &(struct relay_options){.to = ASK_DAEMON,
                                                      .method = "GET",
                                                      .target = buf_cstr(&target),
                                                      .answer_type = "application/octet-stream"});
}

void agent_read_file(struct exchange *x)
{
        if (file_call_of_query(x))
                sandbox_find_running(x,
                                     accept_is_json(http1_value(x->rq->head, "Accept")) ? read_start : read_raw_start);
}

/* ---- write ---- */

static void write_tell(struct exchange *x, const struct ask_answer *a)
{
        const json_t *written = json_array_get(a->body, 0);

        if (a->status == 200 && written)
                tell_json(x, 201, json_with_ref(json_object(), "path", json_object_get(written, "path")));
        else
                ask_pass_error(x, a);
}

static void write_start(struct exchange *x)
{
        struct file_call *c = x->job;
        AUTO_BUF struct buf target = BUF_INIT(FILE_TARGET_MAX);

        if (file_target("/files?path=", c->file.path, "username", c->user, &target) < 0) {
                tell_error(x, 400, NULL, "field 'path' is too long");
                return;
        }
        ask(x, &(struct ask_options){.to = ASK_DAEMON,
                                     .method = "POST",
                                     .target = buf_cstr(&target),
                                     .bytes = c->file.content,
                                     .bytes_type = "application/octet-stream",
                                     .on_answer = write_tell});
}

void agent_write_file(struct exchange *x)
{
        struct file_call *c = file_call_of_body(x);
        struct err err = {0};

        if (!c)
                return;
        if (file_request_decode(x->body, &c->file, &err) < 0)
                tell_err(x, &err);
        else
                sandbox_find_running(x, write_start);
}

static void upload_start(struct exchange *x)
{
        struct file_call *c = x->job;
        AUTO_BUF struct buf target = BUF_INIT(FILE_TARGET_MAX);

        if (file_target("/files?path=", c->path, "username", c->user, &target) < 0)
                tell_error(x, 400, NULL, "parameter 'path' is too long");
        else
                file_relay(x, &(struct relay_options){.to = ASK_DAEMON,
                                                      .method = "POST",
                                                      .target = buf_cstr(&target),
                                                      .sends_body = true,
                                                      .content_type = "application/octet-stream",
                                                      .on_answer = write_tell});
}

void agent_upload_file(struct exchange *x)
{
        if (file_call_of_query(x))
                sandbox_find_running(x, upload_start);
}

/* ---- whole directories ---- */

static void archive_seen(struct exchange *x, const struct ask_answer *a)
{
        struct file_call *c = x->job;
        AUTO_BUF struct buf target = BUF_INIT(FILE_TARGET_MAX);

        if (a->status != 200)
                ask_pass_error(x, a);
        else if (file_target("/sandglass/archive?path=", c->path, NULL, NULL, &target) < 0)
                tell_error(x, 400, NULL, "parameter 'path' is too long");
        else
                file_relay(x, &(struct relay_options){.to = ASK_DAEMON,
                                                      .method = "GET",
                                                      .target = buf_cstr(&target),
                                                      .answer_type = "application/x-tar"});
}

/* envd takes a path that is not there for a pattern, and knows no user: so it is asked for the path first. */
static void archive_start(struct exchange *x)
{
        file_call_ask(x, archive_seen);
}

static bool is_absolute(struct exchange *x, const struct file_call *c)
{
        if (c->path[0] == '/')
                return true;
        tell_error(x, 400, NULL, "parameter 'path' must be an absolute path");
        return false;
}

void agent_read_archive(struct exchange *x)
{
        struct file_call *c = file_call_of_query(x);

        if (!c || !is_absolute(x, c))
                return;
        c->method = "/filesystem.Filesystem/Stat";
        c->body = json_pack("{s:s}", "path", c->path);
        sandbox_find_running(x, archive_start);
}

static void unpack_tell(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 200 && json_is_object(a->body))
                tell_json(x, 201, json_incref(a->body));
        else
                ask_pass_error(x, a);
}

static void unpack_start(struct exchange *x)
{
        struct file_call *c = x->job;
        AUTO_BUF struct buf target = BUF_INIT(FILE_TARGET_MAX);

        if (file_target("/sandglass/copy?src=.&dest=", c->path, "user", c->user, &target) < 0)
                tell_error(x, 400, NULL, "parameter 'path' is too long");
        else
                file_relay(x, &(struct relay_options){.to = ASK_DAEMON,
                                                      .method = "POST",
                                                      .target = buf_cstr(&target),
                                                      .sends_body = true,
                                                      .content_type = "application/x-tar",
                                                      .on_answer = unpack_tell});
}

void agent_write_archive(struct exchange *x)
{
        struct file_call *c = file_call_of_query(x);

        if (c && is_absolute(x, c))
                sandbox_find_running(x, unpack_start);
}
