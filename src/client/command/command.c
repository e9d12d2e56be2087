/* Commands from start to end. */
#include "client/command/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/command/tag.h"

#define RECONNECTS_MAX 1000u /* of one command: each snapshot of its sandbox cuts the stream */
#define COMMAND_MAX (8u << 20)
#define PATH_MAX_BYTES 4096u
#define TAG_MAX 256u
#define KILL_MS 2000u
#define HASTY_MS 5000u /* after a reconnect: what is cut by then is not connected again at once */

/* ---- what is asked for ---- */

static int check_options(const struct sg_command_options *o, struct sg_error *err)
{
        int ways = (o->input != NULL) + o->reads_fd + o->has_input;
        int r = check_reserved(o->reserved, ARRAY_LEN(o->reserved), err);

        if (r == 0)
                r = check_pairs(o->env, "env", err);
        if (r == 0 && o->cwd)
                r = check_text(o->cwd, "cwd", PATH_MAX_BYTES, err);
        if (r == 0 && o->tag)
                r = check_text(o->tag, "tag", TAG_MAX, err);
        if (r == 0)
                r = check_bytes(o->input, o->input_len, "input", err);
        if (r == 0 && ways > 1)
                r = error_set(err, SG_INVALID, "input, reads_fd, has_input: at most one of them");
        if (r == 0 && o->reads_fd && o->input_fd < 0)
                r = error_set(err, SG_INVALID, "input_fd: %d is no file descriptor", o->input_fd);
        if (r == 0 && o->input && o->has_terminal)
                r = error_set(err, SG_INVALID, "a terminal has no end of input: use sg_command_send()");
        return r;
}

static json_t *env_json(const struct sg_command_options *o)
{
        json_t *env = json_object();
        int r = env ? 0 : -1;

        if (o->has_terminal)
                r |= json_object_set_new(env, "TERM", json_string("xterm-256color")) |
                     json_object_set_new(env, "LANG", json_string("C.UTF-8"));
        for (const struct sg_pair *p = o->env; p && p->name; p++)
                r |= json_object_set_new(env, p->name, json_string(p->value));
        if (r != 0) {
                json_decref(env);
                return NULL;
        }
        return env;
}

static json_t *size_json(uint16_t columns, uint16_t rows)
{
        return json_pack("{s:{s:i, s:i}}", "size", "cols", columns ? columns : 80, "rows", rows ? rows : 24);
}

/* By way of a login shell, as the clients run theirs: so the command has the same environment.  The shell takes the words as
 * they are, and becomes the command. */
static json_t *args_json(const char *command, const char *const *argv)
{
        json_t *args;
        int r = 0;

        if (!command && !argv)
                return json_pack("[s, s]", "-i", "-l");
        if (command)
                return json_pack("[s, s, s]", "-l", "-c", command);
        args = json_pack("[s, s, s, s]", "-l", "-c", "exec -- \"$@\"", "sandglass");
        for (size_t i = 0; args && argv[i]; i++)
                r |= json_array_append_new(args, json_string(argv[i]));
        if (r != 0) {
                json_decref(args);
                return NULL;
        }
        return args;
}

/* NULL: no memory. */
static json_t *start_message(const char *command, const char *const *argv, const struct sg_command_options *o,
                             const char *tag)
{
        json_t *process = json_pack("{s:s, s:o*}", "cmd", "/bin/bash", "args", args_json(command, argv));
        json_t *env = env_json(o), *message;
        bool reads = o->input || o->reads_fd || o->has_input;
        int r = process && env && json_object_get(process, "args") ? 0 : -1;

        if (r == 0 && json_object_size(env))
                r |= json_object_set(process, "envs", env);
        if (r == 0 && o->cwd)
                r |= json_object_set_new(process, "cwd", json_string(o->cwd));
        json_decref(env);
        message = json_pack("{s:o*}", "process", process);
        if (o->has_terminal)
                r |= json_object_set_new(message, "pty", size_json(o->columns, o->rows));
        else
                r |= json_object_set_new(message, "stdin", json_boolean(reads));
        r |= json_object_set_new(message, "tag", json_string(tag));
        if (r != 0) {
                json_decref(message);
                return NULL;
        }
        return message;
}

