/* tools_command.c - tools that run commands in a sandbox: to their end, or in the background. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/mcp/pairs.h"
#include "cli/mcp/platform.h"
#include "cli/mcp/platform_tools.h"
#include "cli/mcp/started.h"
#include "mcp/protocol/shorten.h"

#define TIMEOUT_S 120
#define OUTPUT_BYTES 30000
#define START_MS 15000u
#define GRACE_MS 30000u /* beyond the command's own time: the server ends it */

/* ---- output ---- */

struct output {
        struct work *work;
        struct shortened out, err;
        uint64_t lost;
        uint64_t from, at; /* bytes of both kinds before `from` are left out; those that have come */
};

/* What is left of a piece without the bytes before o->from. */
static struct str take_piece(struct output *o, const char *bytes, size_t len)
{
        uint64_t skip = o->at < o->from ? o->from - o->at : 0;

        o->at += len;
        skip = skip < len ? skip : len;
        return (struct str){bytes + skip, len - (size_t)skip};
}

static void output_init(struct output *o, struct work *w)
{
        size_t most = (size_t)arg_number(w->args, "max_output_bytes", OUTPUT_BYTES);

        o->work = w;
        o->lost = o->at = 0;
        o->from = (uint64_t)arg_number(w->args, "from", 0);
        shortened_init(&o->out, most);
        shortened_init(&o->err, most);
}

static void output_done(struct output *o)
{
        shortened_done(&o->out);
        shortened_done(&o->err);
}

static int on_stdout(const char *bytes, size_t len, void *arg)
{
        struct output *o = arg;
        struct str piece = take_piece(o, bytes, len);

        work_progress(o->work, piece);
        return piece.n ? shortened_add(&o->out, piece) : 0;
}

static int on_stderr(const char *bytes, size_t len, void *arg)
{
        struct output *o = arg;
        struct str piece = take_piece(o, bytes, len);

        work_progress(o->work, piece);
        return piece.n ? shortened_add(&o->err, piece) : 0;
}

static void on_lost(uint64_t bytes, void *arg)
{
        struct output *o = arg;

        o->at += bytes;
        if (o->at > o->from)
                o->lost += o->at - o->from < bytes ? o->at - o->from : bytes;
}

static void add_part(struct buf *text, const char *title, const struct buf *part)
{
        if (part->len == 0)
                return;
        (void)buf_addc(text, title);
        (void)buf_add(text, buf_at(part), part->len);
        if (buf_at(part)[part->len - 1] != '\n')
                (void)buf_addc(text, "\n");
}

static const char *chars(const struct buf *b)
{
        return b->len ? (const char *)buf_at(b) : "";
}

/* end NULL: its time was up. */
static void answer(struct work *w, const struct output *o, const struct sg_result *end)
{
        AUTO_BUF struct buf out = BUF_INIT(16u << 20), err = BUF_INIT(16u << 20), text = BUF_INIT(40u << 20);
        bool is_cut = shortened_is_cut(&o->out) || shortened_is_cut(&o->err) || o->lost;
        int code = end ? end->exit_code : 128 + SIGKILL;
        double s = work_seconds(w);

        if (shortened_text(&o->out, &out) < 0 || shortened_text(&o->err, &err) < 0) {
                work_failed(w, "the output is too long");
                return;
        }
        add_part(&text, "", &out);
        add_part(&text, "[stderr]\n", &err);
        if (o->lost)
                (void)buf_addf(&text, "[%llu bytes of output were lost while the connection was cut]\n",
                               (unsigned long long)o->lost);
        if (!end)
                (void)buf_addf(&text, "[stopped after %lld s, the time limit]\n",
                               (long long)arg_number(w->args, "timeout_s", TIMEOUT_S));
        (void)buf_addf(&text, "[exit code %d, %.3f s]", code, s);
        work_text(w, (struct str){chars(&text), text.len},
                  json_pack("{s:i,s:I,s:s%,s:s%,s:b,s:b}", "exit_code", code, "duration_ms", (json_int_t)(s * 1000),
                            "stdout", chars(&out), out.len, "stderr", chars(&err), err.len, "timed_out", end == NULL,
                            "truncated", is_cut));
}

