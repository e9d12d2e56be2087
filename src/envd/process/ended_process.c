#include "envd/process/ended_process.h"

#include "base/clock.h"

static struct list *slot(struct ended_table *t, pid_t pid)
{
        return &t->by_pid[(unsigned)pid % ENDED_SLOTS];
}

static void ended_free(struct ended_table *t, struct ended *e)
{
        list_remove(&e->node);
        list_remove(&e->by_pid);
        t->count--;
        replay_unref(e->replay);
        free(e->tag);
        free(e);
}

static void on_sweep(struct timer *timer)
{
        struct ended_table *t = CONTAINER_OF(timer, struct ended_table, sweep);
        uint64_t now = t->now_ms();

        while (!list_is_empty(&t->all)) {
                struct ended *e = LIST_ENTRY(t->all.next, struct ended, node);
                uint64_t due = e->since_ms + ENDED_REPLAY_KEEP_MS;

                if (due > now) {
                        timer_set(t->loop, &t->sweep, due - now);
                        return;
                }
                ended_free(t, e);
        }
}

void ended_table_init(struct ended_table *t, struct loop *loop)
{
        *t = (struct ended_table){.loop = loop, .now_ms = clock_mono_ms, .sweep.on = on_sweep};
        list_init(&t->all);
        for (size_t i = 0; i < ENDED_SLOTS; i++)
                list_init(&t->by_pid[i]);
}

void ended_table_done(struct ended_table *t)
{
        while (!list_is_empty(&t->all))
                ended_free(t, LIST_ENTRY(t->all.next, struct ended, node));
        timer_clear(&t->sweep);
}

void ended_keep(struct ended_table *t, const struct ended *from)
{
        struct ended *e = calloc(1, sizeof(*e));

        if (!e) {
                replay_unref(from->replay);
                free(from->tag);
                return;
        }
        *e = (struct ended){.pid = from->pid, .tag = from->tag, .code = from->code, .status = from->status};
        e->replay = from->replay;
        e->since_ms = t->now_ms();
        list_push_back(&t->all, &e->node);
        list_push_back(slot(t, e->pid), &e->by_pid);
        if (++t->count > ENDED_MAX)
                ended_free(t, LIST_ENTRY(t->all.next, struct ended, node));
        if (!timer_is_armed(&t->sweep))
                timer_set(t->loop, &t->sweep, ENDED_REPLAY_KEEP_MS);
}

bool ended_is_recent(const struct ended_table *t, const struct ended *e)
{
        return t->now_ms() - e->since_ms < ENDED_KEEP_MS;
}

struct ended *ended_find_pid(struct ended_table *t, pid_t pid)
{
        LIST_EACH (at, slot(t, pid)) {
                struct ended *e = LIST_ENTRY(at, struct ended, by_pid);

                if (e->pid == pid)
                        return e;
        }
        return NULL;
}

struct ended *ended_find_tag(struct ended_table *t, const char *tag)
{
        struct ended *found = NULL;

        LIST_EACH (at, &t->all) {
                struct ended *e = LIST_ENTRY(at, struct ended, node);

                if (e->tag && strcmp(e->tag, tag) == 0)
                        found = e;
        }
        return found;
}

void ended_forget(struct ended_table *t, pid_t pid, const char *tag)
{
        struct ended *e;

        while ((e = ended_find_pid(t, pid)))
                ended_free(t, e);
        while (tag && (e = ended_find_tag(t, tag)))
                ended_free(t, e);
}