static int check_words(const char *command, const char *const *argv, struct sg_error *err)
{
        size_t total = 0;
        int r = command ? check_text(command, "the command", COMMAND_MAX, err) : 0;

        if (argv && !argv[0])
                return error_set(err, SG_INVALID, "the command is missing");
        for (size_t i = 0; r == 0 && argv && argv[i]; i++) {
                total += strlen(argv[i]) + 1;
                if (!str_is_utf8(str_of(argv[i])))
                        r = error_set(err, SG_INVALID, "word %zu of the command is not valid UTF-8", i + 1);
                else if (total > COMMAND_MAX)
                        r = error_set(err, SG_INVALID, "the command has more than %u MiB", COMMAND_MAX >> 20);
        }
        return r;
}

/* ---- start, attach ---- */

static int command_create(struct sg_sandbox *box, const struct sg_command_options *o, struct sg_command **ret,
                          struct sg_error *err)
{
        size_t max = o->kept_max ? o->kept_max : SG_OUTPUT_MAX;
        struct sg_command *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return error_no_memory(err);
        stream_prepare(&c->stream, box, command_on_message);
        c->has_terminal = o->has_terminal;
        c->on_stdout = o->on_stdout;
        c->on_stderr = o->on_stderr;
        c->on_lost = o->on_lost;
        c->arg = o->arg;
        c->out.bytes = BUF_INIT(max);
        c->err.bytes = BUF_INIT(max);
        r = command_input_init(c, o, err);
        if (r < 0)
                sg_command_free(c);
        else
                *ret = c;
        return r;
}

void sg_command_free(struct sg_command *command)
{
        if (!command)
                return;
        command_input_done(command);
        stream_close(&command->stream);
        buf_done(&command->out.bytes);
        buf_done(&command->err.bytes);
        free(command->message);
        free(command);
}

static int command_begin(struct sg_command *c, const struct stream_open *open, struct limit *l, struct sg_error *err)
{
        int r = stream_open_wait(&c->stream, open, l, err);

        if (r == 0 && !c->pid)
                r = error_set(err, SG_INTERNAL, "the stream ended before the command started");
        return r;
}

/* Nothing was heard of the start: has the command started, or may it yet? */
static bool may_have_started(const struct sg_command *c, enum sg_error_kind why)
{
        return c->stream.has_sent && c->stream.state != STREAM_FAILED &&
               (why == SG_TIMEOUT || why == SG_CANCELLED || why == SG_UNAVAILABLE);
}

static int command_open(struct sg_sandbox *box, const char *command, const char *const *argv,
                        const struct sg_command_options *o, uint32_t kill_after_ms, struct limit *l,
                        struct sg_command **ret, struct sg_error *err)
{
        struct stream_open open = {.target = "/process.Process/Start", .user = o->user, .kill_after_ms = kill_after_ms};
        struct sg_command *c = NULL;
        struct sg_error why = {0};
        char tag[TAG_OURS_BYTES];
        bool runs_unknown;
        json_t *message;
        int r = check_options(o, err);

        if (r == 0)
                r = check_words(command, argv, err);
        if (r == 0)
                r = command_create(box, o, &c, err);
        if (r < 0)
                return r;
        tag_make(tag);
        open.message = message = start_message(command, argv, o, o->tag ? o->tag : tag);
        r = message ? command_begin(c, &open, l, &why) : error_no_memory(&why);
        json_decref(message);
        if (r == 0) {
                *ret = c;
                return 0;
        }
        runs_unknown = !o->tag && may_have_started(c, why.kind); /* a tag of the caller may be that of others, too */
        sg_command_free(c);
        if (runs_unknown)
                tag_kill(box, tag);
        return error_pass(err, &why);
}

static const struct sg_command_options usual_options;

static int command_start(struct sg_sandbox *box, const char *command, const char *const *argv,
                         const struct sg_command_options *options, const struct sg_call *call, struct sg_command **ret,
                         struct sg_error *err)
{
        const struct sg_command_options *o = options ? options : &usual_options;
        struct limit l;
        int r = limit_begin(&l, call, box->client->timeout_ms, err);

        if (r < 0)
                return r;
        return command_open(box, command, argv, o, o->timeout_ms == SG_NO_TIMEOUT ? 0 : o->timeout_ms, &l, ret, err);
}

