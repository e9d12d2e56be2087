#include "builder/command.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define ELLIPSIS "…"

/* Bytes from the end of a text of n bytes so that it begins with a whole character. */
static size_t whole_end(const char *text, size_t n, size_t most)
{
        while (most && ((unsigned char)text[n - most] & 0xc0) == 0x80)
                most--;
        return most;
}

static size_t whole_begin(const char *text, size_t most)
{
        while (most && ((unsigned char)text[most] & 0xc0) == 0x80)
                most--;
        return most;
}

const char *command_words(const char *cmd, char out[COMMAND_WORDS_MAX])
{
        const size_t room = COMMAND_WORDS_MAX - 1 - (sizeof(ELLIPSIS) - 1);
        size_t n = strlen(cmd);

        if (n < COMMAND_WORDS_MAX) {
                (void)snprintf(out, COMMAND_WORDS_MAX, "%s", cmd);
        } else {
                size_t begin = whole_begin(cmd, room * 2 / 3), end = whole_end(cmd, n, room / 3);

                (void)snprintf(out, COMMAND_WORDS_MAX, "%.*s" ELLIPSIS "%s", (int)begin, cmd, cmd + n - end);
        }
        for (char *at = out; *at; at++)
                if (*at == '\n' || *at == '\r' || *at == '\t')
                        *at = ' ';
        return out;
}

json_t *command_shell_args(const char *cmd)
{
        static const char choose[] = "[ -x /bin/bash ] && exec /bin/bash -l -c \"$1\"; exec /bin/sh -l -c \"$1\"";

        return json_pack("[s, s, s, s]", "-c", choose, "sh", cmd);
}
