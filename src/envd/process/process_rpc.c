#include "envd/process/process_rpc.h"

#include "envd/process/process.h"
#include "envd/process/process_start.h"
#include "envd/process/subscriber.h"
#include "envd/rpc/field.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/rpc.h"

int process_selector_decode(const json_t *in, struct process_selector *ret, struct fault *f)
{
        json_t *obj;

        if (field_object(in, "process", &obj, f) < 0 || field_text(obj, "tag", &ret->tag, f) < 0 ||
            field_u32(obj, "pid", &ret->pid, f) < 0)
                return -1;
        if (!ret->tag && !field_get(obj, "pid"))
                return fault_set(f, CONNECT_UNIMPLEMENTED, "invalid input type <nil>");
        if (ret->tag && field_get(obj, "pid"))
                return fault_set(f, CONNECT_INVALID_ARGUMENT,
                                 "unmarshal message: field process: only one of pid and tag may be given");
        return 0;
}

int process_selector_not_found(const struct process_selector *sel, struct fault *f)
{
        if (sel->tag)
                return fault_set(f, CONNECT_NOT_FOUND, "process with tag %s not found", sel->tag);
        return fault_set(f, CONNECT_NOT_FOUND, "process with pid %u not found", sel->pid);
}

static struct process *find_live_process(struct process_table *t, const struct process_selector *sel)
{
        return sel->tag ? process_find_tag(t, sel->tag) : process_find_pid(t, (pid_t)sel->pid);
}

struct process *process_selector_find(struct process_table *t, const json_t *in, struct fault *f)
{
        struct process_selector sel;
        struct process *p;

        if (process_selector_decode(in, &sel, f) < 0)
                return NULL;
        p = find_live_process(t, &sel);
        if (!p)
                (void)process_selector_not_found(&sel, f);
        return p;
}

static int start_process(struct rpc *rpc, struct process **ret, struct fault *f)
{
        const struct handler_context *c = rpc->context;
        AUTO_USER struct user user = {0};
        struct start_request rq;
        struct process_start ps = {.rq = &rq, .settings = &c->settings, .user = &user, .keep_user = c->keep_user};

        if (start_request_decode(rpc->in, &rq, f) < 0 || rpc_user(rpc, &user, f) < 0)
                return -1;
        return process_start(rpc->service, &ps, ret, f);
}

void process_rpc_start(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        struct replay_from from;
        struct process *p;

        if (replay_from_decode(rpc->rq->head, &from, &f) < 0 || start_process(rpc, &p, &f) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        from.offset = 0;
        if (rpc->has_timeout) /* of the stream too; the process is killed even when the client has left */
                process_kill_after(p, rpc->timeout_ms);
        if (subscriber_create(rpc, p, &from, &f) < 0)
                rpc_fail(rpc, &f);
}

/* Connect to a process that has ended: its start and its end event at once, and in between the output that is kept,
 * if the client asks for it. */
static int connect_to_ended(struct rpc *rpc, const struct process_selector *sel, const struct replay_from *from,
                            struct fault *f)
{
        struct process_table *processes = rpc->service;
        struct ended_process_table *t = &processes->ended;
        struct ended_process *e =
                sel->tag ? ended_process_find_tag(t, sel->tag) : ended_process_find_pid(t, (pid_t)sel->pid);

        if (!e || !(from->is_asked || ended_process_is_recent(t, e)))
                return process_selector_not_found(sel, f);
        return subscriber_create_ended(rpc, e, from, f);
}

void process_rpc_connect(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        struct replay_from from;
        struct process_selector sel;
        struct process *p;
        int r;

        if (process_selector_decode(rpc->in, &sel, &f) < 0 || replay_from_decode(rpc->rq->head, &from, &f) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        p = find_live_process(rpc->service, &sel);
        r = p ? subscriber_create(rpc, p, &from, &f) : connect_to_ended(rpc, &sel, &from, &f);
        if (r < 0)
                rpc_fail(rpc, &f);
}

static void copy_field(json_t *to, const json_t *from, const char *name)
{
        json_t *v = field_get(from, name);

        if (v && !(json_is_string(v) && json_string_length(v) == 0 && strcmp(name, "cwd") != 0) &&
            !(json_is_array(v) && json_array_size(v) == 0) && !(json_is_object(v) && json_object_size(v) == 0))
                (void)json_object_set(to, name, v);
}

static json_t *process_describe(const struct process *p)
{
        json_t *config = json_object();

        copy_field(config, p->config, "cmd");
        copy_field(config, p->config, "args");
        copy_field(config, p->config, "envs");
        copy_field(config, p->config, "cwd");
        return json_pack("{s:o, s:i, s:s*}", "config", config, "pid", (int)p->pid, "tag", p->tag);
}

/* Those with a tag that have ended and are still known, oldest first. */
static json_t *list_ended(const struct process_table *t)
{
        json_t *all = json_array();

        LIST_EACH (at, &t->ended.all) {
                const struct ended_process *e = LIST_ENTRY(at, struct ended_process, node);
                json_t *event = e->tag ? process_event_end(e->code, e->status) : NULL;
                json_t *end = json_object_get(json_object_get(event, "event"), "end");

                if (end)
                        (void)json_array_append_new(all, json_pack("{s:i, s:s, s:s*, s:O}", "pid", (int)e->pid, "tag",
                                                                   e->tag, "label", e->label, "end", end));
                json_decref(event);
        }
        return all;
}

void process_rpc_list(struct rpc *rpc)
{
        const struct process_table *t = rpc->service;
        json_t *all = json_array(), *out = json_object();

        LIST_EACH (at, &t->live) {
                (void)json_array_append_new(all, process_describe(LIST_ENTRY(at, struct process, node)));
        }
        if (json_array_size(all))
                (void)json_object_set(out, "processes", all);
        json_decref(all);
        if (http1_find(rpc->rq->head, ENDED_PROCESS_HEADER))
                (void)json_object_set_new(out, "ended", list_ended(t));
        rpc_reply(rpc, out);
}
