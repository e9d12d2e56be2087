#include "engine/jobs/job.h"

#include <errno.h>
#include <sys/socket.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/jobs/job_answer.h"
#include "model/plan.h"
#include "sys/scm.h"

#define ID "i0123456789abcdefghij"
#define STANDBY "s0123456789abcdefghij"
#define CHECKPOINT "c0123456789abcdefghij"
#define LAYER "u-0123456789abcdefghij"
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct job_namespace process = {
        .slot = 17, .uid_base = 1000000, .pid = 4711, .address = 0xc6120011u, .envd = HASH};

/* ------------------------------------------------------------- one complete job of each kind */

static json_t *origin(void)
{
        static json_t *o;

        if (!o)
                o = json_pack("{s:s}", "template", "base");
        return o;
}

static json_t *ids(const char *id)
{
        static json_t *lists[2];
        int at = id[0] == 'c';

        if (!lists[at])
                lists[at] = json_pack("[s]", id);
        return lists[at];
}

static struct plan_create *plan(void)
{
        static struct plan_create p;
        static char layer[] = "base", token[] = "secret";

        if (!p.init) {
                p = (struct plan_create){.layer_count = 1,
                                         .limits = {.memory_bytes = 1u << 30, .cpu_count = 2, .pids = 100},
                                         .init = json_object(),
                                         .token_before = token};
                p.layers[0] = layer;
                memcpy(p.id, ID, sizeof(ID));
                memcpy(p.checkpoint, CHECKPOINT, sizeof(CHECKPOINT));
        }
        return &p;
}

static struct job complete(enum job_kind kind)
{
        struct job j = {.kind = kind};

        if (job_has_sandbox(kind))
                j.id = ID;
        if (job_locks_sandbox(kind)) {
                j.note = (struct job_note){.facts = {.namespace = {.slot = 17, .uid_base = 1000000}},
                                           .checkpoint = CHECKPOINT,
                                           .layer = LAYER,
                                           .boot_id = "boot"};
                j.note.net.internet = true;
        }
        switch (kind) {
        case JOB_PAUSE:
                j.pause = (struct job_pause){
                        .checkpoint = CHECKPOINT, .is_durable = true, .origin = origin(), .namespace = process};
                break;
        case JOB_COPY:
                j.copy = (struct job_copy){
                        .checkpoint = CHECKPOINT, .layer = LAYER, .origin = origin(), .namespace = process};
                break;
        case JOB_RESTORE:
                j.makes_directory = true;
                j.restore = (struct job_restore){.plan = plan(), .turn = 12, .is_recent = true, .namespace = process};
                j.restore.namespace.pid = 0;
                break;
        case JOB_HAND_OVER:
                j.id = STANDBY;
                j.hand_over = (struct job_hand_over){.plan = plan(), .host_version = "given-1", .namespace = process};
                break;
        case JOB_SEAL: j.seal = (struct job_seal){.layer = LAYER, .below = "tree", .origin = origin()}; break;
        case JOB_FLUSH: j.flush = (struct job_flush){.checkpoint = CHECKPOINT, .layer = LAYER}; break;
        case JOB_LOST: j.lost = (struct job_lost){.name = LAYER, .after = ID}; break;
        case JOB_LOST_RESTORE:
                j.lost_restore =
                        (struct job_lost_restore){.sandbox = ID, .checkpoints = ids(CHECKPOINT), .layers = ids(LAYER)};
                break;
        case JOB_MAKE_DURABLE:
        case JOB_MEASURE:
        case JOB_NAMES:
        case JOB_USAGE:
        case JOB_RECHECK:
        case JOB_KINDS: break;
        }
        return j;
}

static json_t *encoded(enum job_kind kind)
{
        struct job j = complete(kind);

        return job_encode(&j);
}

/* ------------------------------------------------------------- there and back */

static void every_kind_arrives_as_it_left(void)
{
        for (int kind = 0; kind < JOB_KINDS; kind++) {
                json_t *sent = encoded((enum job_kind)kind), *again;
                struct err err = {0};
                struct job back;

                CHECK(sent);
                CHECK_INT(job_decode(json_incref(sent), &back, &err), ==, 0);
                CHECK_INT(back.kind, ==, kind);
                again = job_encode(&back);
                CHECK(json_equal(sent, again));
                json_decref(again);
                json_decref(sent);
                job_done(&back);
        }
}

static void check_namespace(const struct job_namespace *n, pid_t pid)
{
        CHECK_INT(n->slot, ==, process.slot);
        CHECK_INT(n->uid_base, ==, process.uid_base);
        CHECK_INT(n->pid, ==, pid);
        CHECK_INT(n->address, ==, process.address);
        CHECK_STR(n->envd, HASH);
}

