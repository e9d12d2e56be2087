#include "cli/template/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

#define WIDTH_USUAL 80u
#define STEP_SHOWN 60

static unsigned width(void)
{
        struct winsize size;

        return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : WIDTH_USUAL;
}

void view_start(struct view *v)
{
        *v = (struct view){.is_live = isatty(STDERR_FILENO), .since_ms = clock_mono_ms(), .step_ms = clock_mono_ms()};
}

static void hide(struct view *v)
{
        if (v->is_shown)
                (void)fputs("\r\033[K", stderr);
        v->is_shown = false;
}

/* Text of the log without what would move the cursor. */
static void print_plain(const char *text, size_t most)
{
        for (size_t n = 0; *text && n < most; text++, n++)
                (void)fputc((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text, stderr);
}

static void print_seconds(uint64_t ms)
{
        (void)fprintf(stderr, "%5u.%u s  ", (unsigned)(ms / 1000), (unsigned)(ms % 1000 / 100));
}

void view_tick(struct view *v)
{
        const char *last = v->tail_count ? v->tail[(v->tail_count - 1) % VIEW_TAIL] : "";
        unsigned room = width() - 14;

        if (!v->is_live || !v->step)
                return;
        (void)fputs("\r\033[K", stderr);
        print_seconds(clock_mono_ms() - v->step_ms);
        print_plain(v->step, room < STEP_SHOWN ? room : STEP_SHOWN);
        if (last[0] && room > STEP_SHOWN + 10) {
                (void)fputs("  \033[2m", stderr);
                print_plain(last, room - (strlen(v->step) < STEP_SHOWN ? (unsigned)strlen(v->step) : STEP_SHOWN) - 4);
                (void)fputs("\033[0m", stderr);
        }
        (void)fflush(stderr);
        v->is_shown = true;
}

/* The step is over: it stays, with the time that it took. */
static void keep_step(struct view *v)
{
        hide(v);
        if (v->step && v->is_live) {
                print_seconds(clock_mono_ms() - v->step_ms);
                print_plain(v->step, width() - 12);
                (void)fputc('\n', stderr);
        }
        free(v->step);
        v->step = NULL;
        v->step_ms = clock_mono_ms();
}

void view_doing(struct view *v, const char *what)
{
        if (!v->is_live) {
                (void)fprintf(stderr, "%s\n", what);
                return;
        }
        keep_step(v);
        v->step = strdup(what);
        view_tick(v);
}

static void keep_output(struct view *v, const char *line)
{
        char **slot = &v->tail[v->tail_count % VIEW_TAIL];

        free(*slot);
        *slot = strdup(line);
        if (*slot)
                v->tail_count++;
}

/* "[builder 1/3] [stdout]: line" -> "line"; NULL: not output of a command. */
static const char *output_of(const char *message)
{
        const char *found = strstr(message, "[stdout]: ");

        if (!found)
                found = strstr(message, "[stderr]: ");
        return found ? found + strlen("[stdout]: ") : NULL;
}

void view_entries(struct view *v, const json_t *entries)
{
        size_t i;
        json_t *entry;

        json_array_foreach ((json_t *)entries, i, entry) {
                const char *message = json_string_value(json_object_get(entry, "message")),
                           *level = json_string_value(json_object_get(entry, "level")), *output;

                if (!message || (level && strcmp(level, "debug") == 0))
                        continue;
                output = output_of(message);
                if (output)
                        keep_output(v, output);
                if (!v->is_live) {
                        print_plain(message, SIZE_MAX);
                        (void)fputc('\n', stderr);
                } else if (!output) {
                        keep_step(v);
                        v->step = strdup(message);
                }
        }
        view_tick(v);
}

void view_end(struct view *v, bool has_failed)
{
        unsigned first = v->tail_count > VIEW_TAIL ? v->tail_count - VIEW_TAIL : 0;

        keep_step(v);
        for (unsigned i = first; v->is_live && has_failed && i < v->tail_count; i++) {
                (void)fputs("  | ", stderr);
                print_plain(v->tail[i % VIEW_TAIL], width() - 6);
                (void)fputc('\n', stderr);
        }
        for (unsigned i = 0; i < VIEW_TAIL; i++)
                free(v->tail[i]);
        *v = (struct view){0};
}
