#include "client/modes/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define TEMPLATE_DEFAULT "base"
#define WORKSPACE_DEFAULT "/home/user/workspace"
#define TIMEOUT_DEFAULT_S 3600u
#define WORKERS_DEFAULT 16u
#define METADATA_NAME "sandglass.worker"

int workers_init(struct workers *w, const struct sg_runner_options *options, struct sg_error *err)
{
        const char *workspace = options->sandbox_workspace ? options->sandbox_workspace : WORKSPACE_DEFAULT;

        *w = (struct workers){.lock = PTHREAD_MUTEX_INITIALIZER,
                              .max = options->workers_max ? options->workers_max : WORKERS_DEFAULT,
                              .client = options->client,
                              .timeout_s = options->timeout_s ? options->timeout_s : TIMEOUT_DEFAULT_S};
        if (workspace[0] != '/')
                return error_set(err, SG_INVALID, "the workspace in sandboxes, '%.100s', must be an absolute path",
                                 workspace);
        w->template_name = strdup(options->template_name ? options->template_name : TEMPLATE_DEFAULT);
        w->workspace = strdup(workspace);
        return w->template_name && w->workspace ? 0 : error_no_memory(err);
}

static void worker_free(struct worker *k)
{
        if (k->place)
                k->place->ops->free(k->place);
        close_fd(&k->settled);
        free(k);
}

void workers_done(struct workers *w)
{
        for (size_t i = 0; i < w->count; i++)
                worker_free(w->items[i]);
        free(w->items);
        if (w->owns_client)
                sg_client_free(w->client);
        free(w->template_name);
        free(w->workspace);
        (void)pthread_mutex_destroy(&w->lock);
}

int worker_check_name(const char *name, struct sg_error *err)
{
        size_t n = strlen(name);

        if (n == 0 || n > WORKER_NAME_MAX)
                return error_set(err, SG_INVALID, "the name of a worker has 1 to %u characters", WORKER_NAME_MAX);
        if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != n)
                return error_set(err, SG_INVALID, "worker '%s': letters, digits, '-', '_' and '.' only", name);
        return 0;
}

/* ---- finding and making; the lock is held where a comment says so ---- */

static struct worker *find_locked(struct workers *w, const char *name)
{
        for (size_t i = 0; i < w->count; i++)
                if (strcmp(w->items[i]->name, name) == 0)
                        return w->items[i];
        return NULL;
}

static int add_locked(struct workers *w, const char *name, struct worker **ret, struct sg_error *err)
{
        struct worker **items, *k;

        if (w->count >= w->max)
                return error_set(err, SG_LIMIT, "there are %zu workers already, and no more are allowed", w->count);
        items = reallocarray(w->items, w->count + 1, sizeof(struct worker *));
        if (!items)
                return error_no_memory(err);
        w->items = items;
        k = calloc(1, sizeof(*k));
        if (!k)
                return error_no_memory(err);
        memcpy(k->name, name, strlen(name) + 1);
        k->settled = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
        if (k->settled < 0) {
                int r = -errno;

                free(k);
                return error_sys(err, r, "prepare a worker");
        }
        items[w->count++] = k;
        *ret = k;
        return 0;
}

static int open_client_locked(struct workers *w, struct sg_error *err)
{
        int r;

        if (w->client)
                return 0;
        r = sg_client_open_from_env(NULL, &w->client, err);
        w->owns_client = r == 0;
        return r;
}

static int open_sandbox(struct workers *w, const struct worker *k, const char *sandbox_id, const struct sg_call *call,
                        struct sg_sandbox **ret, struct sg_error *err)
{
        const struct sg_pair metadata[] = {{METADATA_NAME, k->name}, {NULL, NULL}};
        const struct sg_create_options create = {.template_name = w->template_name,
                                                 .timeout_s = w->timeout_s,
                                                 .metadata = k->name[0] ? metadata : NULL,
                                                 .pauses_at_end = SG_YES};

        if (sandbox_id)
                return sg_sandbox_connect(w->client, sandbox_id, w->timeout_s, call, ret, err);
        return sg_sandbox_create(w->client, &create, call, ret, err);
}

/* The sandbox and its workspace.  Nothing stays after a failure, but a sandbox that was there before. */
static int make_place(struct workers *w, const struct worker *k, const char *sandbox_id, struct limit *limit,
                      struct place **ret, struct sg_error *err)
{
        const struct sg_call call = place_call(limit);
        AUTO_FREE char *id = NULL;
        struct sg_sandbox *box;
        int r = open_sandbox(w, k, sandbox_id, &call, &box, err);

        if (r < 0)
                return r;
        id = strdup(sg_sandbox_id(box));
        r = sandbox_place_create(box, w->workspace, limit, ret, err);
        if (r < 0 && !sandbox_id && id)
                (void)sg_sandbox_kill(w->client, id, NULL, NULL); /* by its own time limit: the other one may be over */
        return r;
}

static void settle_locked(struct worker *k, enum worker_state state)
{
        const uint64_t one = 1;

        k->state = state;
        (void)!write(k->settled, &one, sizeof(one)); /* it was 0 */
}

static int make_worker(struct workers *w, struct worker *k, const char *sandbox_id, struct limit *limit,
                       struct sg_error *err)
{
        struct place *place = NULL;
        int r = make_place(w, k, sandbox_id, limit, &place, err);

