#include "engine/jobs/job_answer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "model/err_json.h"
#include "model/json_field.h"
#include "sys/scm.h"

void job_answer_init(struct job_answer *a)
{
        *a = (struct job_answer){.pidfd = -1, .netns = -1};
}

void job_answer_done(struct job_answer *a)
{
        close_fd(&a->pidfd);
        close_fd(&a->netns);
        json_decref(a->report);
        a->report = NULL;
}

/* ------------------------------------------------------------- which numbers belong to which kind */

enum number { NUMBER_BYTES, NUMBER_LAYER_BYTES, NUMBER_FROZEN_US, NUMBER_DISK_BYTES, NUMBERS };
#define HAS(number) (1u << (number))

static const struct {
        const char *name;
        size_t at;
} numbers[NUMBERS] = {
        [NUMBER_BYTES] = {"bytes", offsetof(struct job_answer, bytes)},
        [NUMBER_LAYER_BYTES] = {"layer_bytes", offsetof(struct job_answer, layer_bytes)},
        [NUMBER_FROZEN_US] = {"frozen_us", offsetof(struct job_answer, frozen_us)},
        [NUMBER_DISK_BYTES] = {"disk_bytes", offsetof(struct job_answer, disk_bytes)},
};

static const unsigned numbers_of[JOB_KINDS] = {
        [JOB_PAUSE] = HAS(NUMBER_BYTES) | HAS(NUMBER_FROZEN_US),
        [JOB_COPY] = HAS(NUMBER_BYTES) | HAS(NUMBER_LAYER_BYTES) | HAS(NUMBER_FROZEN_US),
        [JOB_SEAL] = HAS(NUMBER_BYTES),
        [JOB_MEASURE] = HAS(NUMBER_DISK_BYTES),
};

static bool has_report(enum job_kind kind)
{
        return kind == JOB_NAMES || kind == JOB_USAGE || kind == JOB_LOST;
}

/* ------------------------------------------------------------- the message */

static json_t *encode_number(const struct job_answer *a, enum number number)
{
        uint64_t n;

        memcpy(&n, (const char *)a + numbers[number].at, sizeof(n));
        return json_integer((json_int_t)n);
}

json_t *job_answer_encode(enum job_kind kind, const struct job_answer *a)
{
        json_t *msg = json_object();

        if (a->err.kind != ERR_NONE)
                return json_with(msg, "error", err_encode(&a->err));
        msg = json_with(msg, "ok", json_true());
        for (int i = 0; i < NUMBERS; i++)
                if (numbers_of[kind] & HAS(i))
                        msg = json_with(msg, numbers[i].name, encode_number(a, (enum number)i));
        if (kind == JOB_RESTORE && a->envd_silent.kind != ERR_NONE)
                msg = json_with(msg, "envd_silent", err_encode(&a->envd_silent));
        if (kind == JOB_RESTORE && a->host_version[0])
                msg = json_with_text(msg, "host_version", a->host_version);
        return msg;
}

static int decode_numbers(enum job_kind kind, const json_t *msg, struct job_answer *a, struct err *err)
{
        for (int i = 0; i < NUMBERS; i++) {
                const json_t *v = json_object_get(msg, numbers[i].name);
                uint64_t n = (uint64_t)json_integer_value(v);

                if (!(numbers_of[kind] & HAS(i)))
                        continue;
                if (!json_is_integer(v) || json_integer_value(v) < 0)
                        return err_set(err, ERR_INVALID, "answer: %s: not a number in its range", numbers[i].name);
                memcpy((char *)a + numbers[i].at, &n, sizeof(n));
        }
        return 0;
}

int job_answer_decode(enum job_kind kind, const json_t *msg, struct job_answer *ret, struct err *err)
{
        const json_t *error = json_object_get(msg, "error"), *silent = json_object_get(msg, "envd_silent");
        const json_t *version = json_object_get(msg, "host_version");
        struct job_answer a;
        int r = 0;

        job_answer_init(&a);
        if (error && !json_is_object(error))
                return err_set(err, ERR_INVALID, "answer: error: not an object");
        if (!error && !json_is_true(json_object_get(msg, "ok")))
                return err_set(err, ERR_INVALID, "answer: ok: not true");
        if (silent && !json_is_object(silent))
                return err_set(err, ERR_INVALID, "answer: envd_silent: not an object");
        if (version && (!json_is_string(version) || !host_layer_version_is_valid((struct str){
                                                            json_string_value(version), json_string_length(version)})))
                return err_set(err, ERR_INVALID, "answer: host_version: not a version of the host's files");
        if (error)
                (void)err_decode(error, "no reason was given", &a.err);
        else
                r = decode_numbers(kind, msg, &a, err);
        if (!error && kind == JOB_RESTORE && silent)
                (void)err_decode(silent, "its envd does not answer", &a.envd_silent);
        if (!error && kind == JOB_RESTORE && version)
                memcpy(a.host_version, json_string_value(version), json_string_length(version) + 1);
        if (r == 0)
                *ret = a;
        return r;
}

/* ------------------------------------------------------------- with fds */

static int write_report(const json_t *report)
{
        AUTO_CLOSE int fd = memfd_create("report", MFD_CLOEXEC);
        AUTO_FREE char *text = json_dumps(report, JSON_COMPACT);
        size_t n = text ? strlen(text) : 0;

        if (fd < 0 || !text)
                return fd < 0 ? -errno : -ENOMEM;
        return write(fd, text, n) == (ssize_t)n ? TAKE_FD(fd) : -ENOMEM;
}

static json_t *read_report(int fd)
{
        return lseek(fd, 0, SEEK_SET) < 0 ? NULL : json_loadfd(fd, 0, NULL);
}

int job_answer_send(int sock, enum job_kind kind, const struct job_answer *a)
{
        json_t *msg = job_answer_encode(kind, a);
        AUTO_FREE char *text = msg ? json_dumps(msg, JSON_COMPACT) : NULL;
        AUTO_CLOSE int report = -1;
        int fds[JOB_ANSWER_FDS_MAX];
        size_t nfds = 0;

        json_decref(msg);
        if (!text)
                return -ENOMEM;
        if (a->err.kind == ERR_NONE && a->report) {
                report = write_report(a->report);
                if (report < 0)
                        return report;
                fds[nfds++] = report;
        }
        if (a->err.kind == ERR_NONE && kind == JOB_RESTORE) {
                fds[nfds++] = a->pidfd;
                fds[nfds++] = a->netns;
        }
        return scm_send(sock, text, strlen(text), fds, nfds) < 0 ? -EPIPE : 0;
}

int job_answer_read(enum job_kind kind, const char *text, size_t len, int *fds, size_t nfds, struct job_answer *ret,
                    struct err *err)
{
        json_t *msg = json_loadb(text, len, 0, NULL);
        int r = job_answer_decode(kind, msg, ret, err);

        json_decref(msg);
        if (r == 0 && kind == JOB_RESTORE && nfds == 2) {
                ret->pidfd = TAKE_FD(fds[0]);
                ret->netns = TAKE_FD(fds[1]);
        } else if (r == 0 && has_report(kind) && nfds == 1)
                ret->report = read_report(fds[0]);
        while (nfds > 0)
                close_fd(&fds[--nfds]);
        return r;
}
