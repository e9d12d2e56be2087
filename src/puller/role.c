#include "puller/role.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "io/channel.h"
#include "io/listener.h"
#include "model/conf.h"
#include "model/err_json.h"
#include "model/json_field.h"
#include "puller/blobs.h"
#include "puller/fetch.h"
#include "puller/jobs.h"
#include "puller/limits.h"

#define FORGET_MAX 4096 /* digests in one message */

const struct puller_limits puller_limits_default = {
        .idle_ms = 60000,
        .connect_ms = 15000,
        .stall_s = 30,
        .document_ms = 60000,
        .retry_ms = 500,
        .retry_max_ms = 15000,
        .failures_max = 5,
        .attempts_max = 100,
        .blobs_at_once = 4,
        .jobs_at_once = 4,
        .jobs_max = 64,
        .progress_ms = 500,
        .kept_s = 24 * 3600,
};

struct puller {
        const struct conf *conf;
        const struct puller_limits *limits;
        struct loop *loop;
        struct blobs *blobs;
        struct job_list jobs;
        struct listener listener;
        struct list peers;
        struct timer idle;
};

struct peer {
        struct list node;
        struct puller *puller;
        struct channel *channel;
        struct list calls; /* of its jobs */
        struct task free_task;
};

struct call { /* a job on behalf of a peer */
        struct list node;
        struct peer *peer;
        struct puller_job *job;
};

static void watch_idle(struct puller *p)
{
        if (list_is_empty(&p->peers) && p->jobs.count == 0)
                timer_set(p->loop, &p->idle, p->limits->idle_ms);
        else
                timer_clear(&p->idle);
}

/* ---- answers ---- */

static void answer(struct peer *peer, json_int_t req, json_t *body, const int *fd)
{
        if (body && json_object_set_new(body, "req", json_integer(req)) == 0 &&
            json_object_set_new(body, "ok", json_true()) == 0)
                (void)channel_send(peer->channel, json_incref(body), fd, fd ? 1 : 0);
        json_decref(body);
}

static void answer_error(struct peer *peer, json_int_t req, const struct err *err)
{
        (void)channel_send(peer->channel, json_pack("{s:I,s:o}", "req", req, "error", err_encode(err)), NULL, 0);
}

static void call_free(struct call *c)
{
        list_remove(&c->node);
        free(c);
}

static void on_job_done(struct puller_job *job, json_t *body, const struct err *err)
{
        struct call *c = job->arg;
        char what[LOG_ESCAPED_MAX];

        log_info("pull.done", "image=%s ok=%d bytes=%llu",
                 log_escape(str_of(job->asked ? job->asked : "archive"), what), err == NULL,
                 (unsigned long long)job->pull.done);
        if (err)
                answer_error(c->peer, job->req, err);
        else
                answer(c->peer, job->req, json_incref(body), NULL);
        call_free(c);
}

static void on_job_progress(struct puller_job *job, uint64_t done, uint64_t total)
{
        const struct call *c = job->arg;

        (void)channel_send(c->peer->channel,
                           json_pack("{s:s,s:I,s:I,s:I}", "event", "progress", "req", (json_int_t)job->req, "done",
                                     (json_int_t)done, "total", (json_int_t)total),
                           NULL, 0);
}

/* ---- requests ---- */

static int fill_image(struct puller_job *job, const json_t *msg, struct err *err)
{
        const char *image = NULL;
        int r;

        r = json_field_text(msg, "image", &image, err);
        if (r == 0)
                r = image_ref_parse(str_of(image), &job->pull.ref, err);
        if (r == 0)
                r = registry_auth_decode(json_object_get(msg, "auth"), &job->pull.auth, err);
        if (r < 0)
                return r;
        job->asked = strdup(image);
        return job->asked ? 0 : err_sys(err, -ENOMEM, "job");
}

static int begin_job(struct peer *peer, json_int_t req, const json_t *msg, int *fd,
                     int (*run)(struct pull *p, json_t **ret, struct err *err), struct err *err)
{
        struct puller_job *job = job_create(&peer->puller->jobs, err);
        struct call *c = calloc(1, sizeof(*c));
        int r = job && c ? 0 : -ENOMEM;

        if (r == 0 && fd)
                job->pull.archive = TAKE_FD(*fd);
        else if (r == 0)
                r = fill_image(job, msg, err);
        if (r < 0) {
                if (job)
                        (void)job_free(job);
                free(c);
                return err->kind == ERR_NONE ? err_sys(err, r, "job") : r;
        }
        *c = (struct call){.peer = peer, .job = job};
        list_push_back(&peer->calls, &c->node);
        job->run = run;
        job->req = req;
        job->arg = c;
        job->on_done = on_job_done;
        job->on_progress = on_job_progress;
        job_begin(job);
        watch_idle(peer->puller);
        return 0;
}