/* A start that is cut off half way may have begun a command whose number nobody knows: a start is waited for. */
static const struct sg_call start_wait = {.timeout_ms = START_MS};

/* ---- run_command ---- */

static void end_command(struct sg_sandbox *box, const struct sg_command *command)
{
        (void)work_signal_all(box, sg_command_pid(command), SIGKILL, NULL);
}

static void wait_for(struct work *w, struct sg_sandbox *box, struct sg_command *command, struct output *o)
{
        struct sg_result *end = NULL;
        struct sg_error err;
        int r = sg_command_wait(command, &w->wait, &end, &err);

        if (r == 0) {
                answer(w, o, end);
        } else if (err.kind == SG_TIMEOUT) {
                end_command(box, command); /* where the server has not done so yet */
                answer(w, o, NULL);
        } else {
                if (err.kind == SG_CANCELLED)
                        end_command(box, command);
                work_error(w, &err);
        }
        sg_free(end);
}

static void run(struct work *w)
{
        AUTO_FREE struct sg_pair *env = NULL;
        uint32_t timeout_ms = (uint32_t)arg_number(w->args, "timeout_s", TIMEOUT_S) * 1000;
        struct sg_command *command = NULL;
        struct sg_sandbox *box = NULL;
        struct output o;
        struct sg_command_options opt = {.cwd = arg_text(w->args, "cwd", NULL),
                                         .user = arg_text(w->args, "user", NULL),
                                         .input = arg_text(w->args, "input", NULL),
                                         .timeout_ms = timeout_ms,
                                         .on_stdout = on_stdout,
                                         .on_stderr = on_stderr,
                                         .on_lost = on_lost,
                                         .arg = &o};
        struct sg_error err;

        if (pairs_of(json_object_get(w->args, "env"), &env) < 0) {
                work_failed(w, "out of memory");
                return;
        }
        opt.env = env;
        opt.input_len = opt.input ? strlen(opt.input) : 0;
        box = work_open(w);
        if (!box)
                return;
        output_init(&o, w);
        if (sg_command_start(box, arg_text(w->args, "command", ""), &opt, &start_wait, &command, &err) < 0) {
                work_error(w, &err);
        } else {
                w->wait.timeout_ms = timeout_ms + GRACE_MS;
                wait_for(w, box, command, &o);
        }
        sg_command_free(command);
        output_done(&o);
        sg_sandbox_free(box);
}

#define SCHEMA_COMMAND                                                                                                 \
        "\"command\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":1000000,\"description\":\"The command, as "    \
        "bash reads it. May have several lines.\"},"                                                                   \
        "\"cwd\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"description\":\"Where the command begins. " \
        "Default: the home of the user.\"}," SCHEMA_USER ","                                                           \
        "\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},\"description\":\"Variables for " \
        "this command.\"}"

const struct platform_tool platform_run_command = {
        .tool = {.name = "run_command",
                 .title = "Run a command in a sandbox",
                 .description = "Run a command in a sandbox and wait for its end. Returns its output, its exit code "
                                "and how long it took. Each command has a new shell: directory and variables do not "
                                "stay. For servers and other programs that do not end, use start_command.",
                 .hints = TOOL_DESTROYS | TOOL_REACHES_OUT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_COMMAND
                           ",\"input\":{\"type\":\"string\",\"maxLength\":4000000,\"description\":\"What the command "
                           "reads. Default: nothing.\"},"
                           "\"timeout_s\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400,\"description\":"
                           "\"Seconds until the command is stopped. Default: 120.\"},"
                           "\"max_output_bytes\":{\"type\":\"integer\",\"minimum\":1000,\"maximum\":4000000,"
                           "\"description\":\"Longer output loses its middle. Default: 30000.\"}},"
                           "\"required\":[\"sandbox_id\",\"command\"],\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"exit_code\":{\"type\":\"integer\"},\"duration_ms\":{"
                           "\"type\":\"integer\"},\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"
                           "\"timed_out\":{\"type\":\"boolean\"},\"truncated\":{\"type\":\"boolean\"}},\"required\":["
                           "\"exit_code\",\"duration_ms\",\"stdout\",\"stderr\",\"timed_out\",\"truncated\"]}",
                 .run = work_start},
        .work = run,
        .is_long = true,
};

