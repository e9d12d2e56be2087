/* CRIU's messages, log lines and small image files. */
#include <errno.h>

#include "base/err.h"
#include "engine/criu/criu.h"
#include "engine/criu/criu_log.h"
#include "engine/criu/criu_rpc.h"
#include "tap.h"
#include "wire/protobuf.h"

static struct str view(const struct buf *b)
{
        return (struct str){(const char *)buf_at(b), b->len};
}

static void reads_a_notification(void)
{
        AUTO_BUF struct buf notify = BUF_INIT(64), message = BUF_INIT(128);
        struct criu_rpc_answer a;

        CHECK_INT(protobuf_add_bytes(&notify, 1, STR("setup-namespaces")), ==, 0);
        CHECK_INT(protobuf_add_number(&notify, 2, 4711), ==, 0);
        CHECK_INT(protobuf_add_number(&message, 1, CRIU_RPC_NOTIFY), ==, 0);
        CHECK_INT(protobuf_add_number(&message, 2, 1), ==, 0);
        CHECK_INT(protobuf_add_bytes(&message, 5, view(&notify)), ==, 0);
        CHECK_INT(criu_rpc_decode(view(&message), &a), ==, 0);
        CHECK(a.type == CRIU_RPC_NOTIFY && a.is_success && a.pid == 4711);
        CHECK(str_is(a.script, "setup-namespaces"));
}

static void reads_a_failure(void)
{
        AUTO_BUF struct buf restored = BUF_INIT(64), message = BUF_INIT(256);
        struct criu_rpc_answer a;

        CHECK_INT(protobuf_add_number(&restored, 1, CRIU_FD_NONE), ==, 0);
        CHECK_INT(protobuf_add_number(&message, 1, CRIU_RPC_RESTORE), ==, 0);
        CHECK_INT(protobuf_add_number(&message, 2, 0), ==, 0);
        CHECK_INT(protobuf_add_bytes(&message, 4, view(&restored)), ==, 0);
        CHECK_INT(protobuf_add_number(&message, 7, 28), ==, 0);
        CHECK_INT(protobuf_add_bytes(&message, 9, STR("Error (criu/x.c:1): no\n")), ==, 0);
        CHECK_INT(criu_rpc_decode(view(&message), &a), ==, 0);
        CHECK(a.type == CRIU_RPC_RESTORE && !a.is_success && a.pid == 0 && a.error_errno == 28);
        CHECK(str_is(a.error, "Error (criu/x.c:1): no\n"));
}

static void refuses_answers_that_are_none(void)
{
        AUTO_BUF struct buf restored = BUF_INIT(64), message = BUF_INIT(128), other = BUF_INIT(64);
        struct criu_rpc_answer a = {.pid = 5};

        CHECK_INT(protobuf_add_number(&restored, 1, 1ull << 31), ==, 0); /* no pid is that large */
        CHECK_INT(protobuf_add_bytes(&message, 4, view(&restored)), ==, 0);
        CHECK_INT(criu_rpc_decode(view(&message), &a), ==, -EBADMSG);
        CHECK_INT(protobuf_add_bytes(&other, 1, STR("text where a number belongs")), ==, 0);
        CHECK(criu_rpc_decode(view(&other), &a) == 0); /* a type of 0: no answer to anything */
        CHECK_INT(a.type, ==, 0);
        CHECK_INT(criu_rpc_decode(STR("\xff\xff"), &a), ==, -EBADMSG);
}

static void cleans_what_criu_says(void)
{
        static const struct {
                const char *line, *is;
        } cases[] = {
                {"Error (criu/files-ext.c:98): Can't dump file 5\n", "Can't dump file 5"},
                {"(00.123456) Error (criu/cr-dump.c:1): one\nError (x): two\n", "one"},
                {"(00.1)   1234: Error (criu/x.c:3): in a task", "in a task"},
                {"no decoration", "no decoration"},
                {"Error (criu/x.c:3): \x1b[31mred\x07", "?[31mred?"},
                {"", ""},
        };
        char out[CRIU_REASON_MAX];

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                criu_log_clean(str_of(cases[i].line), out);
                CHECK_STR(out, cases[i].is);
        }
}

static void finds_whose_turn_it_was(void)
{
        static const char log[] = "(00.1) Dumping processes (pid: 10 comm: init)\n"
                                  "(00.2) Dumping task (pid: 11 comm: a)\n"
                                  "(00.3) Dumping task (pid: 12 comm: Error (x): Dumping task (pid: 99)\n"
                                  "(00.4) Error (criu/files.c:1): cannot\n"
                                  "(00.5) Dumping task (pid: 13 comm: b)\n";
        char out[CRIU_REASON_MAX];

        CHECK_INT(criu_log_culprit(str_of(log)), ==, 12);
        CHECK(criu_log_error(str_of(log), out));
        CHECK_STR(out, "cannot");
        CHECK_INT(criu_log_culprit(STR("Error (x): before anybody's turn\n")), ==, 0);
        CHECK_INT(criu_log_culprit(STR("Dumping task (pid: 7 comm: x)\n")), ==, 0); /* nothing went wrong */
        CHECK_INT(criu_log_culprit(STR("Dumping task (pid: 99999999999 comm: x)\nError (x): y\n")), ==, 0);
        CHECK(!criu_log_error(STR("all is well\n"), out));
}

