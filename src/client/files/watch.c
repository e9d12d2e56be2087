/* Watches: the events of a directory. */
#include <stdlib.h>
#include <string.h>

#include "client/command/stream.h"
#include "client/files/file.h"

struct sg_watch {
        struct rpc_stream stream;
        sg_event_fn *on_event;
        void *arg;
        bool has_started, is_refused;
        int count; /* events since the last call */
};

static enum sg_event_type event_type(const char *name)
{
        static const struct {
                const char *name;
                enum sg_event_type type;
        } known[] = {
                {"EVENT_TYPE_CREATE", SG_EVENT_CREATE}, {"EVENT_TYPE_WRITE", SG_EVENT_WRITE},
                {"EVENT_TYPE_REMOVE", SG_EVENT_REMOVE}, {"EVENT_TYPE_RENAME", SG_EVENT_RENAME},
                {"EVENT_TYPE_CHMOD", SG_EVENT_CHMOD},
        };

        for (size_t i = 0; name && i < ARRAY_LEN(known); i++)
                if (strcmp(name, known[i].name) == 0)
                        return known[i].type;
        return SG_EVENT_OTHER;
}

static int watch_on_message(struct rpc_stream *s, const json_t *message, struct sg_error *err)
{
        struct sg_watch *w = CONTAINER_OF(s, struct sg_watch, stream);
        const json_t *event = json_object_get(message, "filesystem");
        const char *name = json_string_value(json_object_get(event, "name"));

        if (!w->has_started) {
                if (!json_object_get(message, "start"))
                        return error_set(err, SG_INTERNAL, "the sandbox sent an event before the watch started");
                w->has_started = true;
                stream_wake(s);
                return 0;
        }
        if (!event || w->is_refused)
                return 0;
        if (!name)
                return error_set(err, SG_INTERNAL, "the sandbox sent an event without a name");
        w->count++;
        if (w->on_event(&(struct sg_event){.type = event_type(json_string_value(json_object_get(event, "type"))),
                                           .name = name},
                        w->arg) < 0) {
                w->is_refused = true;
                stream_wake(s);
        }
        return 0;
}

int sg_watch_open(struct sg_sandbox *box, const char *path, const struct sg_watch_options *options,
                  const struct sg_call *call, struct sg_watch **ret, struct sg_error *err)
{
        json_t *message = NULL;
        struct sg_watch *w;
        struct limit l;
        int r = check_path(path, err);

        if (r == 0 && (!options || !options->on_event))
                r = error_set(err, SG_INVALID, "on_event is missing");
        if (r == 0)
                r = check_reserved(options->reserved, ARRAY_LEN(options->reserved), err);
        if (r == 0)
                r = limit_begin(&l, call, box->client->timeout_ms, err);
        if (r < 0)
                return r;
        w = calloc(1, sizeof(*w));
        if (w)
                message = json_pack("{s:s, s:b}", "path", path, "recursive", options->is_recursive);
        if (!message) {
                free(w);
                return error_no_memory(err);
        }
        w->on_event = options->on_event;
        w->arg = options->arg;
        stream_prepare(&w->stream, box, watch_on_message);
        r = stream_open_wait(&w->stream,
                             &(struct stream_open){.target = "/filesystem.Filesystem/WatchDir",
                                                   .user = options->user,
                                                   .message = message},
                             &l, err);
        json_decref(message);
        if (r == 0 && !w->has_started)
                r = error_set(err, SG_INTERNAL, "the stream ended before the watch started");
        if (r < 0)
                sg_watch_free(w);
        else
                *ret = w;
        return r;
}

static int watch_over(struct sg_watch *w, struct sg_error *err)
{
        if (w->is_refused) {
                w->is_refused = false;
                return error_set(err, SG_CANCELLED, "cancelled by a callback");
        }
        if (w->stream.state == STREAM_ENDED)
                return error_set(err, SG_UNAVAILABLE, "the watch has ended");
        return stream_is_over(&w->stream) ? error_pass(err, &w->stream.why) : 0;
}

int sg_watch_wait(struct sg_watch *watch, const struct sg_call *call, struct sg_error *err)
{
        struct limit l;
        int r = limit_begin(&l, call, SG_NO_TIMEOUT, err);

        while (r == 0) {
                r = watch_over(watch, err);
                if (r < 0)
                        return watch->stream.state == STREAM_CUT ? box_explain(watch->stream.box, &l, r, err) : r;
                r = stream_wait(&watch->stream, &l, err);
        }
        return r;
}

int sg_watch_poll(struct sg_watch *watch, struct sg_error *err)
{
        int r;

        watch->count = 0;
        r = stream_is_over(&watch->stream) ? 0 : stream_poll(&watch->stream, err);
        if (r == 0 && (!watch->count || watch->is_refused))
                r = watch_over(watch, err);
        return r < 0 ? r : watch->count;
}

int sg_watch_fd(const struct sg_watch *watch)
{
        return loop_fd(watch->stream.lane->loop);
}

void sg_watch_free(struct sg_watch *watch)
{
        if (!watch)
                return;
        stream_close(&watch->stream);
        free(watch);
}