/* ---- in the background ---- */

static void start(struct work *w)
{
        AUTO_FREE struct sg_pair *env = NULL;
        struct sg_command *command = NULL;
        struct sg_sandbox *box;
        struct sg_command_options opt = {.cwd = arg_text(w->args, "cwd", NULL),
                                         .user = arg_text(w->args, "user", NULL),
                                         .timeout_ms = SG_NO_TIMEOUT};
        struct sg_error err;

        if (pairs_of(json_object_get(w->args, "env"), &env) < 0) {
                work_failed(w, "out of memory");
                return;
        }
        opt.env = env;
        opt.has_input = arg_flag(w->args, "keeps_input");
        box = work_open(w);
        if (!box)
                return;
        if (sg_command_start(box, arg_text(w->args, "command", ""), &opt, &start_wait, &command, &err) < 0)
                work_error(w, &err);
        else {
                w->pid = sg_command_pid(command);
                started_note(w->platform->started, work_id(w), sg_command_pid(command));
                work_textf(w, json_pack("{s:I}", "pid", (json_int_t)sg_command_pid(command)),
                           "Started as process %u. read_command shows its output.", sg_command_pid(command));
        }
        sg_command_free(command);
        sg_sandbox_free(box);
}

const struct platform_tool platform_start_command = {
        .tool = {.name = "start_command",
                 .title = "Start a command in the background",
                 .description = "Start a command that runs on by itself in a sandbox, for example a server. Returns "
                                "the number of its process for read_command, write_command and kill_command.",
                 .hints = TOOL_DESTROYS | TOOL_REACHES_OUT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_COMMAND
                           ",\"keeps_input\":{\"type\":\"boolean\",\"description\":\"The command reads what "
                           "write_command sends.\"}},\"required\":[\"sandbox_id\",\"command\"],"
                           "\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"pid\":{\"type\":\"integer\"}},\"required\":["
                           "\"pid\"]}",
                 .run = work_start},
        .work = start,
};

static bool is_running(struct work *w, struct sg_sandbox *box, uint32_t pid, struct sg_error *err)
{
        struct sg_process_list *found = NULL;
        bool is = false;

        err->kind = SG_OK;
        if (sg_process_list(box, &w->wait, &found, err) < 0)
                return false;
        for (size_t i = 0; i < found->count; i++)
                is = is || found->items[i].pid == pid;
        sg_free(found);
        return is;
}

/* end NULL: it runs, or nobody knows how it ended. */
static void add_state(struct work *w, struct buf *text, json_t *facts, uint32_t pid, bool runs,
                      const struct sg_result *end, bool is_seen)
{
        struct started_time t = started_look(w->platform->started, work_id(w), pid, !runs, is_seen);

        (void)buf_addf(text, "[process %u %s", pid, runs ? "runs" : "has ended");
        if (end)
                (void)buf_addf(text, ", exit code %d", end->exit_code);
        if (t.is_known)
                (void)buf_addf(text, ", %s%.3f s", runs ? "for " : t.is_exact ? "" : "at most ", (double)t.us / 1e6);
        (void)json_object_set_new(facts, "exit_code", end ? json_integer(end->exit_code) : json_null());
        (void)json_object_set_new(facts, "duration_ms",
                                  t.is_known ? json_integer((json_int_t)(t.us / 1000)) : json_null());
        (void)json_object_set_new(facts, "duration_is_exact", json_boolean(t.is_known && (runs || t.is_exact)));
}