int sg_command_start(struct sg_sandbox *box, const char *command, const struct sg_command_options *options,
                     const struct sg_call *call, struct sg_command **ret, struct sg_error *err)
{
        return command_start(box, command, NULL, options, call, ret, err);
}

int sg_command_start_argv(struct sg_sandbox *box, const char *const *argv, const struct sg_command_options *options,
                          const struct sg_call *call, struct sg_command **ret, struct sg_error *err)
{
        return argv ? command_start(box, NULL, argv, options, call, ret, err)
                    : error_set(err, SG_INVALID, "the command is missing");
}

static json_t *pid_message(uint32_t pid)
{
        return json_pack("{s:{s:I}}", "process", "pid", (json_int_t)pid);
}

int sg_command_attach(struct sg_sandbox *box, uint32_t pid, enum sg_attach_from from,
                      const struct sg_command_options *options, const struct sg_call *call, struct sg_command **ret,
                      struct sg_error *err)
{
        const struct sg_command_options *o = options ? options : &usual_options;
        struct sg_command *c = NULL;
        json_t *message;
        struct limit l;
        int r = check_options(o, err);

        if (r == 0 && !pid)
                r = error_set(err, SG_INVALID, "0 is no process id");
        if (r == 0)
                r = limit_begin(&l, call, box->client->timeout_ms, err);
        if (r == 0)
                r = command_create(box, o, &c, err);
        if (r < 0)
                return r;
        c->is_attached = true;
        c->ends_caught_up = from == SG_KEPT_ONLY;
        message = pid_message(pid);
        r = message ? command_begin(c,
                                    &(struct stream_open){.target = "/process.Process/Connect",
                                                          .replay_from = from == SG_FROM_NOW ? NULL : "0",
                                                          .message = message},
                                    &l, err)
                    : error_no_memory(err);
        json_decref(message);
        if (r < 0)
                sg_command_free(c);
        else
                *ret = c;
        return r;
}

/* ---- waiting ---- */

/* The first time at once.  When the new stream is cut soon as well, with growing pauses. */
static int reconnect_pause(struct sg_command *c, struct limit *l, struct sg_error *err)
{
        uint64_t now = clock_mono_ms(), ms;
        bool is_hasty = c->reconnects && now - c->reconnected_ms < HASTY_MS;

        c->reconnected_ms = now;
        c->hasty = is_hasty ? c->hasty + 1 : 0;
        if (!is_hasty)
                return 0;
        ms = retry_pause_ms(c->hasty - 1, 0);
        return ms < limit_left_ms(l) ? limit_sleep(l, ms, err) : limit_wait_fd(l, -1, err);
}

/* The stream was cut.  A sandbox that goes on (a snapshot or a copy was made of it, an edge ended) has the command, and what
 * the command wrote meanwhile.  1: it cannot be taken up again; negative: the limit came first. */
static int reconnect(struct sg_command *c, struct limit *l, struct sg_error *err)
{
        struct sg_call call = {.cancel = l->call->cancel};
        struct sg_sandbox *box = c->stream.box;
        struct sg_info *now = NULL;
        json_t *message;
        char from[24];
        bool is_there;
        int r;

        if (!c->pid || c->reconnects >= RECONNECTS_MAX)
                return 1;
        r = reconnect_pause(c, l, err);
        if (r < 0)
                return r;
        c->reconnects++;
        call.timeout_ms = limit_left_ms(l);
        if (sg_sandbox_get(box->client, box->id, &call, &now, NULL) < 0)
                return 1;
        is_there = now->state == SG_STATE_RUNNING;
        sg_free(now);
        message = is_there ? pid_message(c->pid) : NULL;
        if (!message)
                return 1;
        (void)snprintf(from, sizeof(from), "%llu", (unsigned long long)c->received);
        r = stream_begin(
                &c->stream,
                &(struct stream_open){.target = "/process.Process/Connect", .replay_from = from, .message = message}, l,
                NULL);
        json_decref(message);
        return r < 0;
}

static int stream_is_lost(struct sg_command *c, struct limit *l, struct sg_error *err)
{
        int r = limit_check(l, err);

        if (r < 0)
                return r;
        r = error_pass(err, &c->stream.why);
        if (err && err->kind == SG_UNAVAILABLE) {
                r = error_wrap(err, "the command's output was cut off");
                r = box_explain(c->stream.box, l, r, err);
        }
        return r;
}

