#include "engine/layers/layer_merger.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "model/ids.h"
#include "model/plan.h"
#include "sys/fs.h"
#include "sys/scm.h"

#define UNFINISHED LAYER_MERGER_UNFINISHED
#define TRIES_MAX 3u /* a merge whose helper dies again and again */

struct merge_order {              /* to the helper: each layer, lowest first, then the name of the merged layer */
        char name[SEALED_ID_MAX]; /* NUL-terminated */
        bool is_into;
};

struct merge_result { /* from the helper */
        int r;
        struct layer_merge_count count;
        struct err err;
};
_Static_assert(sizeof(struct merge_result) <= HELPER_MESSAGE_MAX, "fits into one message");

struct merge_job {
        struct list node;
        layer_merger_on_done *on_done;
        void *arg;
        char layers[PLAN_LAYERS_MAX][SEALED_ID_MAX];
        size_t layer_count;
        char into[SEALED_ID_MAX];
        unsigned tries;
};

/* ------------------------------------------------------------- in the helper */

static int publish_merged(int dir, const char *unfinished, const char *into, struct err *err)
{
        if (syncfs(dir) < 0) /* many small things were made: one flush of everything is the cheapest */
                return err_sys(err, -errno, "write out merged layer");
        if (renameat2(dir, unfinished, dir, into, RENAME_NOREPLACE) < 0)
                return err_sys(err, -errno, "name merged layer '%s'", into);
        return fsync(dir) < 0 ? err_sys(err, -errno, "write out name of merged layer") : 0;
}

