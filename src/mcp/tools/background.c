#include "mcp/tools/background.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/shorten.h"
#include "mcp/tools/path.h"
#include "mcp/tools/program.h"
#include "mcp/tools/sandbox_tools.h"
#include "mcp/tools/workbench.h"

#define READ_BYTES_MAX 30000

struct background {
        struct list node; /* of workbench->commands */
        uint32_t id;
        char *command;           /* owned */
        struct program *program; /* owned; NULL: it has ended */
        pid_t pid;
        struct buf output; /* stdout and stderr, as they came */
        uint64_t dropped;  /* bytes before those in `output` */
        uint64_t begun_us, ended_us;
        int exit_code;
        struct list waiters; /* struct reader: calls that wait for output or for the end */
};

struct reader {
        struct list node;
        struct background *b;
        struct call *call;
        uint64_t from;
        struct timer timer;
};

static void background_free(struct background *b);

static uint64_t end_of_output(const struct background *b)
{
        return b->dropped + b->output.len;
}

static struct background *find(const struct call *c, const json_t *args)
{
        struct workbench *w = c->session->user;

        if (!w)
                return NULL;
        LIST_EACH (at, &w->commands) {
                struct background *b = LIST_ENTRY(at, struct background, node);

                if (b->id == (uint64_t)arg_number(args, "id", 0))
                        return b;
        }
        return NULL;
}

/* ---- reading ---- */

static void reader_answer(struct reader *rd)
{
        struct background *b = rd->b;
        struct call *c = rd->call;
        AUTO_BUF struct buf text = BUF_INIT(4 * READ_BYTES_MAX), clean = BUF_INIT(4 * READ_BYTES_MAX);
        uint64_t from = rd->from < b->dropped ? b->dropped : rd->from > end_of_output(b) ? end_of_output(b) : rd->from;
        size_t n =
                (size_t)(end_of_output(b) - from) < READ_BYTES_MAX ? (size_t)(end_of_output(b) - from) : READ_BYTES_MAX;
        struct str piece = {n ? (const char *)buf_at(&b->output) + (from - b->dropped) : "", n};
        bool runs = b->program != NULL;

        (void)text_clean(piece, &clean);
        if (from > rd->from)
                (void)buf_addf(&text, "[%" PRIu64 " bytes are not kept any more]\n", from - rd->from);
        if (clean.len)
                (void)buf_add(&text, buf_at(&clean), clean.len);
        if (runs)
                (void)buf_addf(&text, "\n[runs since %" PRIu64 " s; read on from %" PRIu64 "]",
                               (clock_mono_us() - b->begun_us) / 1000000, from + n);
        else
                (void)buf_addf(&text, "\n[ended, exit code %d, %" PRIu64 ".%03" PRIu64 " s%s]", b->exit_code,
                               (b->ended_us - b->begun_us) / 1000000, (b->ended_us - b->begun_us) / 1000 % 1000,
                               from + n < end_of_output(b) ? "; there is more output" : "");
        timer_clear(&rd->timer);
        list_remove(&rd->node);
        free(rd);
        tool_text(c, (struct str){(const char *)buf_at(&text), text.len},
                  json_pack("{s:I,s:b,s:o,s:s%,s:I}", "id", (json_int_t)b->id, "running", runs, "exit_code",
                            runs ? json_null() : json_integer(b->exit_code), "output",
                            clean.len ? (const char *)buf_at(&clean) : "", clean.len, "next", (json_int_t)(from + n)));
}

static void wake_readers(struct background *b)
{
        LIST_EACH (at, &b->waiters)
                reader_answer(LIST_ENTRY(at, struct reader, node));
}

static void reader_on_timer(struct timer *t)
{
        reader_answer(CONTAINER_OF(t, struct reader, timer));
}

static void reader_cancel(struct call *c)
{
        struct reader *rd = c->user;

        timer_clear(&rd->timer);
        list_remove(&rd->node);
        free(rd);
        call_result(c, json_object());
}

static void read_command(struct call *c, json_t *args)
{
        struct background *b = find(c, args);
        struct reader *rd = b ? calloc(1, sizeof(*rd)) : NULL;
        uint64_t wait_ms = (uint64_t)arg_number(args, "wait_s", 0) * 1000;

        if (!rd) {
                tool_failed(c,
                            b ? "out of memory" : "no command has this id: list_commands shows those that there are");
                return;
        }
        rd->b = b;
        rd->call = c;
        rd->from = (uint64_t)arg_number(args, "from", 0);
        rd->timer.on = reader_on_timer;
        list_push_back(&b->waiters, &rd->node);
        c->user = rd;
        c->on_cancel = reader_cancel;
        if (!b->program || wait_ms == 0 || end_of_output(b) > rd->from)
                reader_answer(rd);
        else
                timer_set(c->mcp->loop, &rd->timer, wait_ms);
}

