#include "cli/agent/agent_workers.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"

#define ANSWER_MAX (8 * AGENT_OUTPUT_MAX) /* escapes make it longer */
#define COMMAND_S 300u                    /* a command that says nothing else; agent.mjs tells it */
#define COMMAND_MAX_S 86400

struct collected {
        struct buf text;
        bool is_cut;
};

bool agent_workers_asks(const json_t *message)
{
        const char *type = json_string_value(json_object_get(message, "type")),
                   *event = json_string_value(json_object_get(message, "event"));

        return type && event && strcmp(type, "sandglass") == 0 && strcmp(event, "worker") == 0;
}

static int collect(const struct sg_message *line, void *arg)
{
        struct collected *c = arg;

        if (line->is_cut || c->is_cut || buf_room(&c->text) < line->len + 1 ||
            buf_add(&c->text, line->text, line->len) < 0 || buf_addc(&c->text, "\n") < 0)
                c->is_cut = true;
        return 0;
}

/* How long a command may take: a whole number of seconds, else the usual. */
static uint32_t seconds_of(const json_t *message)
{
        json_int_t s = json_integer_value(json_object_get(message, "timeout"));

        return s < 1 ? COMMAND_S : s > COMMAND_MAX_S ? COMMAND_MAX_S : (uint32_t)s;
}

static json_t *run(struct agent_workers *w, const char *worker, const char *command, uint32_t limit_s,
                   const struct sg_call *call)
{
        struct collected c = {.text = BUF_INIT(AGENT_OUTPUT_MAX)};
        const struct sg_program program = {.argv = (const char *[]){"bash", "-lc", command, NULL},
                                           .worker = worker,
                                           .on_message = collect,
                                           .arg = &c,
                                           .line_max = AGENT_OUTPUT_MAX};
        struct sg_call limited = *call;
        bool is_ours = !call->timeout_ms || limit_s * 1000u < call->timeout_ms;
        struct sg_program_end end;
        struct sg_error err = {0};
        json_t *answer;

        if (is_ours)
                limited.timeout_ms = limit_s * 1000u;
        if (sg_runner_run(w->runner, &program, &limited, &end, &err) == 0)
                answer = json_pack("{s:i, s:b}", "exitCode", end.exit_code, "isCut", c.is_cut);
        else if (err.kind == SG_TIMEOUT && is_ours)
                answer = json_pack("{s:o}", "error",
                                   json_sprintf("the command took longer than %u s, and was ended", limit_s));
        else
                answer = json_pack("{s:s}", "error", err.message);
        if (json_object_set_new(answer, "output",
                                json_stringn(c.text.len ? (const char *)buf_at(&c.text) : "", c.text.len)) < 0) {
                json_decref(answer);
                answer = NULL;
        }
        buf_done(&c.text);
        return answer;
}

/* In one piece: the pipe has room for several answers, and a script that lets them pile up does not work any more. */
static int send_line(int fd, const json_t *answer)
{
        AUTO_FREE char *text = json_dumps(answer, JSON_COMPACT);
        AUTO_BUF struct buf line = BUF_INIT(ANSWER_MAX);
        ssize_t n;

        if (!text || buf_addc(&line, text) < 0 || buf_addc(&line, "\n") < 0)
                return -ENOMEM;
        while (line.len > 0) {
                n = buf_drain(&line, fd);
                if (n < 0 && n != -EINTR)
                        return (int)n;
        }
        return 0;
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
        r = send_line(w->answers, answer);
        json_decref(answer);
        return r;
}
