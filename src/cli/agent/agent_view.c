#include "cli/agent/agent_view.h"

#include <string.h>

#include "base/auto.h"

#define RESULT_LINES_MAX 8u /* of what a tool answered */
#define INPUT_BYTES_MAX 160u
#define NOT_LOGGED_IN "Not logged in"

static const char *text_of(const json_t *object, const char *key) /* "": there is none */
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

/* Without control characters, but for tabs; also without those beyond ASCII (U+0080 to U+009F). */
static void put_clean(FILE *to, const char *text, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char)text[i], next = i + 1 < n ? (unsigned char)text[i + 1] : 0;

                if ((c < 0x20 && c != '\t') || c == 0x7f)
                        continue;
                if (c == 0xc2 && next >= 0x80 && next < 0xa0)
                        i++;
                else
                        (void)fputc(c, to);
        }
}

/* Each line behind `indent`; at most `lines_max` of them (0: all). */
static void put_lines(FILE *to, const char *indent, const char *text, unsigned lines_max)
{
        unsigned lines = 0;

        while (*text) {
                size_t n = strcspn(text, "\n");

                if (lines_max && lines++ == lines_max) {
                        (void)fprintf(to, "%s...\n", indent);
                        return;
                }
                (void)fputs(indent, to);
                put_clean(to, text, n);
                (void)fputc('\n', to);
                text += n + (text[n] == '\n');
        }
}

/* The argument that says most, else all of them. */
static void put_input(FILE *to, const json_t *input)
{
        static const char *const telling[] = {"command", "file_path", "path", "pattern", "url", "query", "prompt"};
        AUTO_FREE char *all = NULL;
        const char *text = "";
        size_t n;

        for (size_t i = 0; i < ARRAY_LEN(telling) && !*text; i++)
                text = text_of(input, telling[i]);
        if (!*text && json_object_size(input) > 0)
                text = all = json_dumps(input, JSON_COMPACT);
        if (!text)
                return;
        n = strcspn(text, "\n");
        if (n > INPUT_BYTES_MAX)
                for (n = INPUT_BYTES_MAX; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80;)
                        n--; /* whole characters */
        put_clean(to, text, n);
        if (text[n])
                (void)fputs(" ...", to);
}

static void show_tool(struct agent_view *v, const json_t *part)
{
        const char *name = text_of(part, "name");

        (void)fputs("> ", v->out);
        put_clean(v->out, name, strlen(name));
        (void)fputc(' ', v->out);
        put_input(v->out, json_object_get(part, "input"));
        (void)fputc('\n', v->out);
}

/* Text, or an array with texts. */
static void show_tool_result(struct agent_view *v, const json_t *part)
{
        const json_t *content = json_object_get(part, "content");
        const char *indent = json_is_true(json_object_get(part, "is_error")) ? "  ! " : "  | ";
        const json_t *item;
        size_t i;

        if (json_is_string(content))
                put_lines(v->out, indent, json_string_value(content), RESULT_LINES_MAX);
        json_array_foreach ((json_t *)content, i, item)
                put_lines(v->out, indent, text_of(item, "text"), RESULT_LINES_MAX);
}

static void show_content(struct agent_view *v, const json_t *message)
{
        const json_t *part;
        size_t i;

        json_array_foreach (json_object_get(json_object_get(message, "message"), "content"), i, part) {
                const char *type = text_of(part, "type");

                if (strcmp(type, "text") == 0 && strcmp(text_of(message, "type"), "assistant") == 0)
                        put_lines(v->out, "", text_of(part, "text"), 0);
                else if (strcmp(type, "tool_use") == 0)
                        show_tool(v, part);
                else if (strcmp(type, "tool_result") == 0)
                        show_tool_result(v, part);
        }
}

static void note_failure(struct agent_view *v, const char *why)
{
        v->has_failed = true;
        if (!v->failure[0]) /* the first one says most */
                (void)snprintf(v->failure, sizeof(v->failure), "%s", why);
}

/* The SDK has told "Not logged in" as a success. */
static void take_result(struct agent_view *v, const json_t *message)
{
        const char *result = text_of(message, "result"), *subtype = text_of(message, "subtype");
        bool is_login = strncmp(result, NOT_LOGGED_IN, strlen(NOT_LOGGED_IN)) == 0;

        v->has_result = true;
        if (is_login)
                note_failure(v, "the agent is not logged in: set ANTHROPIC_API_KEY");
        else if (strcmp(subtype, "success") != 0 || json_is_true(json_object_get(message, "is_error")))
                note_failure(v, *result ? result : subtype);
}

static void show_result(const struct agent_view *v, const json_t *message)
{
        double ms = json_number_value(json_object_get(message, "duration_ms")),
               cost = json_number_value(json_object_get(message, "total_cost_usd"));
        json_int_t turns = json_integer_value(json_object_get(message, "num_turns"));

        (void)fprintf(v->notes, "sandglass agent: %s after %.1f s, %lld turn%s, $%.4f\n",
                      v->has_failed ? "failed" : "done", ms / 1e3, (long long)turns, turns == 1 ? "" : "s", cost);
}

static void take_session(struct agent_view *v, const json_t *message)
{
        const char *session = text_of(message, "session_id");

        if (strlen(session) <= AGENT_SESSION_MAX && session[strspn(session, "0123456789abcdefABCDEF-")] == 0)
                (void)snprintf(v->session, sizeof(v->session), "%s", session);
}

static void show_ours(struct agent_view *v, const json_t *message)
{
        const char *event = text_of(message, "event"), *text = text_of(message, "text");

        if (strcmp(event, "error") == 0)
                note_failure(v, text);
        else if (strcmp(event, "progress") == 0)
                put_lines(v->notes, "sandglass agent: ", text, 0);
}

void agent_view_show(struct agent_view *v, const json_t *message)
{
        const char *type = text_of(message, "type");

        if (strcmp(type, "system") == 0 && strcmp(text_of(message, "subtype"), "init") == 0)
                take_session(v, message);
        else if (strcmp(type, "result") == 0) {
                take_result(v, message);
                if (!v->is_json)
                        show_result(v, message);
        } else if (strcmp(type, "sandglass") == 0)
                show_ours(v, message);
        else if (!v->is_json && (strcmp(type, "assistant") == 0 || strcmp(type, "user") == 0))
                show_content(v, message);
        if (!v->is_json)
                (void)fflush(v->out);
}

void agent_view_text(struct agent_view *v, const char *text)
{
        put_lines(v->notes, "  ", text, 0);
}

void agent_view_json(struct agent_view *v, const json_t *message)
{
        AUTO_FREE char *text = json_dumps(message, JSON_COMPACT | JSON_ENSURE_ASCII);

        if (!text)
                return;
        for (const char *at = text; *at; at++)
                if (*at == 0x7f) /* ASCII, and in JSON only within a string */
                        (void)fputs("\\u007f", v->out);
                else
                        (void)fputc(*at, v->out);
        (void)fputc('\n', v->out);
}