static int op_resolve(struct peer *peer, json_int_t req, const json_t *msg, int *fds, size_t nfds, struct err *err)
{
        (void)fds, (void)nfds;
        return begin_job(peer, req, msg, NULL, pull_resolve, err);
}

static int op_pull(struct peer *peer, json_int_t req, const json_t *msg, int *fds, size_t nfds, struct err *err)
{
        (void)fds, (void)nfds;
        return begin_job(peer, req, msg, NULL, pull_image, err);
}

static int op_load(struct peer *peer, json_int_t req, const json_t *msg, int *fds, size_t nfds, struct err *err)
{
        if (nfds != 1)
                return err_set(err, ERR_INVALID, "load: no file");
        return begin_job(peer, req, msg, &fds[0], pull_load, err);
}

static int op_open(struct peer *peer, json_int_t req, const json_t *msg, int *fds, size_t nfds, struct err *err)
{
        const char *digest = json_string_value(json_object_get(msg, "digest"));
        AUTO_CLOSE int fd = -1;
        int r;

        (void)fds, (void)nfds;
        if (!image_digest_is_valid(str_of(digest)))
                return err_set(err, ERR_INVALID, "digest: is none");
        r = blobs_open(peer->puller->blobs, digest, &fd, err);
        if (r == 0)
                answer(peer, req, json_object(), &fd);
        return r;
}

static int op_forget(struct peer *peer, json_int_t req, const json_t *msg, int *fds, size_t nfds, struct err *err)
{
        json_t *list = NULL, *item;
        size_t i;
        int r = json_field_text_list(msg, "digests", FORGET_MAX, &list, err);

        (void)fds, (void)nfds;
        if (r < 0)
                return r;
        json_array_foreach (list, i, item)
                if (!image_digest_is_valid(str_of(json_string_value(item))))
                        return err_set(err, ERR_INVALID, "digests: item %zu is none", i + 1);
        json_array_foreach (list, i, item)
                blobs_remove(peer->puller->blobs, json_string_value(item));
        answer(peer, req, json_object(), NULL);
        return 0;
}

static int op_cancel(struct peer *peer, json_int_t req, const json_t *msg, int *fds, size_t nfds, struct err *err)
{
        const json_t *of = json_object_get(msg, "of");

        (void)fds, (void)nfds;
        if (!json_is_integer(of))
                return err_set(err, ERR_INVALID, "of: is no number");
        LIST_EACH (node, &peer->calls) {
                struct call *c = LIST_ENTRY(node, struct call, node);

                if (c->job->req == json_integer_value(of)) {
                        job_cancel(c->job); /* what came so far stays for the next attempt */
                        call_free(c);
                }
        }
        answer(peer, req, json_object(), NULL);
        return 0;
}

static const struct {
        const char *name;
        int (*run)(struct peer *peer, json_int_t req, const json_t *msg, int *fds, size_t nfds, struct err *err);
} ops[] = {
        {"resolve", op_resolve}, {"pull", op_pull},     {"load", op_load},
        {"open", op_open},       {"forget", op_forget}, {"cancel", op_cancel},
};

static void on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        const json_t *req = json_object_get(msg, "req");
        const char *name = json_string_value(json_object_get(msg, "op"));
        struct peer *peer = arg;
        struct err err = {0};
        size_t i = 0;

        (void)ch;
        if (!json_is_integer(req))
                return; /* nothing to answer to */
        while (i < ARRAY_LEN(ops) && (!name || strcmp(ops[i].name, name) != 0))
                i++;
        if (i == ARRAY_LEN(ops))
                (void)err_set(&err, ERR_INVALID, "op: unknown");
        if (i == ARRAY_LEN(ops) || ops[i].run(peer, json_integer_value(req), msg, fds, nfds, &err) < 0)
                answer_error(peer, json_integer_value(req), &err);
}

/* ---- peers ---- */

static void free_peer(struct task *t)
{
        free(CONTAINER_OF(t, struct peer, free_task));
}