static void a_pause_has_all_of_its_fields(void)
{
        struct err err = {0};
        struct job j;

        CHECK_INT(job_decode(encoded(JOB_PAUSE), &j, &err), ==, 0);
        CHECK_STR(j.id, ID);
        CHECK_INT(j.note.facts.namespace.slot, ==, 17);
        CHECK_STR(j.note.checkpoint, CHECKPOINT);
        CHECK(j.note.net.internet);
        CHECK(!j.makes_directory);
        CHECK_STR(j.pause.checkpoint, CHECKPOINT);
        CHECK(j.pause.is_durable);
        CHECK(json_equal(j.pause.origin, origin()));
        check_namespace(&j.pause.namespace, process.pid);
        job_done(&j);
}

static void a_copy_and_a_restore_have_all_of_their_fields(void)
{
        struct err err = {0};
        struct job j;

        CHECK_INT(job_decode(encoded(JOB_COPY), &j, &err), ==, 0);
        CHECK_STR(j.copy.checkpoint, CHECKPOINT);
        CHECK_STR(j.copy.layer, LAYER);
        CHECK(json_equal(j.copy.origin, origin()));
        check_namespace(&j.copy.namespace, process.pid);
        job_done(&j);
        CHECK_INT(job_decode(encoded(JOB_RESTORE), &j, &err), ==, 0);
        CHECK(j.makes_directory);
        CHECK_STR(j.restore.plan->id, ID);
        CHECK_STR(j.restore.plan->token_before, "secret");
        CHECK_INT(j.restore.turn, ==, 12);
        CHECK(j.restore.is_recent);
        CHECK(!j.restore.is_standby);
        check_namespace(&j.restore.namespace, 0);
        job_done(&j);
        CHECK_INT(job_decode(encoded(JOB_HAND_OVER), &j, &err), ==, 0);
        CHECK_STR(j.id, STANDBY);
        CHECK_STR(j.hand_over.plan->id, ID);
        CHECK_STR(j.hand_over.host_version, "given-1");
        check_namespace(&j.hand_over.namespace, process.pid);
        job_done(&j);
}

static void the_others_have_all_of_their_fields(void)
{
        struct err err = {0};
        struct job j;

        CHECK_INT(job_decode(encoded(JOB_SEAL), &j, &err), ==, 0);
        CHECK_STR(j.seal.layer, LAYER);
        CHECK(json_equal(j.seal.origin, origin()));
        job_done(&j);
        CHECK_INT(job_decode(encoded(JOB_FLUSH), &j, &err), ==, 0);
        CHECK_STR(j.flush.checkpoint, CHECKPOINT);
        CHECK_STR(j.flush.layer, LAYER);
        job_done(&j);
        CHECK_INT(job_decode(encoded(JOB_LOST), &j, &err), ==, 0);
        CHECK_STR(j.lost.name, LAYER);
        CHECK_STR(j.lost.after, ID);
        job_done(&j);
        CHECK_INT(job_decode(encoded(JOB_LOST_RESTORE), &j, &err), ==, 0);
        CHECK_STR(j.lost_restore.sandbox, ID);
        CHECK(json_equal(j.lost_restore.checkpoints, ids(CHECKPOINT)));
        CHECK(json_equal(j.lost_restore.layers, ids(LAYER)));
        job_done(&j);
}

/* ------------------------------------------------------------- refusals */

/* These may be left out, and are NULL then. */
static const struct {
        enum job_kind kind;
        const char *field;
} optional[] = {
        {JOB_PAUSE, "checkpoint"},
        {JOB_PAUSE, "origin"},
        {JOB_COPY, "origin"},
        {JOB_SEAL, "below"},
        {JOB_SEAL, "origin"},
        {JOB_FLUSH, "checkpoint"},
        {JOB_FLUSH, "layer"},
        {JOB_LOST, "name"},
        {JOB_LOST, "after"},
        {JOB_LOST_RESTORE, "sandbox"},
        {JOB_LOST_RESTORE, "checkpoints"},
        {JOB_LOST_RESTORE, "layers"},
};

static bool is_optional(enum job_kind kind, const char *field)
{
        for (size_t i = 0; i < ARRAY_LEN(optional); i++)
                if (optional[i].kind == kind && strcmp(optional[i].field, field) == 0)
                        return true;
        return false;
}

/* "": it was taken. */
static const char *refusal_of(json_t *job)
{
        static struct err err;
        struct job j;

        err = (struct err){0};
        if (job_decode(job, &j, &err) == 0)
                job_done(&j);
        else if (err.kind != ERR_INVALID)
                return "of another kind";
        return err.msg;
}

