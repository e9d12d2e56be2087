/* libsandglass: commands whose start nobody hears of, whose stream is cut again and again, whose input is not the caller's. */
#include <fcntl.h>

#include "stream_rig.h"

/* ---- the start ---- */

#define GONE "{\"code\":\"not_found\",\"message\":\"process with tag x not found\"}"

/* The tag that a request names; lives to the next call. */
static const char *tag_in(const char *request)
{
        static char tag[64];
        const char *at = strstr(request, "\"tag\":\"");

        tag[0] = 0;
        if (at)
                (void)snprintf(tag, sizeof(tag), "%.*s", (int)strcspn(at + 7, "\""), at + 7);
        return tag;
}

/* A call that is cancelled when the server has the request, and says nothing. */
static struct sg_cancel *cancel;

static void cancel_when_held(void *arg)
{
        (void)arg;
        if (atomic_load(&server.held))
                sg_cancel_now(cancel);
}

static struct sg_call until_held(void)
{
        if (!cancel && sg_cancel_create(&cancel, NULL) < 0)
                abort();
        sg_cancel_reset(cancel);
        return (struct sg_call){.cancel = cancel, .on_tick = cancel_when_held, .tick_ms = 10};
}

static void a_command_that_never_said_that_it_started_is_killed(void)
{
        struct sg_call call = until_held();
        struct sg_command *command;
        struct sg_error err = {0};
        char tag[64];

        SAY({.holds = true}, with_status("404 Not Found", "", GONE), ok_json("{}"));
        CHECK_INT(sg_run(box, "sleep 100", NULL, &call, NULL, &err), ==, -ECANCELED);
        CHECK_INT(atomic_load(&server.requests), ==, 3); /* it had not started at the first one */
        (void)snprintf(tag, sizeof(tag), "%s", tag_in(seen_requests[0]));
        CHECK(strncmp(tag, "sandglass-run-", 14) == 0);
        CHECK(strstr(seen_requests[2], "POST /process.Process/SendSignal "));
        CHECK(strstr(seen_requests[2], "SIGNAL_SIGKILL"));
        CHECK_STR(tag_in(seen_requests[2]), tag);
        SAY({.bytes = STREAM_HEAD, .holds = true}, ok_json("{}"));
        call = until_held();
        CHECK_INT(sg_command_start(box, "sleep 100", NULL, &call, &command, &err), ==, -ECANCELED);
        CHECK_INT(atomic_load(&server.requests), ==, 2);
        CHECK(strcmp(tag_in(seen_requests[0]), tag) != 0);
}

static void a_command_with_a_tag_of_the_caller_is_not_killed_by_it(void)
{
        const struct sg_command_options options = {.tag = "shared"};
        const struct sg_call call = until_held();
        struct sg_error err = {0};

        SAY({.holds = true});
        CHECK_INT(sg_run(box, "sleep 100", &options, &call, NULL, &err), ==, -ECANCELED);
        CHECK_INT(atomic_load(&server.requests), ==, 1);
        CHECK_STR(tag_in(seen_requests[0]), "shared");
}

static void what_was_refused_is_not_killed(void)
{
        struct sg_error err = {0};

        SAY(STREAM("2{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"m\"}}"));
        CHECK_INT(sg_run(box, "x", NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(atomic_load(&server.requests), ==, 1);
}

static void tags_of_ours_are_not_told(void)
{
        FREE_BLOCK struct sg_process_list *list = NULL;
        struct sg_error err = {0};

        SAY(ok_json("{\"processes\":[{\"pid\":1,\"tag\":\"sandglass-run-abc\"},{\"pid\":2,\"tag\":\"mine\"}]}"));
        CHECK_INT(sg_process_list(box, NULL, &list, &err), ==, 0);
        CHECK_STR(list->items[0].tag, "");
        CHECK_STR(list->items[1].tag, "mine");
}

/* ---- a stream that is cut ---- */

static void cut_soon(const char *request, size_t n, unsigned number, struct fake_answer *ret)
{
        (void)request, (void)n;
        *ret = number % 2 ? ok_json(BOX_JSON) : STREAM("0{\"event\":{\"start\":{\"pid\":7,\"offset\":0}}}");
}

static void a_stream_that_is_cut_again_and_again_is_not_asked_for_without_pause(void)
{
        const struct sg_call call = {.timeout_ms = 600};
        struct sg_error err = {0};
        int r;

        SAY({0});
        server.on_request = cut_soon;
        r = sg_run(box, "x", NULL, &call, NULL, &err);
        server.on_request = rig_on_request;
        CHECK_INT(r, ==, -ETIMEDOUT);
        CHECK_INT(atomic_load(&server.requests), <, 20);
}

/* ---- input ---- */

static void input_of_a_descriptor_is_not_mixed_with_what_is_sent(void)
{
        struct fake_answer running = {.bytes = STREAM(START).bytes, .n = STREAM(START).n, .holds = true};
        int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        const struct sg_command_options wrong[] = {{.reads_fd = true, .input_fd = fd},
                                                   {.input = "abc", .input_len = 3}};
        struct sg_command *command;
        struct sg_error err = {0};

        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                SAY(running, {.holds = true});
                CHECK_INT(sg_command_attach(box, 7, SG_FROM_NOW, &wrong[i], NULL, &command, &err), ==, 0);
                do { /* until its own input is under way */
                        CHECK_INT(sg_command_poll(command, &err), ==, 0);
                } while (atomic_load(&server.held) < 2);
                CHECK_INT(sg_command_send(command, "x", 1, NULL, &err), <, 0);
                CHECK_INT(err.kind, ==, SG_INVALID);
                CHECK_INT(sg_command_close_input(command, NULL, &err), <, 0);
                CHECK_INT(err.kind, ==, SG_INVALID);
                sg_command_free(command);
        }
        (void)close(fd);
        SAY(running, ok_json("{}"));
        CHECK_INT(sg_command_attach(box, 7, SG_FROM_NOW, NULL, NULL, &command, &err), ==, 0);
        CHECK_INT(sg_command_send(command, "x", 1, NULL, &err), ==, 0);
        sg_command_free(command);
}

int main(void)
{
        rig_start();
        RUN(a_command_that_never_said_that_it_started_is_killed);
        RUN(a_command_with_a_tag_of_the_caller_is_not_killed_by_it);
        RUN(what_was_refused_is_not_killed);
        RUN(tags_of_ours_are_not_told);
        RUN(a_stream_that_is_cut_again_and_again_is_not_asked_for_without_pause);
        RUN(input_of_a_descriptor_is_not_mixed_with_what_is_sent);
        sg_cancel_free(cancel);
        return rig_end();
}
