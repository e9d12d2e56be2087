#include "engine/storage/layer_merger.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/guest/ask.h"
#include "engine/storage/layer_merge.h"
#include "model/ids.h"
#include "model/plan.h"
#include "sys/fs.h"
#include "sys/scm.h"

#define UNFINISHED LAYER_MERGER_UNFINISHED
#define TRIES_MAX 3u /* a merge whose helper dies again and again */

struct say {                      /* to the helper: each layer, lowest first, then the name of the result */
        char name[SEALED_ID_MAX]; /* NUL-terminated */
        bool is_into;
};

struct done {
        int r;
        struct layer_merge_count count;
        struct err err;
};
_Static_assert(sizeof(struct done) <= HELPER_MESSAGE_MAX, "fits into one message");

struct merge_request {
        struct list node;
        struct ask *ask;
        json_t *layers; /* owned */
        char into[SEALED_ID_MAX];
        unsigned tries;
};

/* ------------------------------------------------------------- in the helper */

static int publish(int dir, const char *unfinished, const char *into, struct err *err)
{
        if (syncfs(dir) < 0) /* many small things were made: one flush of everything is the cheapest */
                return err_sys(err, -errno, "write out merged layer");
        if (renameat2(dir, unfinished, dir, into, RENAME_NOREPLACE) < 0)
                return err_sys(err, -errno, "name merged layer '%s'", into);
        return fsync(dir) < 0 ? err_sys(err, -errno, "write out name of merged layer") : 0;
}

