/* `template build` and `template check`. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/remote_command.h"
#include "cli/signals.h"
#include "cli/template/source.h"
#include "cli/template/template.h"
#include "cli/template/upload.h"
#include "cli/template/view.h"

#define POLL_QUICK_MS 40
#define POLL_MS 200
#define QUICK_FOR_MS 2000u
#define PAGE 100

struct building {
        struct cli_api *api;
        const struct cli_options *o;
        const struct source *s;
        struct view view;
        int signals;
        json_t *made;           /* owned: the answer to the request of a build */
        const char *id, *build; /* borrowed from it */
        char *status_target;    /* owned */
        unsigned offset;        /* entries of the log that came */
        struct err *err;
};

static int problems_found(const struct source *s)
{
        (void)fprintf(stderr, "sandglass template: %u error%s\n", s->errors, s->errors == 1 ? "" : "s");
        return 1;
}

/* ---- the request ---- */

static int request_build(struct building *b)
{
        uint32_t cpus = b->o->cpu_count ? b->o->cpu_count : b->s->toml.cpu_count;
        uint32_t memory = b->o->memory_mb ? b->o->memory_mb : b->s->toml.memory_mb;
        json_t *body = json_pack("{s:s}", "name", b->s->name);
        int r;

        if (!body)
                return err_set(b->err, ERR_INVALID, "the name of the template is not valid text");
        if (b->o->tags)
                (void)json_object_set(body, "tags", b->o->tags);
        if (cpus)
                (void)json_object_set_new(body, "cpuCount", json_integer(cpus));
        if (memory)
                (void)json_object_set_new(body, "memoryMB", json_integer(memory));
        r = api_request(b->api, "POST", "/v3/templates", body, &b->made, b->err);
        json_decref(body);
        if (r < 0)
                return r;
        b->id = json_string_value(json_object_get(b->made, "templateID"));
        b->build = json_string_value(json_object_get(b->made, "buildID"));
        if (!b->id || !b->build)
                return err_set(b->err, ERR_INTERNAL, "the server's answer does not describe a build");
        return 0;
}

static int start_build(struct building *b)
{
        AUTO_FREE char *target = NULL;

        if (asprintf(&target, "/v2/templates/%s/builds/%s", b->id, b->build) < 0 ||
            asprintf(&b->status_target, "/templates/%s/builds/%s/status", b->id, b->build) < 0)
                return err_set(b->err, ERR_LIMIT, "out of memory");
        return api_request(b->api, "POST", target, b->s->build.request, NULL, b->err);
}

/* ---- the wait ---- */

/* One page of the log, and the status.  *ret_count: entries on the page. */
static int read_status(struct building *b, json_t **ret, size_t *ret_count)
{
        AUTO_FREE char *target = NULL;
        const json_t *entries;
        int r;

        if (asprintf(&target, "%s?logsOffset=%u&limit=%d", b->status_target, b->offset, PAGE) < 0)
                return err_set(b->err, ERR_LIMIT, "out of memory");
        r = api_request(b->api, "GET", target, NULL, ret, b->err);
        if (r < 0)
                return r;
        entries = json_object_get(*ret, "logEntries");
        *ret_count = json_array_size(entries);
        b->offset += (unsigned)*ret_count;
        view_entries(&b->view, entries);
        return 0;
}

/* Nothing to read now: wait a little, and show that time passes.  True: a signal came. */
static bool pause_between(struct building *b)
{
        bool is_quick = clock_mono_ms() - b->view.since_ms < QUICK_FOR_MS;
        struct pollfd wait = {.fd = b->signals, .events = POLLIN};

        view_tick(&b->view);
        return poll(&wait, 1, is_quick ? POLL_QUICK_MS : POLL_MS) > 0;
}

static int failed(struct building *b, const json_t *status)
{
        const json_t *reason = json_object_get(status, "reason");
        const char *step = json_string_value(json_object_get(reason, "step")),
                   *message = json_string_value(json_object_get(reason, "message"));
        json_int_t line = 0;
        uint32_t number;

        if (!message)
                message = "no reason is known";
        if (step && parse_u32(str_of(step), 1, UINT32_MAX, &number) == 0)
                line = json_integer_value(json_array_get(b->s->build.lines, number - 1));
        if (line)
                return err_set(b->err, ERR_CONFLICT, "%s:%lld: %s", b->s->dockerfile, (long long)line, message);
        return err_set(b->err, ERR_CONFLICT, "the build failed%s%s: %s", step ? " at step " : "", step ? step : "",
                       message);
}