static void knows_the_pid_inside(void)
{
        CHECK_INT(criu_log_inner_pid(STR("Name:\tx\nNSpid:\t4711\t12\t3\nNSpgid:\t1\n")), ==, 3);
        CHECK_INT(criu_log_inner_pid(STR("NSpid:\t4711\n")), ==, 4711);
        CHECK_INT(criu_log_inner_pid(STR("NSpid:\t\n")), ==, 0);
        CHECK_INT(criu_log_inner_pid(STR("Name:\tNSpid:\t9\n")), ==, 0);
}

static const uint8_t userns[] = {0x54, 0x43, 0x56, 0x54, 0x06, 0x10, 0x47, 0x55, 28,   0,    0,    0,    0x0a, 12,
                                 0x08, 0,    0x10, 0x80, 0x80, 0x84, 0x80, 0x07, 0x18, 0x80, 0x80, 0x04, 0x12, 12,
                                 0x08, 0,    0x10, 0x80, 0x80, 0x84, 0x80, 0x07, 0x18, 0x80, 0x80, 0x04};
static const struct str userns_file = {(const char *)userns, sizeof(userns)};

static void moves_a_user_namespace(void)
{
        AUTO_BUF struct buf out = BUF_INIT(CRIU_USERNS_BYTES_MAX);
        uint32_t base = 0;

        CHECK_INT(criu_rpc_userns_base(userns_file, &base), ==, 0);
        CHECK_INT(base, ==, 1879113728u);
        CHECK_INT(criu_rpc_userns_rebase(userns_file, 300000, &out), ==, 0);
        CHECK(memcmp(buf_at(&out), userns, 8) == 0);
        CHECK_INT(criu_rpc_userns_base(view(&out), &base), ==, 0);
        CHECK_INT(base, ==, 300000);
}

static void refuses_other_user_namespaces(void)
{
        uint32_t base = 5;

        for (size_t n = 0; n < sizeof(userns); n++) /* cut short anywhere */
                CHECK_INT(criu_rpc_userns_base((struct str){(const char *)userns, n}, &base), ==, -EBADMSG);
        for (size_t at = 8; at < sizeof(userns); at++) {
                uint8_t other[sizeof(userns)];

                memcpy(other, userns, sizeof(other));
                other[at] ^= 1;
                base = 5;
                if (criu_rpc_userns_base((struct str){(const char *)other, sizeof(other)}, &base) == 0)
                        printf("# byte %zu\n", at);
                CHECK_INT(base, ==, 5); /* a base that differs from that of the groups is noticed as well */
        }
}

static void reads_the_statistics(void)
{
        AUTO_BUF struct buf dump = BUF_INIT(128), body = BUF_INIT(256), file = BUF_INIT(512);
        struct criu_stats s = {0};

        for (uint32_t i = 1; i <= 9; i++)
                CHECK_INT(protobuf_add_number(&dump, i, i * 100), ==, 0);
        CHECK_INT(protobuf_add_bytes(&body, 1, view(&dump)), ==, 0);
        CHECK_INT(buf_add(&file, "magic123", 8), ==, 0);
        for (unsigned i = 0; i < 4; i++)
                CHECK_INT(buf_add(&file, &(uint8_t){(uint8_t)(body.len >> (8 * i))}, 1), ==, 0);
        CHECK_INT(buf_add(&file, buf_at(&body), body.len), ==, 0);
        CHECK_INT(criu_rpc_stats(view(&file), &s), ==, 0);
        CHECK(s.frozen_us == 200 && s.pages_written == 700);
        CHECK_INT(criu_rpc_stats((struct str){(const char *)buf_at(&file), file.len - 1}, &s), ==, -EBADMSG);
}

static void tells_a_full_disk(void)
{
        CHECK(criu_log_is_disk_full(STR("Error (x): Can't write: No space left on device\n")));
        CHECK(!criu_log_is_disk_full(STR("Error (x): Operation not permitted\n")));
}

static void says_what_is_missing(void)
{
        const struct criu_tool t = {.dir = "/nonexistent", .shim = "/nonexistent.so", .run_dir = "/nonexistent"};
        const struct criu_dump d = {.pid = getpid(), .images = "/run/somewhere"};
        struct criu_stats s;
        struct err err = {0};

        CHECK_INT(criu_dump(&t, &d, &s, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        CHECK(strstr(err.msg, "/run/somewhere") != NULL);
}

int main(void)
{
        RUN(reads_a_notification);
        RUN(reads_a_failure);
        RUN(refuses_answers_that_are_none);
        RUN(cleans_what_criu_says);
        RUN(finds_whose_turn_it_was);
        RUN(knows_the_pid_inside);
        RUN(moves_a_user_namespace);
        RUN(refuses_other_user_namespaces);
        RUN(reads_the_statistics);
        RUN(tells_a_full_disk);
        RUN(says_what_is_missing);
        return tap_done();
}
