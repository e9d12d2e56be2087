#include "envd/rpc/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/buf.h"

#define FAULT_TEXT_MAX (64u << 10)

void fault_done(struct fault *f)
{
        free(f->text);
        *f = (struct fault){0};
}

const char *fault_text(const struct fault *f)
{
        return f->text ? f->text : "out of memory";
}

PRINTF(4, 0)
static void fault_set_text(struct fault *f, enum connect_code code, int sys, const char *fmt, va_list ap)
{
        AUTO_BUF struct buf b = BUF_INIT(FAULT_TEXT_MAX);
        char *text = NULL;

        if (buf_vaddf(&b, fmt, ap) == 0 && (!sys || buf_addf(&b, ": %s", errno_text(sys)) == 0))
                text = str_dup((struct str){(const char *)buf_at(&b), b.len});
        fault_done(f);
        *f = (struct fault){.code = code, .sys = sys, .text = text};
}

int fault_vset(struct fault *f, enum connect_code code, const char *fmt, va_list ap)
{
        fault_set_text(f, code, 0, fmt, ap);
        return -1;
}

int fault_set(struct fault *f, enum connect_code code, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        (void)fault_vset(f, code, fmt, ap);
        va_end(ap);
        return -1;
}

int fault_sys(struct fault *f, enum connect_code code, int sys, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        fault_set_text(f, code, sys, fmt, ap);
        va_end(ap);
        return -1;
}

const char *errno_text(int sys)
{
        static char text[64];
        const char *words = strerrordesc_np(sys);

        if (!words)
                (void)snprintf(text, sizeof(text), "errno %d", sys);
        else if (words[0] >= 'A' && words[0] <= 'Z' && words[1] >= 'a' && words[1] <= 'z')
                (void)snprintf(text, sizeof(text), "%c%s", words[0] + 32, words + 1);
        else
                (void)snprintf(text, sizeof(text), "%s", words);
        return text;
}

/* Length of the longest valid UTF-8 sequence at s, 0 when the first byte begins none. */
static size_t utf8_at(struct str s)
{
        for (size_t n = 1; n <= 4 && n <= s.n; n++)
                if (str_is_utf8((struct str){s.p, n}))
                        return n;
        return 0;
}

json_t *json_text(struct str s)
{
        AUTO_BUF struct buf b = BUF_INIT(SIZE_MAX / 4);
        size_t n;

        if (str_is_utf8(s))
                return json_stringn_nocheck(s.p, s.n);
        while (s.n) {
                n = utf8_at(s);
                if ((n ? buf_add(&b, s.p, n) : buf_addc(&b, "\xef\xbf\xbd")) < 0)
                        return NULL;
                s.p += n ? n : 1;
                s.n -= n ? n : 1;
        }
        return json_stringn_nocheck((const char *)buf_at(&b), b.len);
}
