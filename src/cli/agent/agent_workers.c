#include "cli/agent/agent_workers.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/patience.h"

#define COMMAND_S 300u /* a command that says nothing else; agent.mjs tells it */
#define COMMAND_MAX_S 86400

struct collected {
        struct buf text;
        uint64_t left_out; /* bytes after the text */
        bool is_more;      /* and some that were not counted */
};

bool agent_workers_asks(const json_t *message)
{
        const char *type = json_string_value(json_object_get(message, "type")),
                   *event = json_string_value(json_object_get(message, "event"));

        return type && event && strcmp(type, "sandglass") == 0 && strcmp(event, "worker") == 0;
}

/* As many whole characters as fit. */
static size_t beginning(const char *text, size_t len, size_t room)
{
        if (len <= room)
                return len;
        while (room && ((unsigned char)text[room] & 0xc0) == 0x80)
                room--;
        return room;
}

static int collect(const struct sg_message *line, void *arg)
{
        struct collected *c = arg;
        size_t n = c->left_out ? 0 : beginning(line->text, line->len, buf_room(&c->text));

        c->is_more = c->is_more || line->is_cut;
        if (n && buf_add(&c->text, line->text, n) < 0)
                return -ENOMEM;
        if (n < line->len || c->left_out || buf_addc(&c->text, "\n") < 0)
                c->left_out += line->len - n + 1;
        return 0;
}

/* What is missing in the answer, in words. */
static int add_note(json_t *answer, const struct collected *c)
{
        if (!c->left_out && !c->is_more)
                return 0;
        return json_object_set_new(
                answer, "note",
                json_sprintf("%s%" PRIu64 " bytes more are left out", c->is_more ? "at least " : "", c->left_out));
}

/* How long a command may take: a whole number of seconds, else the usual. */
static uint32_t seconds_of(const json_t *message)
{
        json_int_t s = json_integer_value(json_object_get(message, "timeout"));

        return s < 1 ? COMMAND_S : s > COMMAND_MAX_S ? COMMAND_MAX_S : (uint32_t)s;
}

/* The time limit of a command does not count what the first use of a worker takes: a template may have to be built. */
static int make_worker(struct agent_workers *w, const char *worker, const struct sg_call *call, struct sg_error *why)
{
        const struct sg_program nothing = {.argv = (const char *[]){"true", NULL}, .worker = worker};
        int r;

        if (sg_runner_mode(w->runner) != SG_MODE_HYBRID || sg_runner_sandbox(w->runner, worker))
                return 0;
        do {
                r = sg_runner_run(w->runner, &nothing, call, NULL, why);
        } while (r < 0 && w->patience && patience_wait(w->patience, why));
        return r;
}

static json_t *run(struct agent_workers *w, const char *worker, const char *command, uint32_t limit_s,
                   const struct sg_call *call)
{
        struct collected c = {.text = BUF_INIT(AGENT_OUTPUT_MAX)};
        const struct sg_program program = {.argv = (const char *[]){"bash", "-lc", command, NULL},
                                           .worker = worker,
                                           .on_message = collect,
                                           .arg = &c};
        struct sg_call limited = *call;
        bool is_ours = !call->timeout_ms || limit_s * 1000u < call->timeout_ms;
        struct sg_program_end end;
        struct sg_error err = {0};
        json_t *answer;

        if (is_ours)
                limited.timeout_ms = limit_s * 1000u;
        if (make_worker(w, worker, call, &err) < 0)
                answer = json_pack("{s:s}", "error", err.message);
        else if (sg_runner_run(w->runner, &program, &limited, &end, &err) == 0)
                answer = json_pack("{s:i}", "exitCode", end.exit_code);
        else if (err.kind == SG_TIMEOUT && is_ours)
                answer = json_pack("{s:o}", "error",
                                   json_sprintf("the command took longer than %u s, and was ended", limit_s));
        else
                answer = json_pack("{s:s}", "error", err.message);
        if (add_note(answer, &c) < 0 ||
            json_object_set_new(answer, "output",
                                json_stringn(c.text.len ? (const char *)buf_at(&c.text) : "", c.text.len)) < 0) {
                json_decref(answer);
                answer = NULL;
        }
        buf_done(&c.text);
        return answer;
}

/* ---- what the script reads ---- */

void agent_workers_done(struct agent_workers *w)
{
        buf_done(&w->unread);
}

int agent_workers_flush(struct agent_workers *w)
{
        while (w->unread.len > 0) {
                ssize_t n = buf_drain(&w->unread, w->answers);

                if (n == -EAGAIN)
                        return 0;
                if (n < 0 && n != -EINTR)
                        return (int)n;
        }
        return 0;
}

int agent_workers_send(struct agent_workers *w, const char *line)
{
        int r = buf_addc(&w->unread, line);

        if (r == 0)
                r = buf_addc(&w->unread, "\n");
        return r < 0 ? r : agent_workers_flush(w);
}

static int send_answer(struct agent_workers *w, const json_t *answer)
{
        AUTO_FREE char *text = json_dumps(answer, JSON_COMPACT);

        return text ? agent_workers_send(w, text) : -ENOMEM;
}

int agent_workers_serve(struct agent_workers *w, const json_t *message, const struct sg_call *call)
{
        const char *worker = json_string_value(json_object_get(message, "worker")),
                   *command = json_string_value(json_object_get(message, "command"));
        json_t *id = json_object_get(message, "id"), *answer;
        int r;

        if (w->answers < 0 || !json_is_integer(id))
                return 0; /* no request of ours */
        answer = worker && command ? run(w, worker, command, seconds_of(message), call)
                                   : json_pack("{s:s}", "error", "worker and command must be texts");
        if (!answer || json_object_set(answer, "id", id) < 0) {
                json_decref(answer);
                return -ENOMEM;
        }
        r = send_answer(w, answer);
        json_decref(answer);
        return r;
}