static int merge_into(int dir, const char *const *layers, size_t n, const char *into, struct merge_result *d)
{
        char unfinished[sizeof(UNFINISHED) + SEALED_ID_MAX];
        struct stat st;
        int r;

        if (fstatat(dir, into, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return 0; /* done before: the engine did not hear of it */
        (void)snprintf(unfinished, sizeof(unfinished), UNFINISHED "%s", into);
        r = sys_make_dir(dir, unfinished, 0700);
        if (r < 0)
                return err_sys(&d->err, r, "make merged layer");
        r = layer_merge(dir, layers, n, unfinished, &d->count, &d->err);
        if (r == 0)
                r = publish_merged(dir, unfinished, into, &d->err);
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
        struct merge_order order;

        remove_unfinished(dir);
        while (scm_recv(sock, &order, sizeof(order), fds, HELPER_FDS_MAX, &nfds) == (ssize_t)sizeof(order)) {
                struct merge_result done = {.r = 0};

                if (!order.is_into && n < PLAN_LAYERS_MAX) {
                        memcpy(names[n], order.name, sizeof(order.name));
                        layers[n] = names[n];
                        n++;
                        continue;
                }
                done.r = merge_into(dir, layers, n, order.name, &done);
                n = 0;
                if (scm_send(sock, &done, sizeof(done), NULL, 0) < 0)
                        break;
        }
        _exit(0);
}

/* ------------------------------------------------------------- in the engine */

static void merge_finish(struct layer_merger *f, struct merge_job *j, const struct merge_result *d)
{
        if (d->r < 0)
                log_warn("merge.failed", "layer=%s error=\"%s\"", j->into, d->err.msg);
        else
                log_info("merge.done", "layer=%s directories=%llu files=%llu copied=%llu", j->into,
                         (unsigned long long)d->count.directories, (unsigned long long)d->count.files,
                         (unsigned long long)d->count.copied);
        list_remove(&j->node);
        f->count--;
        j->on_done(j->arg, &d->count, &d->err);
        free(j);
}

static void fail_all_merges(struct layer_merger *f)
{
        struct merge_result d = {.r = -EPIPE};

        (void)err_set(&d.err, ERR_UNAVAILABLE, "layers cannot be merged until the engine starts again");
        while (!list_is_empty(&f->jobs))
                merge_finish(f, LIST_ENTRY(f->jobs.next, struct merge_job, node), &d);
}

static void merge_answered(struct helper *h, const void *p, size_t n, int *fds, size_t nfds)
{
        struct layer_merger *f = CONTAINER_OF(h, struct layer_merger, helper);
        struct merge_result d;

        for (size_t i = 0; i < nfds; i++)
                close_fd(&fds[i]);
        if (n != sizeof(d) || list_is_empty(&f->jobs))
                return;
        memcpy(&d, p, sizeof(d));
        merge_finish(f, LIST_ENTRY(f->jobs.next, struct merge_job, node), &d);
}

/* The helper was at the first of them. */
static void merger_gone(struct helper *h)
{
        struct layer_merger *f = CONTAINER_OF(h, struct layer_merger, helper);
        struct merge_result d = {.r = -EPIPE};
        struct merge_job *first;

        if (list_is_empty(&f->jobs))
                return;
        first = LIST_ENTRY(f->jobs.next, struct merge_job, node);
        if (++first->tries < TRIES_MAX)
                return;
        (void)err_set(&d.err, ERR_INTERNAL, "the process that merges layers died %u times at this merge", TRIES_MAX);
        merge_finish(f, first, &d);
}

static int send_name(struct layer_merger *f, const char *name, bool is_into)
{
        struct merge_order order = {.is_into = is_into};

        memcpy(order.name, name, strlen(name) + 1);
        return helper_send(&f->helper, &order, sizeof(order), NULL, 0);
}

bool layer_merger_is_making(const struct layer_merger *f, const char *layer)
{
        LIST_EACH (node, &f->jobs)
                if (strcmp(LIST_ENTRY(node, struct merge_job, node)->into, layer) == 0)
                        return true;
        return false;
}

static int send_merge(struct layer_merger *f, const struct merge_job *j)
{
        int r = 0;

        for (size_t i = 0; i < j->layer_count && r == 0; i++)
                r = send_name(f, j->layers[i], false);
        return r == 0 ? send_name(f, j->into, true) : r;
}

/* A merge that was complete is not done again (`merge_into`), half of one is removed first (`remove_unfinished`). */
static int start_merger(struct helper *h, struct err *err)
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
                        r = send_merge(f, LIST_ENTRY(node, struct merge_job, node));
        if (r < 0)
                helper_stop(h);
        return r < 0 ? err_sys(err, r, "start layer merger") : 0;
}

int layer_merger_start(struct layer_merger *f, struct loop *l, int sealed_dir, struct err *err)
{
        *f = (struct layer_merger){.loop = l, .sealed_dir = sealed_dir};
        list_init(&f->jobs);
        f->helper.name = "layer-merge";
        f->helper.on_message = merge_answered;
        f->helper.on_gone = merger_gone;
        f->helper.again = start_merger;
        return start_merger(&f->helper, err);
}

void layer_merger_stop(struct layer_merger *f)
{
        if (!f->loop)
                return;
        helper_stop(&f->helper);
        fail_all_merges(f);
}

int layer_merger_merge(struct layer_merger *f, const char *const *layers, size_t n, const char *into,
                       layer_merger_on_done *on_done, void *arg, struct err *err)
{
        struct merge_job *j;

        if (f->count >= LAYER_MERGER_JOBS_MAX)
                return err_set(err, ERR_LIMIT, "%u merges are waiting already", f->count);
        j = calloc(1, sizeof(*j));
        if (!j)
                return err_sys(err, -ENOMEM, "merge layers");
        j->on_done = on_done;
        j->arg = arg;
        for (; j->layer_count < n; j->layer_count++)
                memcpy(j->layers[j->layer_count], layers[j->layer_count], strlen(layers[j->layer_count]) + 1);
        memcpy(j->into, into, strlen(into) + 1);
        list_push_back(&f->jobs, &j->node);
        f->count++;
        if (helper_is_running(&f->helper) && send_merge(f, j) < 0)
                helper_end(&f->helper); /* the next helper must not add to half an order */
        return 0;
}
