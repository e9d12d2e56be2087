/* `sandglass agent`: a prompt to an agent, here or in a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/agent/agent_resumed.h"
#include "cli/agent/agent_script.h"
#include "cli/agent/agent_view.h"
#include "cli/agent/agent_workers.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/conf.h"
#include "cli/options.h"
#include "cli/patience.h"
#include "cli/signals.h"
#include "sandglass-modes.h"

#define TEMPLATE "agent-sandbox"
#define TIMEOUT_S 3300u      /* with what is spare an hour: some servers allow no more */
#define TIMEOUT_SPARE_S 300u /* the sandbox outlives the agent: it is paused when the agent has ended */
#define END_TIMEOUT_MS 120000u
#define PROMPT_MAX (1u << 20)
#define ANSWERS_PIPE_BYTES (1 << 20)
#define ANSWERS_TICK_MS 50u                /* how often what the pipe had no room for is tried again */
#define SCRIPT_NAME ".sandglass/agent.mjs" /* in the workspace of a sandbox */

const char agent_usage[] =
        "usage: sandglass agent [--mode MODE] [-t TEMPLATE] [--resume ID] [--keep | --kill] [--timeout SECONDS]"
        " [-e NAME=VALUE]... [--pass NAME]... [--permissions WHICH] [--max-turns N] [--json] [--data DIR] [--] PROMPT\n"
        "Give a prompt to an agent, and show what the agent says and does.  The agent is run by the Claude Agent SDK, "
        "and needs node and a key for the model (ANTHROPIC_API_KEY).\n"
        "  --mode MODE           local: on this machine, in ./workspace; e2b: in a sandbox; hybrid: on this machine, "
        "with a tool for commands in sandboxes (default: SANDBOX_MODE, else local)\n"
        "  -t, --template TEMPLATE   a template or snapshot to start sandboxes from (default agent-sandbox)\n"
        "  --resume ID           go on with what an earlier run has left: a paused sandbox, or a session of this "
        "machine\n"
        "  --keep                let the sandbox run on at the end (default: pause the sandbox)\n"
        "  --kill                end the sandbox at the end\n"
        "  --timeout SECONDS     how long the agent may work (default 3300); its sandbox lives 300 s longer, which the "
        "server has to allow\n"
        "  -e, --env NAME=VALUE  a variable for the agent\n"
        "  --pass NAME           a variable of this shell for the agent, besides ANTHROPIC_API_KEY, "
        "ANTHROPIC_BASE_URL, "
        "ANTHROPIC_MODEL, ANTHROPIC_AUTH_TOKEN and CLAUDE_CODE_OAUTH_TOKEN\n"
        "  --permissions WHICH   what the agent may do unasked: default, acceptEdits, plan, dontAsk or "
        "bypassPermissions"
        " (default: everything in a sandbox, edits of files on this machine)\n"
        "  --max-turns N         end after so many turns\n"
        "  --json                print each message as a line of JSON\n";

static const char *const passed_names[] = {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL",
                                           "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"};
