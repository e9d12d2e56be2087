#include "agent/request/listening.h"

#include <stdlib.h>
#include <string.h>

#define STATE_LISTEN "0A"

/* The next word of the line. */
static struct str next_word(struct str *line)
{
        struct str word;

        while (line->n && *line->p == ' ')
                *line = (struct str){line->p + 1, line->n - 1};
        (void)str_cut(line, ' ', &word);
        return word;
}

static int hex_port(struct str s, uint16_t *ret)
{
        unsigned n = 0;

        if (s.n != 4)
                return -1;
        for (size_t i = 0; i < s.n; i++) {
                int v = hex_value(s.p[i]);

                if (v < 0)
                        return -1;
                n = n << 4 | (unsigned)v;
        }
        *ret = (uint16_t)n;
        return n ? 0 : -1;
}

/* In words of the machine's byte order: 127.x.x.x, ::1, ::ffff:127.x.x.x. */
static bool is_loopback(struct str address)
{
        static const char v6[] = "00000000000000000000000001000000", mapped[] = "0000000000000000FFFF0000";

        if (address.n == 8)
                return str_ends(address, "7F");
        if (address.n != 32)
                return false;
        return str_is(address, v6) || (str_starts(address, mapped) && str_ends(address, "7F"));
}

/* "   0: 0100007F:1F90 00000000:0000 0A ..." */
static bool line_parse(struct str line, struct listening_port *ret)
{
        struct str number = next_word(&line), local = next_word(&line), state, address;

        (void)next_word(&line);
        state = next_word(&line);
        if (!str_ends(number, ":") || !str_is(state, STATE_LISTEN) || !str_cut(&local, ':', &address) ||
            hex_port(local, &ret->port) < 0)
                return false;
        ret->is_local = is_loopback(address);
        return true;
}

static int by_port(const void *a, const void *b)
{
        const struct listening_port *x = a, *y = b;

        return (int)x->port - (int)y->port;
}

static void port_add(struct listening_port *all, size_t *count, const struct listening_port *one)
{
        for (size_t i = 0; i < *count; i++)
                if (all[i].port == one->port) {
                        all[i].is_local = all[i].is_local && one->is_local;
                        return;
                }
        if (*count < LISTENING_MAX)
                all[(*count)++] = *one;
}

size_t listening_parse(struct str text, struct listening_port ret[LISTENING_MAX])
{
        struct listening_port one;
        bool more = text.n > 0;
        struct str line;
        size_t count = 0;

        while (more) {
                more = str_cut(&text, '\n', &line);
                if (line_parse(line, &one))
                        port_add(ret, &count, &one);
        }
        qsort(ret, count, sizeof(*ret), by_port);
        return count;
}