        (void)pthread_mutex_lock(&w->lock);
        k->place = place;
        settle_locked(k, r < 0 ? WORKER_EMPTY : WORKER_READY);
        (void)pthread_mutex_unlock(&w->lock);
        if (r < 0 && k->name[0])
                (void)error_wrap(err, "worker %s", k->name);
        return r;
}

/* 1: it is ready; 0: it was EMPTY, and is now the caller's to make. */
static int claim(struct workers *w, struct worker *k, struct limit *limit, struct sg_error *err)
{
        for (;;) {
                enum worker_state state;
                uint64_t count;
                int r;

                (void)pthread_mutex_lock(&w->lock);
                state = k->state;
                if (state == WORKER_EMPTY) {
                        k->state = WORKER_MAKING;
                        (void)!read(k->settled, &count, sizeof(count));
                }
                (void)pthread_mutex_unlock(&w->lock);
                if (state == WORKER_PAUSED)
                        return error_set(err, SG_CONFLICT,
                                         "the sandbox is paused: sg_runner_resume() lets it run again");
                if (state != WORKER_MAKING)
                        return state == WORKER_READY;
                r = limit_wait_fd(limit, k->settled, err);
                if (r < 0)
                        return r;
        }
}

static void leave(struct workers *w, struct worker *k)
{
        size_t i = 0;

        (void)pthread_mutex_lock(&w->lock);
        if (--k->users == 0 && k->state == WORKER_EMPTY) {
                while (w->items[i] != k)
                        i++;
                w->items[i] = w->items[--w->count];
                worker_free(k);
        }
        (void)pthread_mutex_unlock(&w->lock);
}

int worker_take(struct workers *w, const char *name, const char *sandbox_id, struct limit *limit, struct place **ret,
                struct sg_error *err)
{
        struct worker *k;
        int r;

        (void)pthread_mutex_lock(&w->lock);
        r = open_client_locked(w, err);
        k = r == 0 ? find_locked(w, name) : NULL;
        if (r == 0 && !k)
                r = add_locked(w, name, &k, err);
        if (r == 0)
                k->users++;
        (void)pthread_mutex_unlock(&w->lock);
        if (r < 0)
                return r;
        r = claim(w, k, limit, err);
        if (r == 0)
                r = make_worker(w, k, sandbox_id, limit, err);
        if (r >= 0)
                *ret = k->place;
        leave(w, k);
        return r < 0 ? r : 0;
}

struct place *worker_find(struct workers *w, const char *name)
{
        struct worker *k;
        struct place *place;

        (void)pthread_mutex_lock(&w->lock);
        k = find_locked(w, name);
        place = k ? k->place : NULL;
        (void)pthread_mutex_unlock(&w->lock);
        return place;
}

/* ---- all of them ---- */

enum order { PAUSE, RESUME, KILL };

/* SG_CONFLICT is also the answer for a sandbox that cannot be paused. */
static bool is_paused(struct workers *w, const char *id, const struct sg_call *call)
{
        struct sg_info *info = NULL;
        bool is = sg_sandbox_get(w->client, id, call, &info, NULL) == 0 && info->state == SG_STATE_PAUSED;

        sg_free(info);
        return is;
}

static int act(struct workers *w, struct worker *k, enum order order, const struct sg_call *call, struct sg_error *err)
{
        const char *id = sg_sandbox_id(sandbox_place_box(k->place));
        struct sg_error why = {0};
        int r;

        switch (order) {
        case PAUSE: r = sg_sandbox_pause(w->client, id, false, call, &why); break;
        case RESUME: r = sg_sandbox_resume(w->client, id, w->timeout_s, call, &why); break;
        default: r = sg_sandbox_kill(w->client, id, call, &why); break;
        }
        if (r < 0 && ((order == PAUSE && why.kind == SG_CONFLICT && is_paused(w, id, call)) ||
                      (order == KILL && why.kind == SG_NOT_FOUND)))
                r = 0; /* it is as it shall be */
        if (r < 0) {
                (void)error_pass(err, &why);
                return error_wrap(err, "sandbox %s", id);
        }
        k->state = order == PAUSE ? WORKER_PAUSED : WORKER_READY;
        return 0;
}

/* No program runs, and nobody makes a worker meanwhile: that is the caller's part. */
static int act_on_all(struct workers *w, enum order order, const struct sg_call *call, struct sg_error *err)
{
        int first = 0;

        for (size_t i = 0; i < w->count; i++) {
                struct worker *k = w->items[i];
                struct sg_error why = {0};
                int r;

                /* Sandboxes pause by themselves at the end of their time: resuming is said to all. */
                if (!k->place || (order == PAUSE && k->state == WORKER_PAUSED))
                        continue;
                r = act(w, k, order, call, &why);
                if (r < 0 && first == 0)
                        first = error_pass(err, &why);
        }
        return first;
}

int workers_pause(struct workers *w, const struct sg_call *call, struct sg_error *err)
{
        return act_on_all(w, PAUSE, call, err);
}

int workers_resume(struct workers *w, const struct sg_call *call, struct sg_error *err)
{
        return act_on_all(w, RESUME, call, err);
}

int workers_kill(struct workers *w, const struct sg_call *call, struct sg_error *err)
{
        return act_on_all(w, KILL, call, err);
}
