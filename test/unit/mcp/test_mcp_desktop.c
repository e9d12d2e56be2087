/* The tools of a desktop: time limits, and what is said when their programs fail. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "io/loop.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/stream.h"
#include "mcp/tools/desktop.h"
#include "mcp/tools/once.h"
#include "test/lib/tap.h"

static char line[1024];

static void keep_line(struct str message, bool may_drop, void *arg)
{
        (void)may_drop;
        (void)snprintf(arg, sizeof(line), "%.*s", STR_ARG(message));
}

/* What the client is told. */
static const char *told(void (*on_done)(struct call *c, const struct once_output *o), const struct once_output *o)
{
        static const struct mcp_backend backend = {.name = "test"};
        struct mcp m = {.backend = &backend};
        json_t *id = json_integer(1);
        struct session *s;

        line[0] = '\0';
        list_init(&m.session_order);
        if (loop_create(&m.loop) < 0 || !(s = session_create(&m, "2025-06-18")))
                return "no session";
        on_done(call_begin(s, stream_open_lines(s, keep_line, line), id, NULL), o);
        session_end(s);
        map_done(&m.sessions);
        m.loop = loop_free(m.loop);
        json_decref(id);
        return line;
}

static void the_time_limit_grows_with_the_text(void)
{
        static const char text[10001] = {[0 ... 9999] = 'x'};

        CHECK_INT(desktop_typing_s(STR("x")), ==, DESKTOP_TIMEOUT_S);
        CHECK_INT(desktop_typing_s(str_of(text)), >, 4 * 10000 * 12 / 1000);
}

static void a_picture_that_is_too_large_is_no_dark_desktop(void)
{
        const struct once_output large = {.is_cut = true, .exit_code = 137, .out = STR("\x89PNG")},
                                 late = {.is_timed_out = true, .exit_code = 137}, dark = {.exit_code = 1},
                                 words = {.exit_code = 1, .err = STR("no display")};

        CHECK(strstr(told(desktop_took_screenshot, &large), "the picture is larger than 8 MiB"));
        CHECK(strstr(told(desktop_took_screenshot, &late), "did not answer for 30 s"));
        CHECK(strstr(told(desktop_took_screenshot, &dark), "the desktop is not running"));
        CHECK(strstr(told(desktop_took_screenshot, &words), "no display"));
}

static void typing_that_was_stopped_says_so(void)
{
        const struct once_output late = {.is_timed_out = true, .exit_code = 137}, done = {.exit_code = 0};

        CHECK(strstr(told(desktop_typed, &late), "a part of the text may have been typed"));
        CHECK(strstr(told(desktop_clicked, &late), "did not answer for 30 s"));
        CHECK(strstr(told(desktop_typed, &done), "Done."));
}

int main(void)
{
        RUN(the_time_limit_grows_with_the_text);
        RUN(a_picture_that_is_too_large_is_no_dark_desktop);
        RUN(typing_that_was_stopped_says_so);
        return tap_done();
}
