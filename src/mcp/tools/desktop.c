#include "mcp/tools/desktop.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/once.h"
#include "mcp/tools/sandbox_tools.h"

#define TYPING_MS_MAX 50u /* for a byte: 12 ms are waited, and a character without a key of its own takes longer */
#define DISPLAY_ENV "DISPLAY=:0"

static const char *const env[] = {DISPLAY_ENV, NULL};

static bool has_desktop(const struct mcp *m)
{
        (void)m;
        return access("/usr/bin/xdotool", X_OK) == 0 && access("/usr/bin/scrot", X_OK) == 0;
}

static struct str words_of(const struct once_output *o)
{
        return o->err.n ? o->err : STR("the desktop is not running");
}

void desktop_took_screenshot(struct call *c, const struct once_output *o)
{
        if (o->is_timed_out)
                tool_failed(c, "no screenshot: the desktop did not answer for %u s", DESKTOP_TIMEOUT_S);
        else if (o->is_cut)
                tool_failed(c, "no screenshot: the picture is larger than %u MiB",
                            (unsigned)(DESKTOP_PICTURE_BYTES_MAX >> 20));
        else if (o->exit_code != 0 || !str_starts(o->out, "\x89PNG"))
                tool_failed(c, "no screenshot: %.*s", STR_ARG(words_of(o)));
        else
                tool_image(c, "image/png", o->out, "The screen.");
}

static void screenshot(struct call *c, json_t *args)
{
        static const char *const argv[] = {"scrot", "--pointer", "--silent", "-", NULL};
        struct once_options opt = {.argv = argv,
                                   .env = env,
                                   .output_max = DESKTOP_PICTURE_BYTES_MAX,
                                   .timeout_s = DESKTOP_TIMEOUT_S,
                                   .on_done = desktop_took_screenshot};

        (void)args;
        once_run(c, &opt);
}

void desktop_clicked(struct call *c, const struct once_output *o)
{
        if (o->is_timed_out)
                tool_failed(c, "the desktop did not answer for %u s", DESKTOP_TIMEOUT_S);
        else if (o->exit_code != 0)
                tool_failed(c, "%.*s", STR_ARG(words_of(o)));
        else
                tool_textf(c, NULL, "Done.");
}

void desktop_typed(struct call *c, const struct once_output *o)
{
        if (o->is_timed_out)
                tool_failed(c, "typing took too long and was stopped: a part of the text may have been typed");
        else
                desktop_clicked(c, o);
}

uint32_t desktop_typing_s(struct str text)
{
        return DESKTOP_TIMEOUT_S + (uint32_t)(text.n * TYPING_MS_MAX / 1000);
}

static void click(struct call *c, json_t *args)
{
        static const char *const names[] = {"left", "middle", "right"};
        const char *button = arg_text(args, "button", "left");
        char x[16], y[16], number[4] = "1", times[8];
        const char *argv[] = {"xdotool", "mousemove", "--sync", x, y, "click", "--repeat", times, number, NULL};
        struct once_options opt = {.argv = argv,
                                   .env = env,
                                   .output_max = 4096,
                                   .timeout_s = DESKTOP_TIMEOUT_S,
                                   .on_done = desktop_clicked};

        for (unsigned i = 0; i < ARRAY_LEN(names); i++)
                if (strcmp(names[i], button) == 0)
                        (void)snprintf(number, sizeof(number), "%u", i + 1);
        (void)snprintf(x, sizeof(x), "%d", (int)arg_number(args, "x", 0));
        (void)snprintf(y, sizeof(y), "%d", (int)arg_number(args, "y", 0));
        (void)snprintf(times, sizeof(times), "%d", (int)arg_number(args, "times", 1));
        once_run(c, &opt);
}

static void type_text(struct call *c, json_t *args)
{
        const char *text = arg_text(args, "text", NULL), *key = arg_text(args, "key", NULL);
        const char *type[] = {"xdotool", "type", "--delay", "12", "--", text, NULL},
                   *press[] = {"xdotool", "key", "--", key, NULL};
        struct once_options opt = {.argv = text ? type : press,
                                   .env = env,
                                   .output_max = 4096,
                                   .timeout_s = text ? desktop_typing_s(str_of(text)) : DESKTOP_TIMEOUT_S,
                                   .on_done = text ? desktop_typed : desktop_clicked};

        if (!text == !key)
                tool_failed(c, "give either text or key");
        else
                once_run(c, &opt);
}

const struct tool tool_screenshot = {
        .name = "screenshot",
        .title = "Screenshot",
        .description = "Return a picture of the desktop.",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}",
        .is_there = has_desktop,
        .run = screenshot,
};
const struct tool tool_click = {
        .name = "click",
        .title = "Click",
        .description = "Move the pointer of the desktop and click.",
        .hints = TOOL_DESTROYS,
        .schema = "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":100000},"
                  "\"y\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":100000},"
                  "\"button\":{\"type\":\"string\",\"enum\":[\"left\",\"middle\",\"right\"],\"description\":\"Default: "
                  "left.\"},\"times\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":3,"
                  "\"description\":\"2: a double click. Default: "
                  "1.\"}},\"required\":[\"x\",\"y\"],\"additionalProperties\":false}",
        .is_there = has_desktop,
        .run = click,
};
const struct tool tool_type = {
        .name = "type",
        .title = "Type",
        .description = "Type a text on the desktop, or press a key such as Return or ctrl+c.",
        .hints = TOOL_DESTROYS,
        .schema = "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":"
                  "10000},\"key\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":100}},"
                  "\"additionalProperties\":false}",
        .is_there = has_desktop,
        .run = type_text,
};
