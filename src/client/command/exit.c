#include <string.h>

#include "client/command/command.h"

#define EXIT_SIGNALLED 128

static const struct {
        const char *name;
        int number;
} signal_names[] = {
        {"hangup", 1},
        {"interrupt", 2},
        {"quit", 3},
        {"illegal instruction", 4},
        {"trace/breakpoint trap", 5},
        {"aborted", 6},
        {"bus error", 7},
        {"floating point exception", 8},
        {"killed", 9},
        {"user defined signal 1", 10},
        {"segmentation fault", 11},
        {"user defined signal 2", 12},
        {"broken pipe", 13},
        {"alarm clock", 14},
        {"terminated", 15},
};

static int signal_of(struct str status) /* 0: none */
{
        uint32_t number;

        if (str_ends(status, " (core dumped)"))
                status.n -= strlen(" (core dumped)");
        if (!str_starts(status, "signal: "))
                return 0;
        status = (struct str){status.p + 8, status.n - 8};
        for (size_t i = 0; i < ARRAY_LEN(signal_names); i++)
                if (str_is(status, signal_names[i].name))
                        return signal_names[i].number;
        if (str_starts(status, "signal ") && parse_u32((struct str){status.p + 7, status.n - 7}, 1, 64, &number) == 0)
                return (int)number;
        return 0;
}

int exit_code_of(const json_t *end, int *ret_signal)
{
        json_int_t code = json_integer_value(json_object_get(end, "exitCode"));
        int number = 0;

        if (code < 0 || code > 255)
                number = signal_of(str_of(json_string_value(json_object_get(end, "status"))));
        *ret_signal = number;
        if (code >= 0 && code <= 255)
                return (int)code;
        return number ? EXIT_SIGNALLED + number : 1;
}
