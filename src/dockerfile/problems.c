#include "dockerfile/problems.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(struct problems *p, enum problem_level level, unsigned line, const char *fmt, va_list ap)
        __attribute__((format(printf, 4, 0)));

static void add(struct problems *p, enum problem_level level, unsigned line, const char *fmt, va_list ap)
{
        struct problem *more;
        char *text;

        if (level == PROBLEM_ERROR)
                p->errors++;
        if (p->count >= PROBLEMS_MAX)
                return;
        if (vasprintf(&text, fmt, ap) < 0) {
                p->lacks_memory = true;
                return;
        }
        more = reallocarray(p->at, p->count + 1, sizeof(*more));
        if (!more) {
                free(text);
                p->lacks_memory = true;
                return;
        }
        p->at = more;
        p->at[p->count++] = (struct problem){level, line, text};
}

void problems_error(struct problems *p, unsigned line, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        add(p, PROBLEM_ERROR, line, fmt, ap);
        va_end(ap);
}

void problems_warn(struct problems *p, unsigned line, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        add(p, PROBLEM_WARNING, line, fmt, ap);
        va_end(ap);
}

void problems_note(struct problems *p, unsigned line, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        add(p, PROBLEM_NOTE, line, fmt, ap);
        va_end(ap);
}

int problems_take(struct problems *p, unsigned line, int r)
{
        if (r == -E2BIG)
                problems_error(p, line, "too long");
        else if (r < 0)
                p->lacks_memory = true;
        return r;
}

void problems_sort(struct problems *p) /* by insertion: there are few, mostly in order, and equal ones stay so */
{
        for (size_t i = 1; i < p->count; i++) {
                struct problem one = p->at[i];
                size_t k = i;

                for (; k > 0 && p->at[k - 1].line > one.line; k--)
                        p->at[k] = p->at[k - 1];
                p->at[k] = one;
        }
}

void problems_done(struct problems *p)
{
        for (size_t i = 0; i < p->count; i++)
                free(p->at[i].text);
        free(p->at);
        *p = (struct problems){0};
}