static const char *const key_names[] = {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"};

struct agent {
        const struct cli_options *o;
        enum sg_mode mode;
        const char *prompt;
        struct cli_api api;       /* not in mode local, which has no server */
        struct sg_runner *runner; /* owned */
        struct sg_cancel *cancel; /* owned: a signal */
        uint64_t deadline_ms;
        struct patience patience; /* with a template that is being built for its first use */
        int requests[2];          /* owned: what the script reads */
        struct agent_workers workers;
        struct agent_view view;
        char sandbox[80]; /* "": none */
        bool is_resuming; /* the sandbox of --resume is asked to run, and there is no runner yet */
        bool is_unread;   /* nobody reads what we print */
};

static int fail_as(const struct agent *a, const struct sg_error *why, struct err *err)
{
        if (a->api.client)
                return api_refused(&a->api, why, err);
        return err_set(err, why->kind == SG_CANCELLED ? ERR_INTERRUPTED : ERR_UNAVAILABLE, "%s", why->message);
}

/* What cannot be sent is told at the next answer of a worker. */
static void on_tick(void *arg)
{
        (void)agent_workers_flush(&((struct agent *)arg)->workers);
}

static struct sg_call call_of(struct agent *a)
{
        uint64_t now = clock_mono_ms();

        return (struct sg_call){.timeout_ms = a->deadline_ms > now ? (uint32_t)(a->deadline_ms - now) : 1,
                                .cancel = a->cancel,
                                .on_tick = a->workers.answers >= 0 ? on_tick : NULL,
                                .tick_arg = a,
                                .tick_ms = a->workers.answers >= 0 ? ANSWERS_TICK_MS : 0};
}

/* ---- what is asked for ---- */

/* Ids of sandboxes are no UUIDs, sessions of agents are. */
static bool is_session(const char *id)
{
        return strlen(id) == 36 && id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-' &&
               id[strspn(id, "0123456789abcdefABCDEF-")] == 0;
}

static int choose_mode(struct agent *a, struct err *err)
{
        const struct cli_options *o = a->o;
        struct sg_error why;

        if (o->mode && sg_mode_parse(o->mode, &a->mode, &why) < 0)
                return err_set(err, ERR_INVALID, "--%s", why.message);
        if (!o->mode && o->resume)
                a->mode = is_session(o->resume) ? SG_MODE_LOCAL : SG_MODE_E2B;
        else if (!o->mode)
                a->mode = sg_mode_from_name(cli_variable("SANDBOX_MODE"));
        if (o->resume && is_session(o->resume) != (a->mode != SG_MODE_E2B))
                return err_set(
                        err, ERR_INVALID, "--resume %.60s: in mode %s, ID is %s", o->resume, sg_mode_name(a->mode),
                        a->mode == SG_MODE_E2B ? "a sandbox" : "a session of the agent, as an earlier run has told");
        return 0;
}

static bool is_given(const char *name, const json_t *env)
{
        return cli_variable(name) || json_object_get(env, name);
}

/* On this machine the user may have logged in by `claude`. */
static bool is_logged_in(void)
{
        const char *home = cli_variable("HOME"), *dir = cli_variable("CLAUDE_CONFIG_DIR");
        AUTO_FREE char *path = NULL;

        if (asprintf(&path, "%s%s/.credentials.json", dir ? dir : home ? home : "", dir ? "" : "/.claude") < 0)
                path = NULL;
        return path && access(path, R_OK) == 0;
}

static int check_key(const struct agent *a, struct err *err)
{
        for (size_t i = 0; i < ARRAY_LEN(key_names); i++)
                if (is_given(key_names[i], a->o->env))
                        return 0;
        if (a->mode != SG_MODE_E2B && is_logged_in())
                return 0;
        return err_set(err, ERR_DENIED,
                       "there is no key for the model: set ANTHROPIC_API_KEY (or CLAUDE_CODE_OAUTH_TOKEN), "
                       "for example export ANTHROPIC_API_KEY=sk-ant-...");
}

static int check_options(const struct cli_options *o, struct err *err)
{
        static const char *const permissions[] = {"default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"};

        if (o->arg_count > 1)
                return err_set(err, ERR_INVALID, "the prompt must be one word of the shell: put it in quotes");
        if (!o->args[0][0] || strlen(o->args[0]) > PROMPT_MAX || !str_is_utf8(str_of(o->args[0])))
                return err_set(err, ERR_INVALID, "the prompt must be text of 1 to %u bytes", PROMPT_MAX);
        if (o->keep && o->kills)
                return err_set(err, ERR_INVALID, "--keep and --kill exclude each other");
        for (size_t i = 0; o->permissions && i < ARRAY_LEN(permissions); i++)
                if (strcmp(o->permissions, permissions[i]) == 0)
                        return 0;
        return o->permissions
                       ? err_set(err, ERR_INVALID, "--permissions %.40s: there is no such choice", o->permissions)
                       : 0;
}

/* ---- the runner ---- */

/* Variables of this shell by name, and those of the options, as the library wants them: freed by the caller, texts are borrowed.
 * They are for the agent alone: workers in sandboxes get none of them. */
static struct sg_pair *variables_of(const struct cli_options *o)
{
        size_t n = 0, most = ARRAY_LEN(passed_names) + json_array_size(o->pass) + json_object_size(o->env);
        struct sg_pair *pairs = calloc(most + 1, sizeof(*pairs));
        const char *name;
        json_t *value;
        size_t i;

        if (!pairs)
                return NULL;
        for (i = 0; i < ARRAY_LEN(passed_names); i++)
                if (cli_variable(passed_names[i]))
                        pairs[n++] = (struct sg_pair){passed_names[i], cli_variable(passed_names[i])};
        json_array_foreach (o->pass, i, value)
                if (cli_variable(json_string_value(value)))
                        pairs[n++] = (struct sg_pair){json_string_value(value), cli_variable(json_string_value(value))};
        json_object_foreach (o->env, name, value)
                pairs[n++] = (struct sg_pair){name, json_string_value(value)};
        return pairs;
}

static int explain_open(const struct agent *a, const struct sg_error *why, struct err *err)
{
        unsigned timeout_s = a->o->timeout_s ? a->o->timeout_s : TIMEOUT_S;

        if (why->kind == SG_INVALID && str_starts(str_of(why->message), "Timeout"))
                return err_set(err, ERR_INVALID, "--timeout %u: the sandbox has to live %u s longer, but: %s",
                               timeout_s, TIMEOUT_SPARE_S, why->message);
        return fail_as(a, why, err);
}

static enum sg_state state_of(struct agent *a, const char *id)
{
        const struct sg_call call = call_of(a);
        struct sg_info *info = NULL;
        enum sg_state state = sg_sandbox_get(a->api.client, id, &call, &info, NULL) < 0 ? SG_STATE_OTHER : info->state;

        sg_free(info);
        return state;
}

/* The sandbox of --resume is as it was, perhaps in use by somebody else. */
static bool is_untouched(struct agent *a, enum sg_state before, const struct sg_error *why)
{
        const bool is_refusal = why->kind == SG_INVALID || why->kind == SG_DENIED || why->kind == SG_NOT_FOUND ||
                                why->kind == SG_CONFLICT || why->kind == SG_LIMIT;

        return is_refusal && state_of(a, a->o->resume) == before;
}

static int open_runner(struct agent *a, struct err *err)
{
        const struct cli_options *o = a->o;
        static const char *const no_names[] = {NULL};
        const struct sg_runner_options options = {.mode = a->mode,
                                                  .client = a->api.client,
                                                  .template_name = o->template ? o->template : TEMPLATE,
                                                  .timeout_s =
                                                          (o->timeout_s ? o->timeout_s : TIMEOUT_S) + TIMEOUT_SPARE_S,
                                                  .sandbox_id = a->mode == SG_MODE_E2B ? o->resume : NULL,
                                                  .pass_env = no_names};
        enum sg_state before = SG_STATE_OTHER;
        struct sg_error why = {0};
        struct sg_call call;
        int r;

        if (a->mode == SG_MODE_E2B)
                (void)fprintf(stderr, "sandglass agent: %s %s\n",
                              o->resume ? "resuming" : "starting a sandbox of the template",
                              o->resume ? o->resume : options.template_name);
        a->is_resuming = options.sandbox_id != NULL;
        if (a->is_resuming)
                before = state_of(a, options.sandbox_id);
        do {
                call = call_of(a);
                r = sg_runner_open(&options, &call, &a->runner, &why);
        } while (r < 0 && patience_wait(&a->patience, &why));
        if (r < 0) {
                a->is_resuming = a->is_resuming && !is_untouched(a, before, &why);
                return explain_open(a, &why, err);
        }
        if (a->mode == SG_MODE_E2B)
                (void)snprintf(a->sandbox, sizeof(a->sandbox), "%s", sg_sandbox_id(sg_runner_sandbox(a->runner, NULL)));
        return 0;
}

/* ---- one run ---- */

static int on_message(const struct sg_message *line, void *arg)
{
        struct agent *a = arg;
        json_t *message = line->is_json ? json_loadb(line->text, line->len, JSON_ALLOW_NUL, NULL) : NULL;
        const struct sg_call call = call_of(a);
        int r = 0;

        if (!message)
                agent_view_text(&a->view, line->text);
        else if (agent_workers_asks(message))
                r = agent_workers_serve(&a->workers, message, &call);
        else {
                if (a->o->json)
                        agent_view_json(&a->view, message);
                agent_view_show(&a->view, message);
        }
        json_decref(message);
        if (fflush(stdout) == 0)
                return r;
        a->is_unread = true;
        return -EPIPE;
}

/* What the script reads first. */
static char *request_text(const struct agent *a)
{
        const struct cli_options *o = a->o;
        const char *permissions = o->permissions           ? o->permissions
                                  : a->mode == SG_MODE_E2B ? "bypassPermissions"
                                                           : "acceptEdits";
        json_t *request =
                json_pack("{s:s, s:s, s:b, s:b}", "prompt", a->prompt, "permissionMode", permissions, "continues",
                          a->mode == SG_MODE_E2B && o->resume, "workers", a->mode == SG_MODE_HYBRID);
        char *text = NULL;

        if (request && o->resume && a->mode != SG_MODE_E2B)
                (void)json_object_set_new(request, "resume", json_string(o->resume));
        if (request && o->max_turns)
                (void)json_object_set_new(request, "maxTurns", json_integer(o->max_turns));
        if (request)
                text = json_dumps(request, JSON_COMPACT);
        json_decref(request);
        return text;
}

/* Mode hybrid: the script reads a pipe, since answers of workers follow the request.  A long prompt is sent as it reads. */
static int open_requests(struct agent *a, struct sg_program *program, const char *request, struct err *err)
{
        if (pipe2(a->requests, O_CLOEXEC) < 0 || fcntl(a->requests[1], F_SETFL, O_NONBLOCK) < 0)
                return err_sys(err, -errno, "make a pipe");
        (void)fcntl(a->requests[1], F_SETPIPE_SZ, ANSWERS_PIPE_BYTES); /* the usual size has room for a few, too */
        a->workers = (struct agent_workers){.runner = a->runner,
                                            .answers = a->requests[1],
                                            .patience = &a->patience,
                                            .unread = BUF_INIT(AGENT_UNREAD_MAX)};
        if (agent_workers_send(&a->workers, request) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        program->input = NULL;
        program->input_len = 0;
        program->reads_fd = true;
        program->input_fd = a->requests[0];
        return 0;
}

static int put_script(struct agent *a, const char *path, struct err *err)
{
        AUTO_FREE char *text = NULL;
        const struct sg_call call = call_of(a);
        struct sg_error why = {0};
        size_t len;

        if (agent_script_read(path, &text, &len, err) < 0)
                return -1;
        return sg_runner_write(a->runner, NULL, SCRIPT_NAME, text, len, &call, &why) < 0 ? fail_as(a, &why, err) : 0;
}

static int explain(const struct agent *a, const struct sg_error *why, struct err *err)
{
        if (why->kind == SG_NOT_FOUND && a->mode != SG_MODE_E2B)
                return err_set(err, ERR_NOT_FOUND,
                               "node is not on this machine: install Node.js 18 or newer, or use --mode e2b");
        if (why->kind == SG_TIMEOUT)
                return err_set(err, ERR_TIMEOUT, "the agent was ended: it worked longer than --timeout allows");
        return fail_as(a, why, err);
}

static int judge(const struct agent *a, const struct sg_program_end *end, struct err *err)
{
        if (end->exit_code == 127 && !a->view.has_result && !a->view.has_failed)
                return err_set(err, ERR_NOT_FOUND, "node is not in the sandbox: use a template that has node (-t)");
        if (a->view.has_failed)
                return err_set(err, ERR_INTERNAL, "the agent failed: %s", a->view.failure);
        if (end->exit_code != 0)
                return err_set(err, ERR_INTERNAL, "the agent's script ended with code %d", end->exit_code);
        if (!a->view.has_result)
                return err_set(err, ERR_INTERNAL, "the agent ended without a result");
        return 0;
}

static int run_script(struct agent *a, const char *path, struct err *err)
{
        const char *const argv[] = {"node", a->mode == SG_MODE_E2B ? SCRIPT_NAME : path, NULL};
        AUTO_FREE char *request = request_text(a);
        AUTO_FREE struct sg_pair *env = variables_of(a->o);
        struct sg_program program = {.argv = argv, .env = env, .on_message = on_message, .arg = a};
        struct sg_program_end end;
        struct sg_call call;
        struct sg_error why = {0};

        if (!request || !env)
                return err_set(err, ERR_LIMIT, "out of memory");
        program.input = request;
        program.input_len = strlen(request);
        if (a->mode == SG_MODE_HYBRID && open_requests(a, &program, request, err) < 0)
                return -1;
        call = call_of(a);
        if (sg_runner_run(a->runner, &program, &call, &end, &why) < 0)
                return explain(a, &why, err);
        return judge(a, &end, err);
}

static int run_agent(struct agent *a, struct err *err)
{
        AUTO_FREE char *path = NULL;

        if (check_key(a, err) < 0)
                return -1;
        path = agent_script_path(err);
        if (!path || (a->mode != SG_MODE_LOCAL && api_open(&a->api, a->o->data, err) < 0) || open_runner(a, err) < 0)
                return -1;
        if (a->mode == SG_MODE_E2B && put_script(a, path, err) < 0)
                return -1;
        return run_script(a, path, err);
}

/* ---- the end ---- */

static enum sg_close how_to_close(const struct agent *a)
{
        if (a->o->keep)
                return SG_CLOSE_KEEP;
        return a->o->kills || a->mode == SG_MODE_HYBRID ? SG_CLOSE_KILL : SG_CLOSE_PAUSE;
}

/* The last line of --json, whatever happened. */
static void print_end(const struct agent *a, const char *state)
{
        json_t *end = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "type", "sandglass", "event", "end", "mode",
                                sg_mode_name(a->mode), "session", a->view.session, "sandbox", a->sandbox, "state",
                                a->sandbox[0] ? state : "");

        (void)json_dumpf(end, stdout, JSON_COMPACT);
        (void)fputc('\n', stdout);
        (void)fflush(stdout);
        json_decref(end);
}

static void tell_end(const struct agent *a, enum sg_close how, const char *state)
{
        const char *id = a->sandbox[0] ? a->sandbox : a->view.session;

        if (a->sandbox[0])
                (void)fprintf(stderr, "sandglass agent: sandbox %s is %s\n", a->sandbox, state);
        if (id[0] && !(a->sandbox[0] && how == SG_CLOSE_KILL))
                (void)fprintf(stderr, "sandglass agent: to go on: sandglass agent %s--resume %s \"...\"\n",
                              a->mode == SG_MODE_HYBRID ? "--mode hybrid " : "", id);
}

/* 1: there was something to end. */
static int close_sandboxes(struct agent *a, enum sg_close how, struct sg_error *why)
{
        const struct sg_call call = {.timeout_ms = END_TIMEOUT_MS};
        int r = 0;

        if (a->runner)
                return sg_runner_close(a->runner, how, &call, why) < 0 ? -1 : 1;
        if (a->is_resuming)
                r = agent_resumed_end(a->api.client, a->o->resume, how, &call, why);
        if (r != 0)
                (void)snprintf(a->sandbox, sizeof(a->sandbox), "%s", a->o->resume);
        return r;
}

/* Also after a failure and a signal: nothing may run on that nobody has asked to keep. */
static int close_agent(struct agent *a, struct err *err)
{
        static const char *const states[] = {
                [SG_CLOSE_KILL] = "killed", [SG_CLOSE_PAUSE] = "paused", [SG_CLOSE_KEEP] = "running"};
        enum sg_close how = how_to_close(a);
        struct sg_error why = {0};
        int r = close_sandboxes(a, how, &why);

        if (a->o->json)
                print_end(a, r < 0 ? "unknown" : states[how]);
        if (r < 0)
                (void)fprintf(stderr, "sandglass agent: what is left may still run: %s\n", why.message);
        else if (r > 0)
                tell_end(a, how, states[how]);
        if (r < 0 && err->kind == ERR_NONE)
                (void)fail_as(a, &why, err);
        agent_workers_done(&a->workers);
        close_fd(&a->requests[0]);
        close_fd(&a->requests[1]);
        sg_cancel_free(a->cancel);
        if (a->api.client)
                api_close(&a->api);
        return r < 0 ? r : 0;
}

/* The exit code after a signal; 0: there was none. */
static int signalled(int signals)
{
        struct signalfd_siginfo info;

        return read(signals, &info, sizeof(info)) == sizeof(info) ? 128 + (int)info.ssi_signo : 0;
}

static int agent_session(struct agent *a, int signals, struct err *err)
{
        struct err later = {0};
        struct sg_error why;
        int r, code;

        a->patience = (struct patience){.who = "sandglass agent", .deadline_ms = a->deadline_ms, .cancel_fd = signals};
        if (sg_cancel_create_fd(signals, &a->cancel, &why) < 0)
                r = fail_as(a, &why, err);
        else
                r = run_agent(a, err);
        code = r < 0 && err->kind == ERR_INTERRUPTED ? signalled(signals) : 0;
        if (close_agent(a, &later) < 0 && r == 0) {
                *err = later;
                return -1;
        }
        if (code || a->is_unread)
                return code ? code : 1;
        return r < 0 ? -1 : 0;
}

int agent_cli_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct agent a = {.o = &o, .requests = {-1, -1}, .workers.answers = -1};
        AUTO_CLOSE int signals = -1;
        struct err err = {0};
        int code;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_JSON | CLI_TEMPLATE | CLI_TIMEOUT | CLI_ENV | CLI_AGENT, &o,
                              &err) < 0 ||
            o.help || o.arg_count == 0 || check_options(&o, &err) < 0 || choose_mode(&a, &err) < 0)
                return cli_usage(&o, agent_usage, &err);
        a.prompt = o.args[0];
        a.view = (struct agent_view){.out = stdout, .notes = stderr, .is_json = o.json};
        a.deadline_ms = clock_mono_ms() + (o.timeout_s ? o.timeout_s : TIMEOUT_S) * 1000ull;
        signals = cli_take_signals();
        code = agent_session(&a, signals, &err);
        return code < 0 ? cli_fail("agent", &err) : code;
}
