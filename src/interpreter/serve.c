#include "interpreter/serve.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "http/server.h"
#include "interpreter/jupyter/language.h"
#include "interpreter/kernel/kernel.h"
#include "interpreter/options.h"
#include "interpreter/service/api.h"
#include "interpreter/service/context.h"
#include "interpreter/service/contexts.h"
#include "io/loop.h"

#define CONNS_MAX 4096
#define HEAD_TIMEOUT_MS 120000
#define IDLE_TIMEOUT_MS 640000

static const char *const ready_languages[] = {"python", "javascript"}; /* warm before the first request */

struct service;
struct default_waiter {
        struct context_waiter waiter;
        struct service *service;
};

struct service {
        struct loop *loop;
        struct kernels kernels;
        struct contexts contexts;
        struct http_server *server;
        struct io guardian;
        int listen_fd;
        unsigned starting; /* default contexts that are not ready yet */
        struct default_waiter waiters[ARRAY_LEN(ready_languages)];
        enum serve_end end;
};

static void service_on_signal(int signo, void *arg)
{
        struct service *s = arg;

        if (signo == SIGCHLD) {
                kernels_reap(&s->kernels);
                return;
        }
        s->end = SERVE_STOPPED;
        loop_stop(s->loop);
}

static void service_on_guardian(struct io *io, uint32_t events)
{
        struct service *s = CONTAINER_OF(io, struct service, guardian);

        (void)events;
        loop_del(io);
        s->end = SERVE_ORPHANED;
        loop_stop(s->loop);
}

/* ---- the default contexts ---- */

/* Requests wait in the backlog until now. */
static void service_accept(struct service *s)
{
        int r = http_server_listen(s->server, TAKE_FD(s->listen_fd));

        if (r == 0) {
                log_info("interpreter.serving", "contexts=%zu", s->contexts.count);
                return;
        }
        log_error("interpreter.listen", "why=\"%s\"", strerror(-r));
        loop_stop(s->loop);
}

static void default_done(struct context_waiter *w, struct context *c, const char *failure)
{
        struct service *s = CONTAINER_OF(w, struct default_waiter, waiter)->service;

        (void)c;
        (void)failure; /* logged by the context; it is tried again when it is asked for */
        if (--s->starting == 0)
                service_accept(s);
}

static void service_start_defaults(struct service *s)
{
        s->starting = 1;
        for (size_t i = 0; i < ARRAY_LEN(ready_languages); i++) {
                struct default_waiter *w = &s->waiters[i];
                struct context *c;
                struct err err = {0};
                bool is_bad;

                if (!contexts_have_kernel(&s->contexts, ready_languages[i]))
                        continue;
                *w = (struct default_waiter){.waiter.done = default_done, .service = s};
                if (context_create(&s->contexts, ready_languages[i], s->contexts.opt.home, true, &c, &is_bad, &err) <
                    0) {
                        log_warn("interpreter.default", "language=%s why=\"%s\"", ready_languages[i], err.msg);
                        continue;
                }
                s->starting++;
                context_wait(c, &w->waiter);
        }
        if (--s->starting == 0)
                service_accept(s);
}

/* ---- */

static void raise_file_limit(struct rlimit *ret_before)
{
        struct rlimit raised;

        (void)getrlimit(RLIMIT_NOFILE, ret_before);
        raised = *ret_before;
        raised.rlim_cur = raised.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &raised);
}

static void tune_memory(void)
{
        (void)mallopt(M_ARENA_MAX, 1);              /* the other threads are libzmq's, and do not allocate much */
        (void)mallopt(M_MMAP_THRESHOLD, 256 << 10); /* fixed, so that the memory of one big message is given back */
        (void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

static int service_init(struct service *s, const struct serve_options *opt)
{
        static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, 0};
        struct http_server_options http = {.on_request = api_on_request,
                                           .arg = &s->contexts,
                                           .head_timeout_ms = HEAD_TIMEOUT_MS,
                                           .idle_timeout_ms = IDLE_TIMEOUT_MS,
                                           .conns_max = CONNS_MAX};
        int r = loop_create(&s->loop);

        if (r < 0)
                return r;
        http.loop = s->loop;
        s->kernels = (struct kernels){.loop = s->loop,
                                      .runtime_dir = opt->runtime_dir,
                                      .home = opt->options->home,
                                      .start_ms_max = opt->options->start_ms_max,
                                      .output_max = opt->options->output_max};
        raise_file_limit(&s->kernels.files);
        contexts_init(&s->contexts,
                      &(struct contexts_options){.loop = s->loop,
                                                 .kernels = &s->kernels,
                                                 .kernel_dirs = (const char *const *)opt->options->kernel_dirs,
                                                 .home = opt->options->home,
                                                 .envd = opt->options->envd,
                                                 .identity_file = opt->options->identity_file});
        if ((r = kernels_init(&s->kernels)) < 0 || (r = loop_signals(s->loop, signals, service_on_signal, s)) < 0 ||
            (r = loop_add(s->loop, &s->guardian, EPOLLIN)) < 0)
                return r;
        return http_server_create(&http, &s->server);
}

/* Clients first: what they wait for is told off.  Then contexts, and the kernels without anybody to tell. */
static void service_done(struct service *s)
{
        s->server = http_server_free(s->server);
        contexts_done(&s->contexts);
        kernels_done(&s->kernels);
        loop_del(&s->guardian);
        close_fd(&s->guardian.fd);
        close_fd(&s->listen_fd);
        s->loop = loop_free(s->loop);
}

enum serve_end serve_run(const struct serve_options *opt)
{
        struct service s = {.guardian = {.fd = opt->guardian_fd, .on = service_on_guardian},
                            .listen_fd = opt->listen_fd,
                            .end = SERVE_FAILED};
        int r;

        tune_memory();
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* what kernels leave behind comes to us */
        list_init(&s.kernels.all);
        list_init(&s.contexts.all);
        r = service_init(&s, opt);
        if (r == 0) {
                service_start_defaults(&s);
                r = loop_run(s.loop);
        }
        if (r < 0)
                log_error("interpreter.failed", "why=\"%s\"", strerror(-r));
        service_done(&s);
        return r < 0 ? SERVE_FAILED : s.end;
}