/* ---- the program ---- */

static void on_output(struct program *p, enum program_output which, struct str piece, void *arg)
{
        struct background *b = arg;

        (void)p, (void)which;
        if (piece.n > buf_room(&b->output)) {
                size_t n = piece.n - buf_room(&b->output);

                buf_consume(&b->output, n);
                b->dropped += n;
        }
        if (buf_add(&b->output, piece.p, piece.n) < 0)
                b->dropped += piece.n;
        wake_readers(b);
}

static void on_end(struct program *p, void *arg)
{
        struct background *b = arg;

        b->exit_code = program_exit_code(p);
        b->ended_us = clock_mono_us();
        b->program = program_free(p);
        wake_readers(b);
}

static void background_free(struct background *b)
{
        b->program = program_free(b->program);
        wake_readers(b);
        list_remove(&b->node);
        buf_done(&b->output);
        free(b->command);
        free(b);
}

void background_end_all(struct workbench *w)
{
        while (!list_is_empty(&w->commands))
                background_free(LIST_ENTRY(w->commands.next, struct background, node));
}

bool background_runs(const struct workbench *w)
{
        LIST_EACH (at, &w->commands)
                if (LIST_ENTRY(at, struct background, node)->program)
                        return true;
        return false;
}

static bool make_room(struct workbench *w)
{
        unsigned count = 0;

        LIST_EACH (at, &w->commands)
                count++;
        if (count < BACKGROUND_MAX)
                return true;
        LIST_EACH (at, &w->commands) {
                struct background *b = LIST_ENTRY(at, struct background, node);

                if (!b->program) {
                        background_free(b);
                        return true;
                }
        }
        return false;
}

static int begin(struct background *b, struct loop *loop, const char *cwd, struct err *err)
{
        const char *argv[] = {"bash", "--login", "-c", b->command, NULL};
        struct program_options opt = {.loop = loop,
                                      .argv = argv,
                                      .cwd = cwd,
                                      .keeps_stdin = true,
                                      .on_output = on_output,
                                      .on_end = on_end,
                                      .arg = b};

        return program_start(&opt, &b->program, err);
}

static void start_command(struct call *c, json_t *args)
{
        struct workbench *w = workbench_of(c->session);
        struct background *b = w && make_room(w) ? calloc(1, sizeof(*b)) : NULL;
        char cwd[PATH_MAX];
        struct err err = {0};

        if (!b) {
                tool_failed(c, w ? "%u commands run already: kill one first" : "out of memory", BACKGROUND_MAX);
                return;
        }
        b->begun_us = clock_mono_us();
        b->command = strdup(arg_text(args, "command", ""));
        buf_init(&b->output, BACKGROUND_KEPT_BYTES);
        list_init(&b->waiters);
        if (!b->command || path_of(c->mcp, arg_text(args, "cwd", "."), cwd, &err) < 0 ||
            begin(b, c->mcp->loop, cwd, &err) < 0) {
                background_free(b);
                tool_failed(c, "%s", err.msg[0] ? err.msg : "out of memory");
                return;
        }
        b->id = ++w->next_command;
        b->pid = b->program->pid;
        list_push_back(&w->commands, &b->node);
        tool_textf(c, json_pack("{s:I,s:I}", "id", (json_int_t)b->id, "pid", (json_int_t)b->pid),
                   "Started as command %" PRIu32 ", process %d. read_command shows its output.", b->id, (int)b->pid);
}

static void write_command(struct call *c, json_t *args)
{
        struct background *b = find(c, args);
        const json_t *input = json_object_get(args, "input");
        int r = 0;

        if (!b || !b->program) {
                tool_failed(c, b ? "the command has ended"
                                 : "no command has this id: list_commands shows those that there are");
                return;
        }
        if (input)
                r = program_write(b->program, (struct str){json_string_value(input), json_string_length(input)});
        if (r == 0 && arg_flag(args, "close"))
                program_close_stdin(b->program);
        if (r < 0)
                tool_failed(c, r == -E2BIG ? "the command does not read its input: too much waits already"
                                           : "the command has closed its input");
        else
                tool_textf(c, NULL, "Written: %zu bytes.", input ? json_string_length(input) : 0);
}

static void kill_command(struct call *c, json_t *args)
{
        static const struct {
                const char *name;
                int number;
        } signals[] = {{"SIGTERM", SIGTERM}, {"SIGKILL", SIGKILL}, {"SIGINT", SIGINT}, {"SIGHUP", SIGHUP}};
        struct background *b = find(c, args);
        const char *name = arg_text(args, "signal", "SIGTERM");

        if (!b || !b->program) {
                tool_failed(c, b ? "the command has ended already"
                                 : "no command has this id: list_commands shows those that there are");
                return;
        }
        for (size_t i = 0; i < ARRAY_LEN(signals); i++)
                if (strcmp(signals[i].name, name) == 0)
                        program_signal(b->program, signals[i].number);
        tool_textf(c, NULL, "%s sent to command %" PRIu32 " and its children.", name, b->id);
}

