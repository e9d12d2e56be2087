/* watch.c - the tool watch: waits for changes in a directory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/shorten.h"
#include "mcp/tools/path.h"
#include "mcp/tools/sandbox_tools.h"

#define WAIT_S 30
#define SETTLE_MS 100u /* from the first change to the answer: changes come together */
#define CHANGES_MAX 1000u
#define NAMES_MAX 10000u

struct watch {
        struct call *call;
        struct io io;
        struct timer timer;
        json_t *changes;
        json_t *last; /* the last change of each name: a file that is written all the time changes once */
        struct buf text;
        size_t count;
};

static void watch_free(struct watch *w)
{
        loop_del(&w->io);
        close_fd(&w->io.fd);
        timer_clear(&w->timer);
        buf_done(&w->text);
        json_decref(w->changes);
        json_decref(w->last);
        free(w);
}

static void on_timer(struct timer *t)
{
        struct watch *w = CONTAINER_OF(t, struct watch, timer);
        size_t left_out = w->count > CHANGES_MAX ? w->count - CHANGES_MAX : 0;

        if (w->count == 0)
                (void)buf_addc(&w->text, "Nothing changed.");
        if (left_out)
                (void)buf_addf(&w->text, "[%zu more changes are not shown]\n", left_out);
        tool_text(w->call, (struct str){(const char *)buf_at(&w->text), w->text.len},
                  json_pack("{s:O,s:I}", "changes", w->changes, "left_out", (json_int_t)left_out));
        watch_free(w);
}

static const char *change_of(uint32_t mask)
{
        return mask & (IN_CREATE | IN_MOVED_TO)         ? "created"
               : mask & (IN_DELETE | IN_MOVED_FROM)     ? "deleted"
               : mask & (IN_DELETE_SELF | IN_MOVE_SELF) ? "directory gone"
               : mask & IN_Q_OVERFLOW                   ? "more changes than could be kept"
                                                        : "changed";
}

static void add_change(struct watch *w, const struct inotify_event *e)
{
        AUTO_BUF struct buf name = BUF_INIT(4096);
        const char *change = change_of(e->mask), *before;

        (void)text_clean(str_of(e->len ? e->name : ""), &name);
        before = json_string_value(json_object_get(w->last, buf_cstr(&name)));
        if ((e->mask & (IN_MODIFY | IN_CLOSE_WRITE)) && before && strcmp(before, change) == 0)
                return;
        if (json_object_size(w->last) < NAMES_MAX)
                (void)json_object_set_new(w->last, buf_cstr(&name), json_string(change));
        if (w->count++ >= CHANGES_MAX)
                return;
        (void)buf_addf(&w->text, "%s  %s\n", change, buf_cstr(&name));
        (void)json_array_append_new(w->changes, json_pack("{s:s,s:s}", "change", change, "name", buf_cstr(&name)));
}

static void on_events(struct io *io, uint32_t events)
{
        struct watch *w = CONTAINER_OF(io, struct watch, io);
        char bytes[16 << 10] __attribute__((aligned(__alignof__(struct inotify_event))));
        ssize_t n = read(io->fd, bytes, sizeof(bytes));
        bool is_first = w->count == 0;

        (void)events;
        for (ssize_t at = 0; at < n;) {
                const struct inotify_event *e = (const void *)(bytes + at);

                if (!(e->mask & IN_IGNORED))
                        add_change(w, e);
                at += (ssize_t)(sizeof(*e) + e->len);
        }
        if (is_first && w->count)
                timer_set(w->call->mcp->loop, &w->timer, SETTLE_MS);
}

static void on_cancel(struct call *c)
{
        watch_free(c->user);
        call_result(c, json_object());
}

static void watch_directory(struct call *c, json_t *args)
{
        const uint32_t what = IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                              IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
        struct watch *w = calloc(1, sizeof(*w));
        char path[PATH_MAX];
        struct err err = {0};

        if (!w || path_of(c->mcp, arg_text(args, "path", "."), path, &err) < 0) {
                free(w);
                tool_failed(c, "%s", err.msg[0] ? err.msg : "out of memory");
                return;
        }
        w->call = c;
        w->changes = json_array();
        w->last = json_object();
        w->timer.on = on_timer;
        buf_init(&w->text, 1u << 20);
        w->io = (struct io){.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), .on = on_events};
        if (w->io.fd < 0 || inotify_add_watch(w->io.fd, path, what) < 0 ||
            loop_add(c->mcp->loop, &w->io, EPOLLIN) < 0) {
                tool_failed(c,
                            errno == ENOTDIR  ? "%s is not a directory"
                            : errno == ENOENT ? "%s does not exist"
                                              : "%s cannot be watched",
                            path);
                watch_free(w);
                return;
        }
        c->user = w;
        c->on_cancel = on_cancel;
        timer_set(c->mcp->loop, &w->timer, (uint64_t)arg_number(args, "wait_s", WAIT_S) * 1000);
}

const struct tool tool_watch = {
        .name = "watch",
        .title = "Wait for changes in a directory",
        .description = "Wait until something in a directory is created, changed or deleted, and return what it was.",
        .hints = TOOL_READS_ONLY,
        .schema = "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":"
                  "\"Default: the workspace.\"},"
                  "\"wait_s\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":3600,\"description\":\"How long at most. "
                  "Default: 30.\"}},\"additionalProperties\":false}",
        .output = "{\"type\":\"object\",\"properties\":{\"changes\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}"
                  "},\"left_out\":{\"type\":\"integer\"}},\"required\":[\"changes\",\"left_out\"]}",
        .run = watch_directory,
};