static void drop_peer(struct peer *peer)
{
        struct puller *p = peer->puller;

        while (!list_is_empty(&peer->calls)) {
                struct call *c = LIST_ENTRY(peer->calls.next, struct call, node);

                job_cancel(c->job); /* what came so far stays for the next attempt */
                call_free(c);
        }
        list_remove(&peer->node);
        peer->channel = channel_free(peer->channel);
        peer->free_task.run = free_peer;
        loop_post(p->loop, &peer->free_task);
        watch_idle(p);
}

static void on_close(struct channel *ch, const char *reason, void *arg)
{
        (void)ch;
        log_debug("peer.gone", "reason=\"%s\"", reason);
        drop_peer(arg);
}

static bool may_connect(const struct puller *p, int fd)
{
        struct ucred who = {.uid = (uid_t)-1};
        socklen_t len = sizeof(who);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
                return false;
        if (who.uid == 0 || who.uid == p->conf->control_uid)
                return true;
        log_warn("peer.refused", "uid=%u, closing", who.uid);
        return false;
}

static void on_connection(struct listener *ln, int fd)
{
        static const struct channel_ops peer_ops = {.on_message = on_message, .on_close = on_close};
        struct puller *p = ln->arg;
        struct peer *peer = may_connect(p, fd) ? calloc(1, sizeof(*peer)) : NULL;

        if (!peer) {
                (void)close(fd);
                return;
        }
        peer->puller = p;
        list_init(&peer->calls);
        if (channel_create(p->loop, fd, &peer_ops, peer, &peer->channel) < 0) {
                free(peer);
                return;
        }
        list_push_back(&p->peers, &peer->node);
        watch_idle(p);
}

/* ---- the role ---- */

static void on_idle(struct timer *t)
{
        struct puller *p = CONTAINER_OF(t, struct puller, idle);

        log_info("puller.idle", "ending until somebody connects");
        loop_stop(p->loop);
}

static void on_no_jobs(struct job_list *l)
{
        watch_idle(CONTAINER_OF(l, struct puller, jobs));
}

static void on_signal(int signo, void *arg)
{
        struct puller *p = arg;

        (void)signo;
        loop_stop(p->loop);
}

static int puller_start(struct puller *p, struct err *err)
{
        static const int signals[] = {SIGTERM, SIGINT, 0};
        AUTO_FREE char *path = conf_path(p->conf, "blobs");
        int r;

        if (!path)
                return err_sys(err, -ENOMEM, "puller");
        if (fetch_global_init() < 0)
                return err_set(err, ERR_INTERNAL, "libcurl does not work");
        r = loop_create(&p->loop);
        if (r == 0)
                r = loop_signals(p->loop, signals, on_signal, p);
        if (r < 0)
                return err_sys(err, r, "event loop");
        r = blobs_create(path, p->limits->kept_s, &p->blobs, err);
        if (r < 0)
                return r;
        p->jobs = (struct job_list){.loop = p->loop,
                                    .conf = p->conf,
                                    .limits = p->limits,
                                    .blobs = p->blobs,
                                    .on_idle = on_no_jobs,
                                    .wake.fd = -1};
        p->idle.on = on_idle;
        r = jobs_start(&p->jobs);
        if (r == 0)
                r = listener_start(&p->listener, p->loop, p->conf->fds.puller, on_connection, p);
        if (r < 0)
                return err_sys(err, r, "listen");
        watch_idle(p);
        return 0;
}

static void puller_end(struct puller *p)
{
        if (!p->loop)
                return;
        listener_stop(&p->listener);
        while (!list_is_empty(&p->peers))
                drop_peer(LIST_ENTRY(p->peers.next, struct peer, node));
        jobs_stop(&p->jobs);
        timer_clear(&p->idle);
        p->blobs = blobs_free(p->blobs);
        p->loop = loop_free(p->loop);
}

int puller_run(const struct conf *conf, const struct puller_limits *limits)
{
        struct puller p = {.conf = conf, .limits = limits};
        struct err err = {0};
        int r;

        list_init(&p.peers);
        r = puller_start(&p, &err);
        if (r < 0) {
                log_error("puller.failed", "error=\"%s\"", err.msg);
        } else {
                log_info("puller.ready", "jobs_max=%u", limits->jobs_max);
                r = loop_run(p.loop);
                if (r < 0)
                        log_error("puller.failed", "errno=%d", -r);
        }
        puller_end(&p);
        return r < 0 ? 1 : 0;
}

int puller_main(const struct conf *conf)
{
        return puller_run(conf, &puller_limits_default);
}
