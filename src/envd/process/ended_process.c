#include "envd/process/ended_process.h"

#include "base/clock.h"

static struct list *ended_process_slot(struct ended_process_table *t, pid_t pid)
{
        return &t->by_pid[(unsigned)pid % ENDED_PROCESS_SLOTS];
}

static void ended_process_free(struct ended_process_table *t, struct ended_process *e)
{
        list_remove(&e->node);
        list_remove(&e->by_pid);
        t->count--;
        replay_unref(e->replay);
        free(e->tag);
        free(e->label);
        free(e);
}

static void ended_process_sweep(struct timer *timer)
{
        struct ended_process_table *t = CONTAINER_OF(timer, struct ended_process_table, sweep);
        uint64_t now = t->now_ms();

        while (!list_is_empty(&t->all)) {
                struct ended_process *e = LIST_ENTRY(t->all.next, struct ended_process, node);
                uint64_t due = e->since_ms + ENDED_PROCESS_REPLAY_KEEP_MS;

                if (due > now) {
                        timer_set(t->loop, &t->sweep, due - now);
                        return;
                }
                ended_process_free(t, e);
        }
}

void ended_process_table_init(struct ended_process_table *t, struct loop *loop)
{
        *t = (struct ended_process_table){.loop = loop, .now_ms = clock_mono_ms, .sweep.on = ended_process_sweep};
        list_init(&t->all);
        for (size_t i = 0; i < ENDED_PROCESS_SLOTS; i++)
                list_init(&t->by_pid[i]);
}

void ended_process_table_done(struct ended_process_table *t)
{
        while (!list_is_empty(&t->all))
                ended_process_free(t, LIST_ENTRY(t->all.next, struct ended_process, node));
        timer_clear(&t->sweep);
}

void ended_process_keep(struct ended_process_table *t, const struct ended_process *from)
{
        struct ended_process *e = calloc(1, sizeof(*e));

        if (!e) {
                replay_unref(from->replay);
                free(from->tag);
                free(from->label);
                return;
        }
        *e = (struct ended_process){.pid = from->pid, .tag = from->tag, .code = from->code, .status = from->status};
        e->label = from->label;
        e->replay = from->replay;
        e->since_ms = t->now_ms();
        list_push_back(&t->all, &e->node);
        list_push_back(ended_process_slot(t, e->pid), &e->by_pid);
        if (++t->count > ENDED_PROCESS_MAX)
                ended_process_free(t, LIST_ENTRY(t->all.next, struct ended_process, node));
        if (!timer_is_armed(&t->sweep))
                timer_set(t->loop, &t->sweep, ENDED_PROCESS_REPLAY_KEEP_MS);
}

bool ended_process_is_recent(const struct ended_process_table *t, const struct ended_process *e)
{
        return t->now_ms() - e->since_ms < ENDED_PROCESS_KEEP_MS;
}

struct ended_process *ended_process_find_pid(struct ended_process_table *t, pid_t pid)
{
        LIST_EACH (at, ended_process_slot(t, pid)) {
                struct ended_process *e = LIST_ENTRY(at, struct ended_process, by_pid);

                if (e->pid == pid)
                        return e;
        }
        return NULL;
}

struct ended_process *ended_process_find_tag(struct ended_process_table *t, const char *tag)
{
        struct ended_process *found = NULL;

        LIST_EACH (at, &t->all) {
                struct ended_process *e = LIST_ENTRY(at, struct ended_process, node);

                if (e->tag && strcmp(e->tag, tag) == 0)
                        found = e;
        }
        return found;
}

void ended_process_forget(struct ended_process_table *t, pid_t pid, const char *tag)
{
        struct ended_process *e;

        while ((e = ended_process_find_pid(t, pid)))
                ended_process_free(t, e);
        while (tag && (e = ended_process_find_tag(t, tag)))
                ended_process_free(t, e);
}
