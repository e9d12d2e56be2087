#include "builder/ready_check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "builder/command.h"

#define KNOWN_FIRST_MS 20u
#define OTHER_FIRST_MS 250u
#define MOST_MS 2000u

/* What is between the two texts, or an empty string. */
static struct str between(const char *cmd, const char *before, const char *after)
{
        struct str s = str_of(cmd);
        size_t n = strlen(before), m = strlen(after);

        if (!str_starts(s, before) || !str_ends(s, after) || s.n <= n + m)
                return (struct str){0};
        return (struct str){s.p + n, s.n - n - m};
}

/* [ -n "$(ss -Htuln sport = :3000)" ]: a socket listens, or takes packets, on that port. */
static int port_script(const char *cmd, struct buf *out)
{
        struct str text = between(cmd, "[ -n \"$(ss -Htuln sport = :", ")\" ]");
        uint32_t port;

        if (!text.n || parse_u32(text, 1, 65535, &port) < 0)
                return 0;
        /* Lines of the kernel: number, local address:port in hex, remote one, state (0A listens, 07 open for packets). */
        return buf_addf(
                out,
                "for f in tcp tcp6 udp udp6; do [ -r /proc/net/$f ] && while read -r n local remote state rest; do "
                "case \"$f $local $state\" in tcp*:%04X\\ 0A|udp*:%04X\\ 07) exit 0;; esac; done </proc/net/$f; "
                "done; exit 1",
                port, port);
}

static bool is_plain_word(struct str s)
{
        for (size_t i = 0; i < s.n; i++) {
                char c = s.p[i];

                if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && !strchr("_-", c))
                        return false;
        }
        return s.n > 0;
}

/* pgrep node > /dev/null: a process has that name. */
static int process_script(const char *cmd, struct buf *out)
{
        struct str name = between(cmd, "pgrep ", " > /dev/null");

        if (!is_plain_word(name) || name.p[0] == '-')
                return 0;
        return buf_addf(
                out,
                "command -v pgrep >/dev/null 2>&1 && { %s; exit; }; for f in /proc/[0-9]*/comm; do read -r name <$f && "
                "case \"$name\" in *%.*s*) exit 0;; esac; done 2>/dev/null; exit 1",
                cmd, STR_ARG(name));
}

/* [ -f /file ]: the words as they are; a name with anything special in it is another command. */
static int file_script(const char *cmd, struct buf *out)
{
        struct str name = between(cmd, "[ -f ", " ]");

        for (size_t i = 0; i < name.n; i++)
                if (strchr(";|&`$()<>\n", name.p[i]))
                        return 0;
        return name.n ? buf_addc(out, cmd) : 0;
}

int ready_check_of(const char *cmd, struct ready_check *ret)
{
        AUTO_BUF struct buf script = BUF_INIT(128u << 10);
        const char *text;
        int r = port_script(cmd, &script);

        if (r == 0 && script.len == 0)
                r = process_script(cmd, &script);
        if (r == 0 && script.len == 0)
                r = file_script(cmd, &script);
        if (r < 0)
                return r;
        *ret = (struct ready_check){.first_ms = script.len ? KNOWN_FIRST_MS : OTHER_FIRST_MS, .most_ms = MOST_MS};
        text = script.len ? buf_cstr(&script) : NULL;
        ret->args = text ? json_pack("[s, s]", "-c", text) : command_shell_args(cmd);
        return ret->args ? 0 : -ENOMEM;
}

void ready_check_done(struct ready_check *c)
{
        json_decref(c->args);
        c->args = NULL;
}

uint32_t ready_check_next_ms(const struct ready_check *c, uint32_t last_ms)
{
        uint32_t next = last_ms ? last_ms + last_ms / 2 : c->first_ms;

        return next < c->most_ms ? next : c->most_ms;
}