static int merge(int dir, const char *const *layers, size_t n, const char *into, struct done *d)
{
        char unfinished[sizeof(UNFINISHED) + SEALED_ID_MAX];
        struct stat st;
        int r;

        if (fstatat(dir, into, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return 0; /* done before, for one who did not hear of it */
        (void)snprintf(unfinished, sizeof(unfinished), UNFINISHED "%s", into);
        r = sys_make_dir(dir, unfinished, 0700);
        if (r < 0)
                return err_sys(&d->err, r, "make merged layer");
        r = layer_merge(dir, layers, n, unfinished, &d->count, &d->err);
        if (r == 0)
                r = publish(dir, unfinished, into, &d->err);
        if (r < 0 && sys_remove_tree(dir, unfinished) < 0)
                log_warn("merge.left", "layer=%s, until the next start", unfinished);
        return r;
}

static void remove_unfinished(int dir)
{
        AUTO_DIR DIR *d = sys_list(dir);
        struct dirent *e;

        while (d && (e = sys_list_next(d)))
                if (strncmp(e->d_name, UNFINISHED, strlen(UNFINISHED)) == 0 && sys_remove_tree(dir, e->d_name) < 0)
                        log_warn("merge.left", "layer=%s, until the next start", e->d_name);
}

static _Noreturn void run_layer_merger(int dir, int sock)
{
        static char names[PLAN_LAYERS_MAX][SEALED_ID_MAX];
        const char *layers[PLAN_LAYERS_MAX];
        int fds[HELPER_FDS_MAX];
        size_t n = 0, nfds = 0;
        struct say say;

        remove_unfinished(dir);
        while (scm_recv(sock, &say, sizeof(say), fds, HELPER_FDS_MAX, &nfds) == (ssize_t)sizeof(say)) {
                struct done done = {.r = 0};

                if (!say.is_into && n < PLAN_LAYERS_MAX) {
                        memcpy(names[n], say.name, sizeof(say.name));
                        layers[n] = names[n];
                        n++;
                        continue;
                }
                done.r = merge(dir, layers, n, say.name, &done);
                n = 0;
                if (scm_send(sock, &done, sizeof(done), NULL, 0) < 0)
                        break;
        }
        _exit(0);
}

/* ------------------------------------------------------------- in the engine */

static void answer(struct layer_merger *f, struct merge_request *j, const struct done *d)
{
        if (d->r < 0) {
                log_warn("merge.failed", "layer=%s error=\"%s\"", j->into, d->err.msg);
                ask_fail(j->ask, &d->err);
        } else {
                log_info("merge.done", "layer=%s directories=%llu files=%llu copied=%llu", j->into,
                         (unsigned long long)d->count.directories, (unsigned long long)d->count.files,
                         (unsigned long long)d->count.copied);
                ask_ok(j->ask,
                       json_pack("{s:I,s:I}", "directories", (json_int_t)d->count.directories, "files",
                                 (json_int_t)d->count.files),
                       -1);
        }
        list_remove(&j->node);
        f->count--;
        json_decref(j->layers);
        free(j);
}

static void fail_all(struct layer_merger *f)
{
        struct done d = {.r = -EPIPE};

        (void)err_set(&d.err, ERR_UNAVAILABLE, "layers cannot be merged until the engine starts again");
        while (!list_is_empty(&f->jobs))
                answer(f, LIST_ENTRY(f->jobs.next, struct merge_request, node), &d);
}

static void on_message(struct helper *h, const void *p, size_t n, int *fds, size_t nfds)
{
        struct layer_merger *f = CONTAINER_OF(h, struct layer_merger, helper);
        struct done d;

        for (size_t i = 0; i < nfds; i++)
                close_fd(&fds[i]);
        if (n != sizeof(d) || list_is_empty(&f->jobs))
                return;
        memcpy(&d, p, sizeof(d));
        answer(f, LIST_ENTRY(f->jobs.next, struct merge_request, node), &d);
}

/* The one it was at is the first. */
static void on_gone(struct helper *h)
{
        struct layer_merger *f = CONTAINER_OF(h, struct layer_merger, helper);
        struct done d = {.r = -EPIPE};
        struct merge_request *first;

        if (list_is_empty(&f->jobs))
                return;
        first = LIST_ENTRY(f->jobs.next, struct merge_request, node);
        if (++first->tries < TRIES_MAX)
                return;
        (void)err_set(&d.err, ERR_INTERNAL, "the process that merges layers died of it %u times", TRIES_MAX);
        answer(f, first, &d);
}

static int send_name(struct layer_merger *f, const char *name, bool is_into)
{
        struct say say = {.is_into = is_into};

        memcpy(say.name, name, strlen(name) + 1);
        return helper_send(&f->helper, &say, sizeof(say), NULL, 0);
}

bool layer_merger_is_making(const struct layer_merger *f, const char *layer)
{
        LIST_EACH (node, &f->jobs)
                if (strcmp(LIST_ENTRY(node, struct merge_request, node)->into, layer) == 0)
                        return true;
        return false;
}

static int send_job(struct layer_merger *f, const struct merge_request *j)
{
        int r = 0;

        for (size_t i = 0; i < json_array_size(j->layers) && r == 0; i++)
                r = send_name(f, json_string_value(json_array_get(j->layers, i)), false);
        return r == 0 ? send_name(f, j->into, true) : r;
}

/* A merge that was complete is not done again (`merge`), half of one is removed first (`remove_unfinished`). */
static int start_helper(struct helper *h, struct err *err)
{
        struct layer_merger *f = CONTAINER_OF(h, struct layer_merger, helper);
        int sock = -1, r;
        pid_t pid = helper_fork("sg-layer-merge", &f->sealed_dir, 1, &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork layer merger");
        if (pid == 0)
                run_layer_merger(f->sealed_dir, sock);
        r = helper_start(h, f->loop, sock);
        LIST_EACH (node, &f->jobs)
                if (r == 0)
                        r = send_job(f, LIST_ENTRY(node, struct merge_request, node));
        if (r < 0)
                helper_stop(h);
        return r < 0 ? err_sys(err, r, "start layer merger") : 0;
}

int layer_merger_start(struct layer_merger *f, struct loop *l, int sealed_dir, struct err *err)
{
        *f = (struct layer_merger){.loop = l, .sealed_dir = sealed_dir};
        list_init(&f->jobs);
        f->helper.name = "flattener";
        f->helper.on_message = on_message;
        f->helper.on_gone = on_gone;
        f->helper.again = start_helper;
        return start_helper(&f->helper, err);
}

void layer_merger_stop(struct layer_merger *f)
{
        if (!f->loop)
                return;
        helper_stop(&f->helper);
        fail_all(f);
}

static bool is_sealed_name(const json_t *v)
{
        return json_is_string(v) && sealed_id_is_valid((struct str){json_string_value(v), json_string_length(v)});
}

static int check(const json_t *layers, const json_t *into, struct err *err)
{
        size_t n = json_array_size(layers);

        if (n < 1 || n > PLAN_LAYERS_MAX)
                return err_set(err, ERR_INVALID, "layers: not a list of 1 to %d", PLAN_LAYERS_MAX);
        for (size_t i = 0; i < n; i++)
                if (!is_sealed_name(json_array_get(layers, i)))
                        return err_set(err, ERR_INVALID, "layers[%zu]: not a sealed layer's id", i);
        return is_sealed_name(into) ? 0 : err_set(err, ERR_INVALID, "into: not a sealed layer's id");
}

int layer_merger_op(struct layer_merger *f, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *layers = json_object_get(msg, "layers"), *into = json_object_get(msg, "into");
        struct merge_request *j;
        int r = check(layers, into, err);

        if (r < 0)
                return r;
        if (f->count >= LAYER_MERGER_JOBS_MAX)
                return err_set(err, ERR_LIMIT, "%u merges are waiting already", f->count);
        j = calloc(1, sizeof(*j));
        if (!j)
                return err_sys(err, -ENOMEM, "merge layers");
        *j = (struct merge_request){
                .ask = a, .layers = json_incref((json_t *)(size_t)layers)}; /* goes on when the asker leaves */
        memcpy(j->into, json_string_value(into), json_string_length(into) + 1);
        list_push_back(&f->jobs, &j->node);
        f->count++;
        if (helper_is_running(&f->helper) && send_job(f, j) < 0)
                helper_end(&f->helper); /* half a job must not be there for the next one to complete */
        return 0;
}