static void list_commands(struct call *c, json_t *args)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);
        struct workbench *w = workbench_of(c->session);
        json_t *list = json_array();

        (void)args;
        if (!w) {
                json_decref(list);
                tool_failed(c, "out of memory");
                return;
        }
        LIST_EACH (at, &w->commands) {
                struct background *b = LIST_ENTRY(at, struct background, node);

                (void)json_array_append_new(list, json_pack("{s:I,s:I,s:s,s:b,s:o,s:I}", "id", (json_int_t)b->id, "pid",
                                                            (json_int_t)b->pid, "command", b->command, "running",
                                                            b->program != NULL, "exit_code",
                                                            b->program ? json_null() : json_integer(b->exit_code),
                                                            "output_bytes", (json_int_t)end_of_output(b)));
                (void)buf_addf(&text, "%" PRIu32 "  %s  %.200s\n", b->id, b->program ? "runs" : "ended", b->command);
        }
        if (text.len == 0)
                (void)buf_addc(&text, "No commands.");
        tool_text(c, (struct str){(const char *)buf_at(&text), text.len}, json_pack("{s:o}", "commands", list));
}

#define ID                                                                                                             \
        "\"id\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295,\"description\":\"The number that "         \
        "start_command gave.\"}"

const struct tool tool_start_command = {
        .name = "start_command",
        .title = "Start a command in the background",
        .description = "Start a command that runs on by itself, for example a server. Returns a number for "
                       "read_command, write_command and kill_command.",
        .hints = TOOL_DESTROYS | TOOL_REACHES_OUT,
        .schema = "{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":"
                  "100000,\"description\":\"The command, as bash reads it.\"},"
                  "\"cwd\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Where the command begins. A relative "
                  "path "
                  "begins in the workspace. Default: the workspace.\"}},"
                  "\"required\":[\"command\"],\"additionalProperties\":false}",
        .output = "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\"},\"pid\":{\"type\":\"integer\"}},"
                  "\"required\":[\"id\",\"pid\"]}",
        .run = start_command,
};
const struct tool tool_read_command = {
        .name = "read_command",
        .title = "Read the output of a background command",
        .description = "Return output of a background command, from a byte on. The answer says where to read on, "
                       "whether the command runs, and its exit code.",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{" ID
                  ",\"from\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9007199254740991,\"description\":\"The "
                  "first byte. Default: 0.\"},"
                  "\"wait_s\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":3600,\"description\":\"Wait so long for "
                  "new output or the end. Default: 0.\"}},"
                  "\"required\":[\"id\"],\"additionalProperties\":false}",
        .output = "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\"},\"running\":{\"type\":"
                  "\"boolean\"},\"exit_code\":{\"type\":[\"integer\",\"null\"]},"
                  "\"output\":{\"type\":\"string\"},\"next\":{\"type\":\"integer\"}},\"required\":[\"id\",\"running\","
                  "\"output\",\"next\"]}",
        .run = read_command,
};
const struct tool tool_write_command = {
        .name = "write_command",
        .title = "Write to a background command",
        .description =
                "Send text to the standard input of a background command, and close the input if `close` is set.",
        .hints = TOOL_DESTROYS,
        .schema = "{\"type\":\"object\",\"properties\":{" ID
                  ",\"input\":{\"type\":\"string\",\"maxLength\":8000000,\"description\":\"The text, with a line end "
                  "where the command needs one.\"},"
                  "\"close\":{\"type\":\"boolean\",\"description\":\"Close the input "
                  "afterwards.\"}},\"required\":[\"id\"],\"additionalProperties\":false}",
        .run = write_command,
};
const struct tool tool_kill_command = {
        .name = "kill_command",
        .title = "End a background command",
        .description = "Send a signal to a background command and its children.",
        .hints = TOOL_DESTROYS | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{" ID
                  ",\"signal\":{\"type\":\"string\",\"enum\":[\"SIGTERM\",\"SIGKILL\",\"SIGINT\",\"SIGHUP\"],"
                  "\"description\":\"Default: SIGTERM.\"}},"
                  "\"required\":[\"id\"],\"additionalProperties\":false}",
        .run = kill_command,
};
const struct tool tool_list_commands = {
        .name = "list_commands",
        .title = "List background commands",
        .description = "List the background commands of this session.",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}",
        .output = "{\"type\":\"object\",\"properties\":{\"commands\":{\"type\":\"array\",\"items\":{\"type\":"
                  "\"object\"}}},\"required\":[\"commands\"]}",
        .run = list_commands,
};