static void answer_kept(struct work *w, const struct output *o, uint32_t pid, bool runs, const struct sg_result *end,
                        bool is_seen)
{
        AUTO_BUF struct buf out = BUF_INIT(16u << 20), err = BUF_INIT(16u << 20), text = BUF_INIT(40u << 20);
        uint64_t next = o->at > o->from ? o->at : o->from;
        json_t *facts;

        if (shortened_text(&o->out, &out) < 0 || shortened_text(&o->err, &err) < 0) {
                work_failed(w, "the output is too long");
                return;
        }
        facts = json_pack("{s:I,s:b,s:s%,s:s%,s:b,s:I}", "pid", (json_int_t)pid, "running", runs, "stdout", chars(&out),
                          out.len, "stderr", chars(&err), err.len, "truncated",
                          shortened_is_cut(&o->out) || shortened_is_cut(&o->err) || o->lost, "next", (json_int_t)next);
        if (o->lost)
                (void)buf_addf(&text, "[%llu bytes are not kept any more]\n", (unsigned long long)o->lost);
        add_part(&text, "", &out);
        add_part(&text, "[stderr]\n", &err);
        add_state(w, &text, facts, pid, runs, end, is_seen);
        (void)buf_addf(&text, "; read on from %llu]", (unsigned long long)next);
        work_text(w, (struct str){chars(&text), text.len}, facts);
}

/* What is kept, and of one that has ended its end; with wait_s what follows, too.  *ret_end: NULL where it runs still. */
static int read_kept(struct work *w, struct sg_sandbox *box, uint32_t pid, uint32_t wait_s, bool runs, struct output *o,
                     struct sg_result **ret_end, struct sg_error *err)
{
        const struct sg_command_options opt = {
                .on_stdout = on_stdout, .on_stderr = on_stderr, .on_lost = on_lost, .arg = o};
        bool is_to_the_end = wait_s || !runs;
        struct sg_command *command = NULL;
        int r = sg_command_attach(box, pid, is_to_the_end ? SG_FROM_KEPT : SG_KEPT_ONLY, &opt, &w->wait, &command, err);

        if (r == 0) {
                w->wait.timeout_ms = runs ? wait_s * 1000 : START_MS;
                r = sg_command_wait(command, &w->wait, is_to_the_end ? ret_end : NULL, err);
                w->wait.timeout_ms = 0;
        }
        sg_command_free(command);
        return r < 0 && wait_s && err->kind == SG_TIMEOUT ? 0 : r;
}

static void read_output(struct work *w)
{
        uint32_t pid = (uint32_t)arg_number(w->args, "pid", 0), wait_s = (uint32_t)arg_number(w->args, "wait_s", 0);
        struct sg_sandbox *box = work_open(w);
        struct sg_result *end = NULL;
        struct output o;
        struct sg_error err = {0};
        bool runs;

        if (!box)
                return;
        output_init(&o, w);
        runs = is_running(w, box, pid, &err);
        if (err.kind != SG_OK || read_kept(w, box, pid, wait_s, runs, &o, &end, &err) < 0)
                work_error(w, &err);
        else
                answer_kept(w, &o, pid, runs && !end, end, runs);
        sg_free(end);
        output_done(&o);
        sg_sandbox_free(box);
}

#define SCHEMA_PID                                                                                                     \
        "\"pid\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295,\"description\":\"As start_command or "    \
        "list_commands says.\"}"

const struct platform_tool platform_read_command = {
        .tool = {.name = "read_command",
                 .title = "Read the output of a background command",
                 .description = "Return the output of a background command, as far as it is kept, from a byte on. Says "
                                "whether the command runs, its exit code, how long it took, and where to read on.",
                 .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_PID
                           ",\"from\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9007199254740991,"
                           "\"description\":\"Leave out so many bytes of the output, stdout and stderr together: "
                           "`next` of the "
                           "last answer. Default: 0.\"}"
                           ",\"wait_s\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":3600,\"description\":\"Wait so "
                           "long for its end, with its output as progress. Default: 0.\"},"
                           "\"max_output_bytes\":{\"type\":\"integer\",\"minimum\":1000,\"maximum\":4000000,"
                           "\"description\":\"Longer output loses its middle. Default: 30000.\"}},"
                           "\"required\":[\"sandbox_id\",\"pid\"],\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"pid\":{\"type\":\"integer\"},\"running\":{\"type\":"
                           "\"boolean\"},\"exit_code\":{\"type\":[\"integer\",\"null\"]},\"duration_ms\":{\"type\":["
                           "\"integer\",\"null\"]},\"duration_is_exact\":{\"type\":\"boolean\"},"
                           "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"
                           "\"truncated\":{\"type\":\"boolean\"},\"next\":{\"type\":\"integer\"}},"
                           "\"required\":[\"pid\",\"running\",\"exit_code\",\"duration_ms\",\"duration_is_exact\","
                           "\"stdout\",\"stderr\",\"truncated\",\"next\"]}",
                 .run = work_start},
        .work = read_output,
};

