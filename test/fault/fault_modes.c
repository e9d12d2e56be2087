/* The library's modes while memory runs out: every call fails in an orderly way, with an explanation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "sandglass-modes.h"

static char workspace[] = "/tmp/sandglass-fault-XXXXXX";

static int tell(const struct sg_message *m, void *arg)
{
        unsigned *told = arg;

        *told += m->is_json && strcmp(m->type, "a") == 0;
        return 0;
}

static int use(struct sg_runner *r, struct sg_error *err)
{
        unsigned told = 0;
        const struct sg_pair env[] = {{"TEST", "1"}, {NULL, NULL}};
        const struct sg_program program = {
                .argv = (const char *[]){"sh", "-c", "printf '{\"type\":'; echo '\"a\"}'; printf end", NULL},
                .env = env,
                .on_message = tell,
                .arg = &told};
        struct sg_program_end end;
        char *text;
        size_t len;
        int e = sg_runner_write(r, NULL, "a/b", "text", 4, NULL, err);

        if (e == 0)
                e = sg_runner_read(r, NULL, "a/b", 0, NULL, &text, &len, err);
        if (e < 0)
                return e;
        MUST(len == 4 && strcmp(text, "text") == 0);
        sg_free(text);
        e = sg_runner_run(r, &program, NULL, &end, err);
        if (e == 0)
                MUST(told == 1 && end.messages == 1 && end.texts == 1 && end.exit_code == 0);
        return e;
}

static int a_runner_on_this_machine(void)
{
        const struct sg_pair env[] = {{"MORE", "2"}, {NULL, NULL}};
        const struct sg_runner_options options = {.mode = SG_MODE_LOCAL, .workspace = workspace, .env = env};
        struct sg_runner *r;
        struct sg_error err = {0};
        int e = sg_runner_open(&options, NULL, &r, &err);

        if (e == 0) {
                e = use(r, &err);
                MUST(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL) == 0);
        }
        MUST(e >= 0 || (err.kind != SG_OK && err.message[0]));
        return e;
}

static int workers_without_a_server(void)
{
        const struct sg_runner_options options = {.mode = SG_MODE_HYBRID, .workspace = workspace};
        const struct sg_client_options nowhere = {
                .api_key = "e2b_0", .api_url = "http://127.0.0.1:1", .retries = SG_NO_RETRIES};
        struct sg_runner_options own = options;
        struct sg_runner *r;
        struct sg_error err = {0};
        int e = sg_client_open(&nowhere, &own.client, &err);

        if (e < 0)
                return e;
        e = sg_runner_open(&own, NULL, &r, &err);
        if (e == 0) {
                e = sg_runner_write(r, "one", "a", "", 0, NULL, &err);
                MUST(e < 0 && err.message[0]);
                MUST(sg_runner_sandbox(r, "one") == NULL);
                MUST(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL) == 0);
                e = err.kind == SG_UNAVAILABLE ? 0 : e; /* what must come without a failure of memory */
        }
        sg_client_free(own.client);
        return e;
}

int main(void)
{
        char command[sizeof(workspace) + 10];
        int failed;

        if (!mkdtemp(workspace))
                return 1;
        EACH(a_runner_on_this_machine);
        EACH(workers_without_a_server);
        failed = fault_done();
        (void)snprintf(command, sizeof(command), "rm -r %s", workspace);
        return system(command) || failed;
}
