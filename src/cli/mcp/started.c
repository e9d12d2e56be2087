#include "cli/mcp/started.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define ID_MAX 100

struct one {
        char sandbox_id[ID_MAX + 1]; /* "": free */
        uint32_t pid;
        uint64_t begun_us, ended_us; /* 0: runs, as far as is known */
        bool is_exact;
};

struct started {
        pthread_mutex_t lock;
        struct one all[STARTED_MAX];
        size_t next; /* where the next one is put */
};

struct started *started_create(void)
{
        struct started *s = calloc(1, sizeof(*s));

        if (s)
                (void)pthread_mutex_init(&s->lock, NULL);
        return s;
}

struct started *started_free(struct started *s)
{
        if (s)
                (void)pthread_mutex_destroy(&s->lock);
        free(s);
        return NULL;
}

static struct one *find(struct started *s, const char *sandbox_id, uint32_t pid)
{
        for (size_t i = 0; i < STARTED_MAX; i++)
                if (s->all[i].pid == pid && strcmp(s->all[i].sandbox_id, sandbox_id) == 0)
                        return &s->all[i];
        return NULL;
}

void started_note(struct started *s, const char *sandbox_id, uint32_t pid)
{
        struct one *one;

        if (!s || strlen(sandbox_id) > ID_MAX)
                return;
        (void)pthread_mutex_lock(&s->lock);
        one = find(s, sandbox_id, pid);
        if (!one) {
                one = &s->all[s->next];
                s->next = (s->next + 1) % STARTED_MAX;
        }
        *one = (struct one){.pid = pid, .begun_us = clock_mono_us()};
        (void)snprintf(one->sandbox_id, sizeof(one->sandbox_id), "%s", sandbox_id);
        (void)pthread_mutex_unlock(&s->lock);
}

struct started_time started_look(struct started *s, const char *sandbox_id, uint32_t pid, bool has_ended, bool is_seen)
{
        struct started_time t = {0};
        struct one *one;

        if (!s)
                return t;
        (void)pthread_mutex_lock(&s->lock);
        one = find(s, sandbox_id, pid);
        if (one) {
                uint64_t now = clock_mono_us();

                if (has_ended && !one->ended_us) {
                        one->ended_us = now;
                        one->is_exact = is_seen;
                }
                t = (struct started_time){.is_known = true,
                                          .is_exact = one->is_exact,
                                          .us = (one->ended_us ? one->ended_us : now) - one->begun_us};
        }
        (void)pthread_mutex_unlock(&s->lock);
        return t;
}