static void write_input(struct work *w)
{
        uint32_t pid = (uint32_t)arg_number(w->args, "pid", 0);
        const char *input = arg_text(w->args, "input", "");
        struct sg_sandbox *box = work_open(w);
        struct sg_error err;

        if (!box)
                return;
        if (sg_process_send(box, pid, false, input, strlen(input), &w->wait, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Written: %zu bytes.", strlen(input));
        sg_sandbox_free(box);
}

const struct platform_tool platform_write_command = {
        .tool = {.name = "write_command",
                 .title = "Write to a background command",
                 .description = "Send text to the standard input of a command that was started with keeps_input.",
                 .hints = TOOL_DESTROYS,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_PID
                           ",\"input\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4000000,\"description\":"
                           "\"The text, with a line end where the command needs one.\"}},"
                           "\"required\":[\"sandbox_id\",\"pid\",\"input\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = write_input,
};

static void kill_command(struct work *w)
{
        uint32_t pid = (uint32_t)arg_number(w->args, "pid", 0);
        const char *name = arg_text(w->args, "signal", "SIGTERM");
        struct sg_sandbox *box = work_open(w);
        struct sg_error err;

        if (!box)
                return;
        if (work_signal_all(box, pid, strcmp(name, "SIGKILL") == 0 ? SIGKILL : SIGTERM, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "%s sent to process %u.", name, pid);
        sg_sandbox_free(box);
}

const struct platform_tool platform_kill_command = {
        .tool = {.name = "kill_command",
                 .title = "End a background command",
                 .description = "Send a signal to a command in a sandbox and all that it has started.",
                 .hints = TOOL_DESTROYS | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_PID
                           ",\"signal\":{\"type\":\"string\",\"enum\":[\"SIGTERM\",\"SIGKILL\"],\"description\":"
                           "\"Default: SIGTERM.\"}},\"required\":[\"sandbox_id\",\"pid\"],"
                           "\"additionalProperties\":false}",
                 .run = work_start},
        .work = kill_command,
};

static void list_commands(struct work *w)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);
        struct sg_sandbox *box = work_open(w);
        struct sg_process_list *found = NULL;
        json_t *array;
        struct sg_error err;

        if (!box)
                return;
        if (sg_process_list(box, &w->wait, &found, &err) < 0) {
                work_error(w, &err);
                sg_sandbox_free(box);
                return;
        }
        array = json_array();
        for (size_t i = 0; i < found->count; i++) {
                const struct sg_process *p = &found->items[i];
                AUTO_BUF struct buf line = BUF_INIT(64u << 10);

                (void)buf_addc(&line, p->command);
                for (const char *const *arg = p->args; *arg; arg++)
                        (void)buf_addf(&line, " %s", *arg);
                (void)buf_addf(&text, "%u  %s\n", p->pid, buf_cstr(&line));
                (void)json_array_append_new(
                        array, json_pack("{s:I,s:s}", "pid", (json_int_t)p->pid, "command", buf_cstr(&line)));
        }
        if (found->count == 0)
                (void)buf_addc(&text, "No commands.");
        sg_free(found);
        sg_sandbox_free(box);
        work_text(w, (struct str){chars(&text), text.len}, json_pack("{s:o}", "commands", array));
}

const struct platform_tool platform_list_commands = {
        .tool = {.name = "list_commands",
                 .title = "List the commands of a sandbox",
                 .description = "List the commands that run in a sandbox, also those of other clients.",
                 .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
                 .schema = SCHEMA_ONLY_ID,
                 .output = "{\"type\":\"object\",\"properties\":{\"commands\":{\"type\":\"array\",\"items\":{\"type\":"
                           "\"object\"}}},\"required\":[\"commands\"]}",
                 .run = work_start},
        .work = list_commands,
};
