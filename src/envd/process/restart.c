#include "envd/process/restart.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "envd/process/process.h"
#include "envd/process/process_start.h"
#include "model/envd_restart.h"

#define PAUSE_MS 1000
#define SHORT_LIFE_MS 5000

struct restart {
        struct list node;
        struct restarts *restarts;
        json_t *request; /* owned: as of a Start call */
        pid_t pid;       /* 0: not running */
        uint64_t started_ms;
        unsigned tries; /* since it last asked, or lived for long */
        struct timer timer;
};

static struct restart *restart_free(struct restart *p)
{
        if (p) {
                timer_clear(&p->timer);
                list_remove(&p->node);
                json_decref(p->request);
                free(p);
        }
        return NULL;
}

static void restart_later(struct restart *p, uint64_t now_ms)
{
        bool is_soon = p->started_ms && now_ms - p->started_ms < p->restarts->short_life_ms;

        p->pid = 0;
        if (p->tries++ == RESTARTS_MAX) {
                log_warn("envd.restart", "why=\"a program ends again and again\"");
                (void)restart_free(p);
                return;
        }
        timer_set(p->restarts->table->loop, &p->timer, is_soon ? p->restarts->pause_ms : 0);
}

static void restart_is_due(struct timer *t)
{
        struct restart *p = CONTAINER_OF(t, struct restart, timer);
        AUTO_USER struct user root = {0};
        AUTO_FAULT struct fault f = {0};
        bool is_root = getuid() == 0;
        struct start_request rq;
        struct process *started;
        int r = user_lookup("root", &root);

        p->started_ms = clock_mono_ms();
        if (r == 0)
                r = start_request_decode(p->request, &rq, &f);
        if (r == 0)
                r = process_start(
                        p->restarts->table,
                        &(struct process_start){
                                .rq = &rq, .settings = p->restarts->settings, .user = &root, .keep_user = !is_root},
                        &started, &f);
        if (r < 0) {
                char text[LOG_ESCAPED_MAX];

                log_warn("envd.restart", "why=\"%s\"", log_escape(str_of(fault_text(&f)), text));
                restart_later(p, p->started_ms);
                return;
        }
        p->pid = started->pid;
        log_info("envd.restart", "pid=%d", (int)p->pid);
}

/* The file of this process, which is removed: the pid may be another's soon.  NULL: it has none. */
static json_t *take_file(const struct restarts *r, pid_t pid)
{
        AUTO_BUF struct buf text = BUF_INIT(ENVD_RESTART_MAX);
        AUTO_CLOSE int dir = open(r->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd = -1;
        json_t *process, *request;
        char name[16];
        ssize_t n = 1;

        (void)snprintf(name, sizeof(name), "%d", (int)pid);
        if (dir >= 0)
                fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return NULL;
        (void)unlinkat(dir, name, 0);
        while (n > 0)
                n = buf_fill(&text, fd, 4096);
        process = n == 0 ? json_loadb((const char *)buf_at(&text), text.len, JSON_REJECT_DUPLICATES, NULL) : NULL;
        request = process ? json_pack("{s:o, s:b}", "process", process, "stdin", 0) : NULL;
        if (!request)
                log_warn("envd.restart", "pid=%d why=\"its file cannot be read\"", (int)pid);
        return request;
}

static struct restart *restart_find(struct restarts *r, pid_t pid)
{
        LIST_EACH (at, &r->all) {
                struct restart *p = LIST_ENTRY(at, struct restart, node);

                if (p->pid == pid)
                        return p;
        }
        return NULL;
}

static struct restart *restart_add(struct restarts *r)
{
        struct restart *p = calloc(1, sizeof(*p));

        if (!p)
                return NULL;
        *p = (struct restart){.restarts = r, .timer.on = restart_is_due};
        list_push_back(&r->all, &p->node);
        return p;
}

void restarts_on_end(struct restarts *r, pid_t pid, int code, int status)
{
        json_t *request = take_file(r, pid);
        struct restart *p = restart_find(r, pid);
        uint64_t now = clock_mono_ms();

        if ((code == CLD_EXITED && status == 0) || (!p && (!request || !(p = restart_add(r))))) {
                json_decref(request);
                (void)restart_free(p);
                return;
        }
        if (request || now - p->started_ms >= r->short_life_ms)
                p->tries = 0;
        if (request) {
                json_decref(p->request);
                p->request = request;
        }
        restart_later(p, now);
}

void restarts_forget_files(const struct restarts *r)
{
        DIR *dir = opendir(r->dir);
        struct dirent *entry;

        while (dir && (entry = readdir(dir)))
                if (entry->d_name[0] != '.')
                        (void)unlinkat(dirfd(dir), entry->d_name, 0);
        if (dir)
                (void)closedir(dir);
}

void restarts_init(struct restarts *r, struct process_table *t, const struct settings *s)
{
        *r = (struct restarts){.table = t,
                               .settings = s,
                               .dir = ENVD_RESTART_DIR,
                               .pause_ms = PAUSE_MS,
                               .short_life_ms = SHORT_LIFE_MS};
        list_init(&r->all);
}

void restarts_done(struct restarts *r)
{
        while (!list_is_empty(&r->all))
                (void)restart_free(LIST_ENTRY(r->all.next, struct restart, node));
}
