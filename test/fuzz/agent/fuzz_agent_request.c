/* Requests of the agent API, and what the role reads out of sandboxes.  The first byte says which. */
#include <jansson.h>

#include "agent/output/command_output.h"
#include "agent/output/text.h"
#include "agent/request/accept.h"
#include "agent/request/code_request.h"
#include "agent/request/command_request.h"
#include "agent/request/file_request.h"
#include "agent/request/list_query.h"
#include "agent/request/listening.h"
#include "agent/request/sandbox_request.h"
#include "agent/request/services.h"
#include "base/err.h"
#include "fuzz.h"

static void error_must_name_something(const struct err *err)
{
        MUST((err->kind == ERR_INVALID || err->kind == ERR_INTERNAL) && err->msg[0]);
}

static void bodies_must_hold(const json_t *body)
{
        int (*const simple[])(const json_t *, json_t **, struct err *) = {pause_request_decode,
                                                                          snapshot_request_decode};
        struct command_request command;
        struct stdin_request input;
        struct file_request file;
        struct err err = {0};
        json_t *to = NULL;
        uint32_t timeout_s;
        bool is_named;

        if (sandbox_request_decode(body, 3600, &to, &is_named, &err) == 0) {
                MUST(json_integer_value(json_object_get(to, "timeout")) > 0 &&
                     json_integer_value(json_object_get(to, "timeout")) <= 3600);
                json_decref(to);
        } else {
                error_must_name_something(&err);
        }
        if (command_request_decode(body, &command, &err) == 0)
                MUST(command.command && command.command[0] && (!command.cwd || command.cwd[0] == '/'));
        if (stdin_request_decode(body, &input, &err) == 0)
                MUST(input.data || input.closes);
        if (file_request_decode(body, &file, &err) == 0) {
                MUST(file.path && file.path[0] && file.content.p);
                file_request_done(&file);
        }
        if (code_request_decode(body, &to, &timeout_s, &err) == 0) {
                MUST(timeout_s >= 1 && timeout_s <= CODE_TIMEOUT_MAX_S);
                json_decref(to);
        }
        for (size_t i = 0; i < ARRAY_LEN(simple); i++)
                if (simple[i](body, &to, &err) == 0)
                        json_decref(to);
        if (timeout_request_decode(body, true, &to, &err) == 0)
                json_decref(to);
        if (fork_request_decode(body, 3600, &to, &err) == 0)
                json_decref(to);
        if (resume_request_decode(body, 3600, &to, &err) == 0)
                json_decref(to);
}

static void services_must_hold(const json_t *file)
{
        static struct services s;
        struct err err = {0};
        json_t *shown;

        if (services_decode(file, &s, &err) < 0) {
                error_must_name_something(&err);
                MUST(s.count == 0);
                return;
        }
        MUST(s.count <= SERVICES_MAX);
        services_make_tokens(&s);
        for (size_t i = 0; i < s.count; i++)
                MUST(s.all[i].name[0] && s.all[i].port && s.all[i].path[0] == '/' &&
                     (!s.all[i].token[0] || s.all[i].token_file[0] == '/'));
        shown = services_show(json_object(), &s, "iabc", "box.test");
        MUST(shown);
        json_decref(shown);
}

static bool take_any(void *arg, size_t bytes)
{
        *(size_t *)arg += bytes;
        return true;
}

/* In as few bytes of JSON as are asked for, and the line that says what is left out. */
static void output_must_fit(struct command_output *o, size_t json_max)
{
        json_t *v;

        command_output_fit(o, json_max);
        v = command_output_text(o);
        MUST(v && str_is_utf8((struct str){json_string_value(v), json_string_length(v)}));
        MUST(json_dumpb(v, NULL, 0, JSON_ENCODE_ANY) <= json_max + 64);
        json_decref(v);
}

static void output_must_be_text(struct str bytes)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);
        struct text_decoder d = {0};
        struct command_output o;
        size_t taken = 0, half = bytes.n / 2;
        json_t *v;

        MUST(text_add(&d, (struct str){bytes.p, half}, &text) == 0);
        MUST(text_add(&d, (struct str){bytes.p + half, bytes.n - half}, &text) == 0 && text_end(&d, &text) == 0);
        MUST(str_is_utf8((struct str){text.len ? (const char *)buf_at(&text) : "", text.len}));
        command_output_init(&o, take_any, &taken);
        command_output_add(&o, bytes);
        v = command_output_text(&o);
        MUST(v && str_is_utf8((struct str){json_string_value(v), json_string_length(v)}));
        json_decref(v);
        MUST(taken >= bytes.n && command_output_omitted(&o) == 0);
        output_must_fit(&o, 16);
        output_must_fit(&o, bytes.n);
        command_output_done(&o);
}

static void ports_must_hold(struct str text)
{
        static struct listening_port ports[LISTENING_MAX];
        size_t n = listening_parse(text, ports);

        MUST(n <= LISTENING_MAX);
        for (size_t i = 0; i < n; i++)
                MUST(ports[i].port > 0 && (i == 0 || ports[i - 1].port < ports[i].port));
}

static void target_must_hold(const struct buf *part)
{
        for (size_t i = 0; i < part->len; i++) /* it becomes part of a request's target */
                MUST(buf_at(part)[i] > ' ' && buf_at(part)[i] < 0x7f);
}

static void query_must_hold(struct str query)
{
        struct list_query q;
        struct err err = {0};

        if (list_query_decode(query, &q, &err) < 0) {
                error_must_name_something(&err);
                return;
        }
        MUST(q.limit > 0 && (q.wants_live || q.wants_stopped));
        target_must_hold(&q.live);
        target_must_hold(&q.stopped);
        list_query_done(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *copy = fuzz_copy(data, size);
        struct str rest = {(const char *)copy + 1, size ? size - 1 : 0};
        json_t *json = size ? json_loadb(rest.p, rest.n, JSON_ALLOW_NUL, NULL) : NULL, *answer = NULL;
        struct err err = {0};

        switch (size ? copy[0] : 0) {
        case 'b':
                if (json_is_object(json))
                        bodies_must_hold(json);
                break;
        case 's': services_must_hold(json); break;
        case 'o': output_must_be_text(rest); break;
        case 'p': ports_must_hold(rest); break;
        case 'q': query_must_hold(rest); break;
        case 'a': (void)accept_is_json(rest); break;
        case 'c':
                if (code_answer_decode(rest, &answer, &err) == 0)
                        json_decref(answer);
                else
                        error_must_name_something(&err);
                break;
        default: break;
        }
        json_decref(json);
        free(copy);
        return 0;
}