/* Until the build is over and its whole log was read.  -EINTR: a signal came. */
static int wait_for_build(struct building *b)
{
        for (;;) {
                json_t *status = NULL;
                size_t count = 0;
                const char *word;
                int r = read_status(b, &status, &count);

                if (r < 0)
                        return r;
                word = output_text(status, "status");
                if (count == 0 && strcmp(word, "ready") == 0) {
                        json_decref(status);
                        return 0;
                }
                if (count == 0 && strcmp(word, "error") == 0) {
                        r = failed(b, status);
                        json_decref(status);
                        return r;
                }
                json_decref(status);
                if (count < PAGE && pause_between(b)) {
                        b->err->sys = EINTR;
                        return -EINTR;
                }
        }
}

static void cancel(struct building *b)
{
        AUTO_FREE char *target = NULL;
        struct err err = {0};

        (void)api_cancel_on(b->api, -1, &err);
        if (!b->build || asprintf(&target, "/templates/%s/builds/%s", b->id, b->build) < 0)
                return;
        if (api_request(b->api, "DELETE", target, NULL, NULL, &err) < 0 && err.kind != ERR_NOT_FOUND)
                (void)fprintf(stderr, "sandglass template: build %s may go on: %s\n", b->build, err.msg);
        else
                (void)fputs("sandglass template: the build was cancelled\n", stderr);
}

static int run_build(struct building *b)
{
        int r;

        r = api_cancel_on(b->api, b->signals, b->err);
        if (r == 0)
                r = request_build(b);
        if (r == 0)
                r = upload_files(b->api, b->s, b->id, &b->view, b->err);
        if (r == 0)
                r = start_build(b);
        if (r == 0)
                r = wait_for_build(b);
        return r;
}

static void show_result(const struct building *b, uint64_t took_ms)
{
        json_t *result;

        if (b->o->json) {
                result = json_copy(b->made);
                (void)json_object_set_new(result, "name", json_string(b->s->name));
                (void)json_object_set_new(result, "seconds", json_real((double)took_ms / 1000));
                output_json(result);
                json_decref(result);
                return;
        }
        (void)fprintf(stderr, "%s is built, in %u.%u s\n", b->s->name, (unsigned)(took_ms / 1000),
                      (unsigned)(took_ms % 1000 / 100));
        (void)puts(b->id);
}

static int build_source(struct cli_api *api, const struct cli_options *o, const struct source *s)
{
        struct err err = {0};
        AUTO_CLOSE int signals = cli_take_signals();
        struct building b = {.api = api, .o = o, .s = s, .signals = signals, .err = &err};
        uint64_t took_ms;
        int r, code;

        view_start(&b.view);
        r = run_build(&b);
        took_ms = clock_mono_ms() - b.view.since_ms;
        view_end(&b.view, r < 0);
        if (r < 0 && err.sys == EINTR) {
                cancel(&b);
                code = EXIT_SIGNALLED + SIGINT;
        } else if (r < 0) {
                code = cli_fail("template", &err);
        } else {
                show_result(&b, took_ms);
                code = 0;
        }
        json_decref(b.made);
        free(b.status_target);
        return code;
}

int template_build_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        AUTO_SOURCE struct source s = {0};
        struct err err = {0};
        struct cli_api api;
        int code;

        if (cli_options_parse(argc, argv,
                              CLI_ANYWHERE | CLI_DATA | CLI_JSON | CLI_NAME | CLI_TAG | CLI_FILE | CLI_BUILD, &o,
                              &err) < 0 ||
            o.help || o.arg_count > 1)
                return cli_usage(&o, template_usage, &err);
        if (source_read(&o, false, &s, &err) < 0)
                return cli_fail("template", &err);
        if (s.errors)
                return problems_found(&s);
        if (!s.name) {
                (void)err_set(&err, ERR_INVALID, "the template needs a name: --name NAME");
                return cli_fail("template", &err);
        }
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("template", &err);
        code = build_source(&api, &o, &s);
        api_close(&api);
        return code;
}

int template_check_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        AUTO_SOURCE struct source s = {0};
        struct err err = {0};

        if (cli_options_parse(argc, argv, CLI_ANYWHERE | CLI_DATA | CLI_JSON | CLI_NAME | CLI_FILE | CLI_BUILD, &o,
                              &err) < 0 ||
            o.help || o.arg_count > 1)
                return cli_usage(&o, template_usage, &err);
        if (source_read(&o, true, &s, &err) < 0)
                return cli_fail("template", &err);
        if (s.errors)
                return problems_found(&s);
        if (o.json)
                output_json(s.build.request);
        return 0;
}
