#include "engine/jobs/job_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/host/mount_stage.h"
#include "engine/records/job_note.h"
#include "sys/scm.h"
#include "wire/crc32c.h"

#define JOB_MAX (4u << 20)
#define JOB_FDS 2
#define JOB_S 1800u

static job_op *const job_ops[JOB_KINDS] = {
        [JOB_PAUSE] = job_pause,
        [JOB_COPY] = job_copy,
        [JOB_RESTORE] = job_restore,
        [JOB_HAND_OVER] = job_hand_over,
        [JOB_SEAL] = job_seal,
        [JOB_MAKE_DURABLE] = job_make_durable,
        [JOB_FLUSH] = job_flush,
        [JOB_MEASURE] = job_measure,
        [JOB_NAMES] = job_names,
        [JOB_USAGE] = job_usage,
        [JOB_RECHECK] = job_recheck,
        [JOB_LOST] = job_lost,
        [JOB_LOST_RESTORE] = job_lost_restore,
};

void job_stall_point(const struct job_conf *c, const char *point)
{
        AUTO_CLOSE int fd = -1;
        struct stat st;
        char path[64];
        char byte;

        (void)snprintf(path, sizeof(path), "stall/%s", point);
        if (fstatat(c->data_dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISFIFO(st.st_mode))
                return;
        fd = openat(c->data_dir, path, O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && read(fd, &byte, 1) > 0)
                continue;
}

void job_say_waits(const struct job_conf *c)
{
        const char word = JOB_WAITS;

        (void)scm_send(c->engine_sock, &word, 1, NULL, 0); /* no engine there: nothing is counted */
}

static json_t *read_message(int fd)
{
        AUTO_FREE char *text = NULL;
        struct stat st;

        if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > JOB_MAX)
                return NULL;
        text = malloc((size_t)st.st_size);
        if (!text || pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
                return NULL;
        return json_loadb(text, (size_t)st.st_size, 0, NULL);
}

bool job_engine_is_gone(const struct job_conf *c)
{
        struct pollfd engine = {.fd = c->engine_sock};

        return poll(&engine, 1, 0) == 1;
}

/* Lock the directory of the job's sandbox, and write into it which slot and checkpoint are in use: an engine that comes after
 * ours leaves both alone.  Not begun if ours is gone by then, since the next may have looked before there was a lock. */
static int lock_sandbox(const struct job_conf *c, const struct job *job, int *ret, struct err *err)
{
        AUTO_CLOSE int dir = -1;
        int r;

        if (job->makes_directory && mkdirat(c->sandboxes_dir, job->id, 0700) < 0)
                return err_sys(err, -errno, "make directory of sandbox %s", job->id);
        dir = job_lock_wait(c->sandboxes_dir, job->id);
        if (dir < 0)
                return err_sys(err, dir, "lock directory of sandbox %s", job->id);
        r = job_note_write(dir, &job->note, err);
        if (r < 0)
                return r;
        if (job_engine_is_gone(c)) {
                (void)job_note_remove(dir);
                if (job->makes_directory)
                        (void)unlinkat(c->sandboxes_dir, job->id, AT_REMOVEDIR);
                _exit(1);
        }
        *ret = TAKE_FD(dir);
        return 0;
}

static void carry_out(const struct job_conf *c, const struct job *job, struct job_answer *ret)
{
        bool is_locked = job_locks_sandbox(job->kind);
        int lock = -1, r = 0;

        (void)alarm(is_locked ? JOB_S : 0); /* one that hangs ends as if it had been killed: the sandbox is thawed */
        if (is_locked)
                r = lock_sandbox(c, job, &lock, &ret->err);
        if (r == 0)
                r = job_ops[job->kind](c, job, ret, &ret->err);
        if (r < 0 && ret->err.kind == ERR_NONE)
                (void)err_set(&ret->err, ERR_INTERNAL, "no reason was given");
        (void)prctl(PR_SET_NAME, "sg-job-done"); /* what follows may take a moment: watches to be closed */
        if (lock >= 0) {
                (void)job_note_remove(lock);
                (void)flock(lock, LOCK_UN); /* before the answer: the engine may go on with the sandbox then */
        }
}

/* From here on only the job decides when this process ends: not the engine, not the job queue, no terminal. */
static _Noreturn void job_process_run(const struct job_conf *c, int job_fd)
{
        struct job_answer answer;
        struct job job = {0};

        (void)prctl(PR_SET_NAME, "sg-job");
        (void)send(c->engine_sock, &(char){JOB_BEGINS}, 1, MSG_NOSIGNAL);
        (void)setsid();
        (void)signal(SIGTERM, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        (void)signal(SIGCHLD, SIG_DFL);
        job_answer_init(&answer);
        if (job_decode(read_message(job_fd), &job, &answer.err) == 0)
                carry_out(c, &job, &answer);
        (void)job_answer_send(c->engine_sock, job.kind, &answer); /* no engine there: the disk says how it ended */
        _exit(answer.err.kind == ERR_NONE ? 0 : 1);
}

/* There is no process for the job: its socket is closed, which tells the engine. */
static ssize_t refuse_job(int sock)
{
        int fds[JOB_FDS];
        size_t nfds = 0;
        char word;
        ssize_t n;

        log_error("job.failed", "error=\"%s\"", strerror(errno));
        n = scm_recv(sock, &word, 1, fds, JOB_FDS, &nfds);
        while (nfds > 0)
                (void)close(fds[--nfds]);
        return n;
}

/* Pages that every job writes to become its own now, not while a request waits. */
static void touch_pages(void)
{
        static const char like_a_job[] = "{\"kind\":\"\",\"plan\":{\"id\":\"\",\"layers\":[\"\"],\"init\":{}}}";
        volatile char stack[64u << 10];

        for (size_t i = 0; i < sizeof(stack); i += 4096)
                stack[i] = 1;
        json_decref(json_loadb(like_a_job, sizeof(like_a_job) - 1, 0, NULL));
}

/* The next job process: waits for its job, so that no job waits for a fork. */
static _Noreturn void wait_for_job(struct job_conf *c, pid_t job_queue, int sock, int taken)
{
        int fds[JOB_FDS] = {-1, -1};
        size_t nfds = 0;
        char word;

        (void)prctl(PR_SET_NAME, "sg-job-spare");
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        touch_pages();
        if (getppid() != job_queue || scm_recv(sock, &word, 1, fds, JOB_FDS, &nfds) != 1)
                _exit(0);
        (void)prctl(PR_SET_PDEATHSIG, 0);
        (void)!write(taken, &word, 1);
        (void)close(taken);
        (void)close(sock);
        if (nfds < 2)
                _exit(1);
        c->engine_sock = fds[1];
        job_process_run(c, fds[0]);
}

/* Returns when the spare job process has a job: 1; or when the engine is gone: 0. */
static ssize_t keep_spare(struct job_conf *c, int sock)
{
        pid_t job_queue = getpid(), pid = -1;
        int taken[2];
        ssize_t n;
        char word;

        if (pipe2(taken, O_CLOEXEC) < 0)
                return refuse_job(sock);
        pid = fork();
        if (pid == 0)
                wait_for_job(c, job_queue, sock, taken[1]);
        n = pid < 0 ? refuse_job(sock) : 0;
        (void)close(taken[1]);
        if (pid > 0)
                n = read(taken[0], &word, 1);
        (void)close(taken[0]);
        return n;
}

_Noreturn void job_process_serve(struct job_conf *c, int sock)
{
        static const uint8_t zeros[1u << 16];
        struct err err;

        mount_stage_clear(STAGE_DEVICES); /* of a job queue that died */
        if (devices_open(&c->devices, c->envd_binary, STAGE_DEVICES, &err) < 0)
                c->devices.files = -1;          /* then each job process makes them */
        (void)crc32c(0, zeros, sizeof(zeros));  /* makes its tables: once, not in each job process */
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* of what job processes leave: restored sandboxes */
        while (keep_spare(c, sock) == 1)
                continue;
        _exit(0);
}

unsigned job_conf_fds(const struct job_conf *c, int *out)
{
        const int dirs[] = {c->data_dir,    c->sandboxes_dir,    c->checkpoints_dir, c->sealed_dir,
                            c->trash_dir,   c->layers_dir,       c->envd_dir,        c->proc_dir,
                            c->envd_binary, c->used_checkpoints, c->host_dir};
        unsigned n = cgroups_fds(c->cgroups, out);

        for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
                if (dirs[i] >= 0)
                        out[n++] = dirs[i];
        return n;
}
