#include "cli/doctor/addresses.h"

#include <stdio.h>
#include <string.h>

void addresses_add(struct addresses *a, const char *text)
{
        size_t i = 0;

        while (i < a->count && strcmp(a->text[i], text) < 0)
                i++;
        if (a->count == ADDRESSES_MAX || strlen(text) >= sizeof(a->text[0]) ||
            (i < a->count && strcmp(a->text[i], text) == 0))
                return;
        memmove(a->text[i + 1], a->text[i], (a->count - i) * sizeof(a->text[0]));
        (void)snprintf(a->text[i], sizeof(a->text[i]), "%s", text);
        a->count++;
}

bool addresses_equal(const struct addresses *a, const struct addresses *b)
{
        if (a->count != b->count)
                return false;
        for (size_t i = 0; i < a->count; i++)
                if (strcmp(a->text[i], b->text[i]) != 0)
                        return false;
        return true;
}

void addresses_format(const struct addresses *a, char *out, size_t max)
{
        size_t n = 0;

        out[0] = 0;
        for (size_t i = 0; i < a->count && n + strlen(a->text[i]) + 3 <= max; i++)
                n += (size_t)snprintf(out + n, max - n, "%s%s", n ? ", " : "", a->text[i]);
}