/* NULL: the job without the field; else with this in its place (used up).  within: the object it is in; NULL: the job. */
static const char *refusal_with(enum job_kind kind, const char *within, const char *field, json_t *value)
{
        json_t *shared = encoded(kind), *job = json_deep_copy(shared);
        json_t *obj = within ? json_object_get(job, within) : job;

        json_decref(shared);
        if (value)
                (void)json_object_set_new(obj, field, value);
        else
                (void)json_object_del(obj, field);
        return refusal_of(job);
}

static void check_named(enum job_kind kind, const char *field, const char *refusal)
{
        if (!strstr(refusal, field))
                printf("# %s without a proper '%s': \"%s\"\n", job_kind_name(kind), field, refusal);
        CHECK(strstr(refusal, field));
}

static void a_field_that_is_missing_is_named(void)
{
        for (int kind = 0; kind < JOB_KINDS; kind++) {
                json_t *job = encoded((enum job_kind)kind), *value;
                const char *field;

                json_object_foreach (job, field, value) {
                        const char *refusal = refusal_with((enum job_kind)kind, NULL, field, NULL);

                        if (is_optional((enum job_kind)kind, field))
                                CHECK_STR(refusal, "");
                        else
                                check_named((enum job_kind)kind, field, refusal);
                }
                json_decref(job);
        }
}

static void a_field_of_a_wrong_type_is_named(void)
{
        for (int kind = 0; kind < JOB_KINDS; kind++) {
                json_t *job = encoded((enum job_kind)kind), *value;
                const char *field;

                json_object_foreach (job, field, value) {
                        json_t *wrong[] = {json_real(1.5), json_null(), json_string("No"), json_integer(-1),
                                           json_pack("[i]", 1)};

                        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                                check_named((enum job_kind)kind, field,
                                            refusal_with((enum job_kind)kind, NULL, field, wrong[i]));
                }
                json_decref(job);
        }
}

static void what_a_namespace_has_is_checked_too(void)
{
        static const enum job_kind with[] = {JOB_PAUSE, JOB_COPY, JOB_RESTORE, JOB_HAND_OVER};
        static const char *const fields[] = {"slot", "uid_base", "pid", "address", "envd"};

        for (size_t k = 0; k < ARRAY_LEN(with); k++)
                for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
                        json_t *wrong[] = {NULL,
                                           json_true(),
                                           json_null(),
                                           json_string("x"),
                                           json_integer(-1),
                                           json_integer(INT64_MAX)};

                        for (size_t n = 0; n < ARRAY_LEN(wrong); n++)
                                check_named(with[k], fields[i],
                                            refusal_with(with[k], "namespace", fields[i], wrong[n]));
                }
}

static void ranges_are_checked(void)
{
        CHECK_STR(refusal_with(JOB_PAUSE, "namespace", "slot", json_integer(16)), "");
        check_named(JOB_PAUSE, "slot", refusal_with(JOB_PAUSE, "namespace", "slot", json_integer(15)));
        CHECK_STR(refusal_with(JOB_PAUSE, "namespace", "slot", json_integer(4095)), "");
        check_named(JOB_PAUSE, "slot", refusal_with(JOB_PAUSE, "namespace", "slot", json_integer(4096)));
        check_named(JOB_PAUSE, "pid", refusal_with(JOB_PAUSE, "namespace", "pid", json_integer(0)));
        check_named(JOB_RESTORE, "pid", refusal_with(JOB_RESTORE, "namespace", "pid", json_integer(1)));
        check_named(JOB_COPY, "uid_base", refusal_with(JOB_COPY, "namespace", "uid_base", json_integer(0)));
        CHECK_STR(refusal_with(JOB_COPY, "namespace", "envd", json_string("")), "");
        check_named(JOB_COPY, "envd", refusal_with(JOB_COPY, "namespace", "envd", json_string(HASH "0")));
}

/* A plan of a sandbox is none of a standby, and the other way round. */
static void names_of_standbys_and_of_sandboxes_are_told_apart(void)
{
        json_t *job;
        struct err err = {0};
        struct job j;

        check_named(JOB_HAND_OVER, "id", refusal_with(JOB_HAND_OVER, NULL, "id", json_string(ID)));
        check_named(JOB_RESTORE, "plan", refusal_with(JOB_RESTORE, NULL, "standby", json_true()));
        job = encoded(JOB_RESTORE);
        (void)json_object_set_new(job, "standby", json_true());
        (void)json_object_set_new(job, "id", json_string(STANDBY));
        (void)json_object_set_new(json_object_get(job, "plan"), "id", json_string(STANDBY));
        CHECK_INT(job_decode(json_incref(job), &j, &err), ==, 0);
        CHECK(j.restore.is_standby);
        job_done(&j);
        (void)json_object_set_new(job, "standby", json_false());
        CHECK_INT(job_decode(job, &j, &err), <, 0);
}