static int stream_has_failed(const struct sg_command *c, struct sg_error *err)
{
        if (c->stream.state == STREAM_FAILED && c->reconnects && c->stream.why.kind == SG_NOT_FOUND)
                return error_set(err, SG_UNAVAILABLE,
                                 "the command is gone: its sandbox was taken back to a snapshot, or was started again");
        if (c->stream.state == STREAM_FAILED)
                return error_pass(err, &c->stream.why);
        return error_set(err, SG_INTERNAL, "the stream ended before the command did");
}

/* 0: ended. */
static int command_wait(struct sg_command *c, struct limit *l, struct sg_error *err)
{
        int r = 0;

        while (r == 0 && !c->has_ended) {
                command_input_watch(c);
                if (c->is_refused) {
                        c->is_refused = false;
                        return error_set(err, SG_CANCELLED, "cancelled by a callback");
                }
                if (c->stream.state == STREAM_CUT)
                        r = reconnect(c, l, err);
                if (r)
                        return r < 0 ? r : stream_is_lost(c, l, err);
                if (c->stream.state == STREAM_FAILED || c->stream.state == STREAM_ENDED)
                        return stream_has_failed(c, err);
                r = stream_wait(&c->stream, l, err);
        }
        return r;
}

int sg_command_wait(struct sg_command *command, const struct sg_call *call, struct sg_result **ret,
                    struct sg_error *err)
{
        struct limit l;
        int r = command->has_ended ? 0 : limit_begin(&l, call, SG_NO_TIMEOUT, err);

        if (r == 0 && !command->has_ended)
                r = command_wait(command, &l, err);
        return r < 0 || !ret ? r : command_result(command, ret, err);
}

int sg_command_poll(struct sg_command *command, struct sg_error *err)
{
        int r = 0;

        if (!command->has_ended && !stream_is_over(&command->stream)) {
                command_input_watch(command);
                r = stream_poll(&command->stream, err);
        }
        if (r < 0)
                return r;
        if (command->is_refused) {
                command->is_refused = false;
                return error_set(err, SG_CANCELLED, "cancelled by a callback");
        }
        return command->has_ended || stream_is_over(&command->stream);
}

int sg_command_fd(const struct sg_command *command)
{
        return loop_fd(command->stream.lane->loop);
}

uint32_t sg_command_pid(const struct sg_command *command)
{
        return command->pid;
}

/* ---- run ---- */

/* Nobody else knows of it. */
static void kill_unwatched(struct sg_command *c)
{
        const struct sg_call call = {.timeout_ms = KILL_MS};

        (void)sg_process_signal(c->stream.box, c->pid, SIGKILL, &call, NULL);
}

static uint32_t run_limit(uint32_t timeout_ms)
{
        return timeout_ms >= SG_NO_TIMEOUT - COMMAND_GRACE_MS ? SG_NO_TIMEOUT : timeout_ms + COMMAND_GRACE_MS;
}

static int run(struct sg_sandbox *box, const char *command, const char *const *argv,
               const struct sg_command_options *options, const struct sg_call *call, struct sg_result **ret,
               struct sg_error *err)
{
        const struct sg_command_options *o = options ? options : &usual_options;
        uint32_t timeout_ms = o->timeout_ms ? o->timeout_ms : COMMAND_TIMEOUT_MS;
        struct sg_error why = {0};
        struct sg_command *c;
        struct limit l;
        int r = limit_begin(&l, call, run_limit(timeout_ms), err);

        if (r == 0)
                r = command_open(box, command, argv, o, timeout_ms == SG_NO_TIMEOUT ? 0 : timeout_ms, &l, &c, err);
        if (r < 0)
                return r;
        r = command_wait(c, &l, &why);
        if (r < 0 && c->stream.state == STREAM_FAILED && why.kind == SG_TIMEOUT)
                r = error_set(err, SG_TIMEOUT, "the command took longer than %g s, and was killed",
                              (double)timeout_ms / 1e3);
        else if (r < 0)
                r = error_pass(err, &why);
        else if (ret)
                r = command_result(c, ret, err);
        if (r < 0 && (why.kind == SG_TIMEOUT || why.kind == SG_CANCELLED))
                kill_unwatched(c);
        sg_command_free(c);
        return r;
}

