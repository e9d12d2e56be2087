#include "model/ids.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SEALED_PREFIX "u-"

static bool is_id_char(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool has_form(struct str s, const char *prefix, size_t len)
{
        if (s.n != len || !str_starts(s, prefix))
                return false;
        for (size_t i = strlen(prefix); i < s.n; i++)
                if (!is_id_char(s.p[i]))
                        return false;
        return true;
}

void sandbox_id_make(char out[SANDBOX_ID_MAX])
{
        out[0] = 'i';
        random_id(out + 1, SANDBOX_ID_LEN - 1);
}

bool sandbox_id_is_valid(struct str s)
{
        return has_form(s, "i", SANDBOX_ID_LEN);
}

void standby_id_make(char out[SANDBOX_ID_MAX])
{
        out[0] = 's';
        random_id(out + 1, SANDBOX_ID_LEN - 1);
}

bool standby_id_is_valid(struct str s)
{
        return has_form(s, "s", SANDBOX_ID_LEN);
}

bool guest_id_is_valid(struct str s)
{
        return sandbox_id_is_valid(s) || standby_id_is_valid(s);
}

void checkpoint_id_make(char out[CHECKPOINT_ID_MAX])
{
        out[0] = 'c';
        random_id(out + 1, CHECKPOINT_ID_LEN - 1);
}

bool checkpoint_id_is_valid(struct str s)
{
        return has_form(s, "c", CHECKPOINT_ID_LEN);
}

void sealed_id_make(char out[SEALED_ID_MAX])
{
        memcpy(out, SEALED_PREFIX, 2);
        random_id(out + 2, SEALED_ID_LEN - 2);
}

bool sealed_id_is_valid(struct str s)
{
        return has_form(s, SEALED_PREFIX, SEALED_ID_LEN);
}

bool layer_id_is_sealed(const char *layer)
{
        return str_starts(str_of(layer), SEALED_PREFIX);
}

bool layer_id_is_valid(struct str s)
{
        if (s.n < 1 || s.n > 64 || !is_id_char(s.p[0]))
                return false;
        if (str_starts(s, SEALED_PREFIX))
                return sealed_id_is_valid(s);
        for (size_t i = 1; i < s.n; i++)
                if (!is_id_char(s.p[i]) && s.p[i] != '-')
                        return false;
        return true;
}

void uuid_make(char out[UUID_MAX])
{
        uint8_t b[16];
        char hex[33];

        random_bytes(b, sizeof(b));
        b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
        b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
        hex_encode(b, sizeof(b), hex);
        (void)snprintf(out, UUID_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}