static void an_id_that_would_be_another_path_is_refused(void)
{
        check_named(JOB_MEASURE, "id", refusal_with(JOB_MEASURE, NULL, "id", json_string("../../etc")));
        check_named(JOB_FLUSH, "layer", refusal_with(JOB_FLUSH, NULL, "layer", json_string("base")));
        check_named(JOB_LOST, "name", refusal_with(JOB_LOST, NULL, "name", json_stringn(ID "\0x", sizeof(ID) + 1)));
        check_named(JOB_LOST_RESTORE, "layers",
                    refusal_with(JOB_LOST_RESTORE, NULL, "layers", json_pack("[s,s]", LAYER, CHECKPOINT)));
        check_named(JOB_PAUSE, "layer", refusal_with(JOB_PAUSE, "note", "layer", json_string("..")));
}

static void a_plan_of_another_sandbox_is_refused(void)
{
        check_named(JOB_RESTORE, "plan", refusal_with(JOB_RESTORE, NULL, "id", json_string("i0123456789abcdefghik")));
}

static void what_is_no_job_is_refused(void)
{
        CHECK_STR(refusal_of(NULL), "job: kind: not a kind of job");
        CHECK_STR(refusal_of(json_array()), "job: kind: not a kind of job");
        CHECK_STR(refusal_of(json_pack("{s:s}", "kind", "dance")), "job: kind: not a kind of job");
}

/* ------------------------------------------------------------- answers */

static struct job_answer answer_of(enum job_kind kind)
{
        struct job_answer a;

        job_answer_init(&a);
        if (kind == JOB_PAUSE || kind == JOB_COPY || kind == JOB_SEAL)
                a.bytes = UINT64_C(5) << 32;
        if (kind == JOB_PAUSE || kind == JOB_COPY)
                a.frozen_us = 1234;
        if (kind == JOB_COPY)
                a.layer_bytes = 77;
        if (kind == JOB_MEASURE)
                a.disk_bytes = 88;
        if (kind == JOB_RESTORE)
                (void)err_set(&a.envd_silent, ERR_TIMEOUT, "its envd said nothing");
        if (kind == JOB_RESTORE)
                (void)snprintf(a.host_version, sizeof(a.host_version), "given-1");
        return a;
}

static void every_answer_arrives_as_it_left(void)
{
        for (int kind = 0; kind < JOB_KINDS; kind++) {
                struct job_answer a = answer_of((enum job_kind)kind), back;
                json_t *msg = job_answer_encode((enum job_kind)kind, &a);
                struct err err = {0};

                CHECK_INT(job_answer_decode((enum job_kind)kind, msg, &back, &err), ==, 0);
                CHECK_INT(back.err.kind, ==, ERR_NONE);
                CHECK_INT(back.bytes, ==, a.bytes);
                CHECK_INT(back.layer_bytes, ==, a.layer_bytes);
                CHECK_INT(back.frozen_us, ==, a.frozen_us);
                CHECK_INT(back.disk_bytes, ==, a.disk_bytes);
                CHECK_INT(back.envd_silent.kind, ==, a.envd_silent.kind);
                CHECK_STR(back.envd_silent.msg, a.envd_silent.msg);
                CHECK_STR(back.host_version, a.host_version);
                CHECK_INT(back.pidfd, ==, -1);
                json_decref(msg);
        }
}

static void an_error_is_an_answer_to_every_kind(void)
{
        for (int kind = 0; kind < JOB_KINDS; kind++) {
                struct job_answer a = answer_of((enum job_kind)kind), back;
                struct err err = {0};
                json_t *msg;

                (void)err_set(&a.err, ERR_NO_SPACE, "the disk is full");
                msg = job_answer_encode((enum job_kind)kind, &a);
                CHECK_INT(job_answer_decode((enum job_kind)kind, msg, &back, &err), ==, 0);
                CHECK_INT(back.err.kind, ==, ERR_NO_SPACE);
                CHECK_STR(back.err.msg, "the disk is full");
                CHECK_INT(back.bytes, ==, 0);
                CHECK_INT(back.envd_silent.kind, ==, ERR_NONE);
                json_decref(msg);
        }
}

