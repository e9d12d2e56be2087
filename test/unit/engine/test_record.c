#include "engine/records/record.h"

#include <fcntl.h>
#include <tap.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/fs.h"

#define ID "i0123456789abcdefghij"
#define COMMON                                                                                                         \
        "\"start_time\":99,\"boot_id\":\"b\",\"started_ns\":5,\"net\":{\"internet\":true,\"allow\":[],\"deny\":[]},"   \
        "\"stranger\":false,\"envd\":\"\",\"limits\":{\"memory_bytes\":0,\"cpu_count\":0,\"pids\":0}"
#define FACTS(slot, uid_base)                                                                                          \
        ",\"kind\":\"namespace\",\"namespace\":{\"slot\":" slot ",\"uid_base\":" uid_base ",\"restored\":false}"
#define GOOD "\"pid\":4242," COMMON FACTS("20", "1073741824")

static int scratch;

static void reads_what_it_wrote(void)
{
        struct plan_cidr deny = {0x0a000000u, 8};
        struct record r = {.id = ID,
                           .facts = {.namespace = {.slot = 4095, .uid_base = 0x6fff0000u, .is_restored = true}},
                           .pid = 123,
                           .start_time = 1ull << 40,
                           .boot_id = "0b0b-1",
                           .started_ns = 1700000000000000000ll,
                           .net = {.deny = &deny, .deny_count = 1}},
                      back;
        struct err err = {0};

        CHECK_INT(record_write(scratch, &r, &err), ==, 0);
        CHECK_INT(record_read(scratch, &back, &err), ==, 0);
        CHECK_STR(back.id, ID);
        CHECK_INT(back.facts.namespace.slot, ==, 4095);
        CHECK_INT(back.facts.namespace.uid_base, ==, 0x6fff0000u);
        CHECK_INT(back.pid, ==, 123);
        CHECK(back.start_time == 1ull << 40);
        CHECK_STR(back.boot_id, "0b0b-1");
        CHECK(back.started_ns == 1700000000000000000ll);
        CHECK(!back.net.internet);
        CHECK_INT(back.net.deny_count, ==, 1);
        CHECK_INT(back.net.deny[0].addr, ==, 0x0a000000u);
        record_done(&back);
}

static enum err_kind refusal(const char *text)
{
        struct err err = {0};
        struct record r;

        if (sys_replace_at(scratch, "running.json", text, strlen(text), 0600) < 0)
                return ERR_INTERNAL;
        if (record_read(scratch, &r, &err) == 0) {
                record_done(&r);
                return ERR_NONE;
        }
        return err.kind;
}

static void refuses_what_it_would_not_write(void)
{
        CHECK_INT(refusal("{\"id\":\"" ID "\"," GOOD "}"), ==, ERR_NONE);
        CHECK_INT(refusal(""), ==, ERR_NOT_FOUND); /* the power was cut before it was on disk */
        CHECK_INT(refusal("[]"), ==, ERR_INVALID);
        CHECK_INT(refusal("{\"id\":\"" ID "\"}"), ==, ERR_INVALID);
        CHECK_INT(refusal("{\"id\":\"../../etc/passwd-----\"," GOOD "}"), ==, ERR_INVALID);
        CHECK_INT(refusal("{\"id\":\"" ID "\",\"extra\":1," GOOD "}"), ==, ERR_INVALID);
        CHECK_INT(refusal("{\"id\":\"" ID "\",\"pid\":1," COMMON FACTS("20", "1073741824") "}"), ==,
                  ERR_INVALID); /* not a process of ours */
        CHECK_INT(refusal("{\"id\":\"" ID "\",\"pid\":9," COMMON FACTS("15", "1073741824") "}"), ==,
                  ERR_INVALID); /* not a slot */
        CHECK_INT(refusal("{\"id\":\"" ID "\",\"pid\":9," COMMON FACTS("20", "0") "}"), ==,
                  ERR_INVALID); /* the host's root */
        CHECK_INT(refusal("{\"id\":\"" ID "\",\"pid\":9," COMMON FACTS("0", "0") "}"), ==,
                  ERR_INVALID); /* a process in no slot */
        CHECK_INT(refusal("{\"id\":\"" ID "\",\"pid\":9," COMMON ",\"kind\":\"other\",\"other\":{}}"), ==,
                  ERR_INVALID); /* a kind of engine that there is not */
        CHECK_INT(refusal("{\"id\":\"" ID "\",\"pid\":9," COMMON ",\"kind\":\"namespace\",\"x\":{}}"), ==,
                  ERR_INVALID); /* a kind without its facts */
}

static void says_when_there_is_none(void)
{
        struct err err = {0};
        struct record r;

        CHECK_INT(unlinkat(scratch, "running.json", 0), ==, 0);
        CHECK(record_read(scratch, &r, &err) < 0);
        CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
}

int main(void)
{
        char path[] = "/tmp/sandglass-test-XXXXXX";

        if (!mkdtemp(path))
                return 1;
        scratch = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        RUN(reads_what_it_wrote);
        RUN(refuses_what_it_would_not_write);
        RUN(says_when_there_is_none);
        (void)rmdir(path);
        return tap_done();
}