int sg_run(struct sg_sandbox *box, const char *command, const struct sg_command_options *options,
           const struct sg_call *call, struct sg_result **ret, struct sg_error *err)
{
        return command ? run(box, command, NULL, options, call, ret, err)
                       : error_set(err, SG_INVALID, "the command is missing");
}

int sg_run_argv(struct sg_sandbox *box, const char *const *argv, const struct sg_command_options *options,
                const struct sg_call *call, struct sg_result **ret, struct sg_error *err)
{
        return argv ? run(box, NULL, argv, options, call, ret, err)
                    : error_set(err, SG_INVALID, "the command is missing");
}

/* ---- while it runs ---- */

/* One request with input, from start to end; output goes on meanwhile. */
static int send_one(struct sg_command *c, const void *bytes, size_t n, struct limit *l, struct sg_error *err)
{
        int r = command_input_send(c, bytes, n, err);

        while (r == 0 && c->sending) {
                if (c->stream.state == STREAM_CUT)
                        r = reconnect(c, l, err);
                if (r > 0)
                        r = stream_is_lost(c, l, err);
                else if (r < 0)
                        break;
                else if (stream_is_over(&c->stream) || c->has_ended)
                        r = limit_run(l, c->stream.lane->loop, err);
                else
                        r = stream_wait(&c->stream, l, err);
        }
        if (r < 0) {
                c->sending = http_call_free(c->sending);
                return r;
        }
        return c->sent_why.kind == SG_OK ? 0 : error_pass(err, &c->sent_why);
}

static int input_begin(struct sg_command *c, const struct sg_call *call, struct limit *l, struct sg_error *err)
{
        static const char *const refusals[] = {
                [INPUT_NONE] = "the command was not started with has_input",
                [INPUT_BYTES] = "the command reads the bytes that it was given at its start",
                [INPUT_FD] = "the command reads what comes from input_fd",
                [INPUT_CLOSED] = "the command's input is closed",
        };

        if (c->input_kind != INPUT_OPEN && !(c->input_kind == INPUT_NONE && c->is_attached))
                return error_set(err, SG_INVALID, "%s", refusals[c->input_kind]);
        if (c->has_ended)
                return error_set(err, SG_NOT_FOUND, "the command has ended");
        return limit_begin(l, call, c->stream.box->client->timeout_ms, err);
}

int sg_command_send(struct sg_command *command, const void *bytes, size_t len, const struct sg_call *call,
                    struct sg_error *err)
{
        const uint8_t *at = bytes;
        struct limit l;
        int r = check_bytes(bytes, len, "what is to be sent", err);

        if (r == 0)
                r = input_begin(command, call, &l, err);
        while (r == 0 && len) {
                size_t n = len < INPUT_PIECE ? len : INPUT_PIECE;

                r = send_one(command, at, n, &l, err);
                at += n;
                len -= n;
        }
        return r;
}

int sg_command_close_input(struct sg_command *command, const struct sg_call *call, struct sg_error *err)
{
        struct limit l;
        int r;

        if (command->has_terminal)
                return error_set(err, SG_INVALID, "a terminal has no end of input: send the character 4 (^D)");
        r = input_begin(command, call, &l, err);
        if (r == 0)
                r = send_one(command, NULL, 0, &l, err);
        if (r == 0 && command->input_kind == INPUT_OPEN)
                command->input_kind = INPUT_CLOSED;
        return r;
}

int sg_command_resize(struct sg_command *command, uint16_t columns, uint16_t rows, const struct sg_call *call,
                      struct sg_error *err)
{
        struct sg_sandbox *box = command->stream.box;
        struct limit l;
        int r = limit_begin(&l, call, box->client->timeout_ms, err);

        if (r == 0 && (!columns || !rows))
                r = error_set(err, SG_INVALID, "a terminal has at least one column and one row");
        if (r < 0)
                return r;
        return envd_call(
                box,
                &(struct envd_call){.method = "/process.Process/Update",
                                    .body = json_pack("{s:{s:I}, s:o*}", "process", "pid", (json_int_t)command->pid,
                                                      "pty", size_json(columns, rows)),
                                    .repeats = true},
                &l, NULL, err);
}

int sg_command_signal(struct sg_command *command, int number, const struct sg_call *call, struct sg_error *err)
{
        return sg_process_signal(command->stream.box, command->pid, number, call, err);
}