static void a_number_that_is_missing_or_wrong_is_named(void)
{
        for (int kind = 0; kind < JOB_KINDS; kind++) {
                struct job_answer a = answer_of((enum job_kind)kind), back;
                json_t *msg = job_answer_encode((enum job_kind)kind, &a), *value;
                const char *field;
                void *next;

                json_object_foreach_safe(msg, next, field, value)
                {
                        json_t *other = json_copy(msg);
                        struct err err = {0};

                        (void)json_object_set_new(other, field, json_string("x"));
                        CHECK(job_answer_decode((enum job_kind)kind, other, &back, &err) < 0);
                        CHECK_INT(err.kind, ==, ERR_INVALID);
                        check_named((enum job_kind)kind, field, err.msg);
                        (void)json_object_del(other, field);
                        CHECK(job_answer_decode((enum job_kind)kind, other, &back, &err) < 0 ||
                              strcmp(field, "envd_silent") == 0 || strcmp(field, "host_version") == 0);
                        json_decref(other);
                }
                json_decref(msg);
        }
}

/* Through a socket, as the engine gets it. */
static int pass(enum job_kind kind, const struct job_answer *a, struct job_answer *ret)
{
        char text[JOB_ANSWER_TEXT_MAX];
        int pair[2], fds[JOB_ANSWER_FDS_MAX] = {-1, -1}, r;
        struct err err = {0};
        size_t nfds = 0;
        ssize_t n;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        r = job_answer_send(pair[0], kind, a);
        n = r < 0 ? r : scm_recv(pair[1], text, sizeof(text), fds, JOB_ANSWER_FDS_MAX, &nfds);
        (void)close(pair[0]);
        (void)close(pair[1]);
        return n < 0 ? (int)n : job_answer_read(kind, text, (size_t)n, fds, nfds, ret, &err);
}

static void what_a_restore_hands_over_arrives(void)
{
        struct job_answer a = answer_of(JOB_RESTORE), back;
        int ends[2];
        char byte = 0;

        CHECK_INT(pipe(ends), ==, 0);
        a.pidfd = ends[0];
        a.netns = ends[1];
        CHECK_INT(pass(JOB_RESTORE, &a, &back), ==, 0);
        CHECK_INT(write(back.netns, "x", 1), ==, 1);
        CHECK_INT(read(a.pidfd, &byte, 1), ==, 1);
        CHECK_INT(byte, ==, 'x');
        job_answer_done(&a);
        job_answer_done(&back);
        CHECK_INT(back.pidfd, ==, -1);
}

static void a_report_of_any_length_arrives(void)
{
        struct job_answer a = answer_of(JOB_NAMES), back;
        json_t *list = json_array();

        for (int i = 0; i < 10000; i++)
                (void)json_array_append_new(list, json_string(CHECKPOINT));
        a.report = json_pack("{s:o,s:[]}", "checkpoints", list, "layers");
        CHECK_INT(pass(JOB_NAMES, &a, &back), ==, 0);
        CHECK(json_equal(a.report, back.report));
        job_answer_done(&a);
        job_answer_done(&back);
}

static void an_error_brings_nothing_else_along(void)
{
        struct job_answer a = answer_of(JOB_LOST), back;

        a.report = json_object();
        (void)err_set(&a.err, ERR_NOT_FOUND, "not there");
        CHECK_INT(pass(JOB_LOST, &a, &back), ==, 0);
        CHECK_INT(back.err.kind, ==, ERR_NOT_FOUND);
        CHECK(!back.report);
        job_answer_done(&a);
        job_answer_done(&back);
}

int main(void)
{
        RUN(every_kind_arrives_as_it_left);
        RUN(a_pause_has_all_of_its_fields);
        RUN(a_copy_and_a_restore_have_all_of_their_fields);
        RUN(the_others_have_all_of_their_fields);
        RUN(a_field_that_is_missing_is_named);
        RUN(a_field_of_a_wrong_type_is_named);
        RUN(what_a_namespace_has_is_checked_too);
        RUN(ranges_are_checked);
        RUN(names_of_standbys_and_of_sandboxes_are_told_apart);
        RUN(an_id_that_would_be_another_path_is_refused);
        RUN(a_plan_of_another_sandbox_is_refused);
        RUN(what_is_no_job_is_refused);
        RUN(every_answer_arrives_as_it_left);
        RUN(an_error_is_an_answer_to_every_kind);
        RUN(a_number_that_is_missing_or_wrong_is_named);
        RUN(what_a_restore_hands_over_arrives);
        RUN(a_report_of_any_length_arrives);
        RUN(an_error_brings_nothing_else_along);
        json_decref(origin());
        json_decref(ids(CHECKPOINT));
        json_decref(ids(LAYER));
        json_decref(plan()->init);
        return tap_done();
}
