/* What arguments must be, before anything is sent. */
#include <errno.h>
#include <string.h>

#include "client/block.h"
#include "client/client.h"
#include "wire/url.h"

#define PAIRS_MAX 10000u

static bool is_id_part(struct str s)
{
        if (s.n == 0 || s.n > 64)
                return false;
        for (size_t i = 0; i < s.n; i++)
                if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9')))
                        return false;
        return true;
}

bool sandbox_id_is_sound(const char *id)
{
        struct str rest = str_of(id), part;
        bool has_suffix = str_cut(&rest, '-', &part);

        return is_id_part(part) && (!has_suffix || is_id_part(rest));
}

int check_sandbox_id(const char *id, struct sg_error *err)
{
        if (id && sandbox_id_is_sound(id))
                return 0;
        return error_set(err, SG_INVALID, "'%.64s' is not a sandbox id", id ? id : "");
}

bool domain_is_valid(struct str domain)
{
        static const char usual[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
        struct str port = domain, host;
        uint32_t number;

        if (str_cut(&port, ':', &host) && parse_u32(port, 1, UINT16_MAX, &number) < 0)
                return false;
        if (host.n == 0 || host.n > 253)
                return false;
        for (size_t i = 0; i < host.n; i++)
                if (!memchr(usual, host.p[i], sizeof(usual) - 1))
                        return false;
        return true;
}

int check_text(const char *text, const char *what, size_t max, struct sg_error *err)
{
        size_t n = text ? strnlen(text, max + 1) : 0;

        if (!text || n == 0)
                return error_set(err, SG_INVALID, "%s is missing", what);
        if (n > max)
                return error_set(err, SG_INVALID, "%s has more than %zu bytes", what, max);
        if (!str_is_utf8((struct str){text, n}))
                return error_set(err, SG_INVALID, "%s is not valid UTF-8", what);
        return 0;
}

int check_bytes(const void *bytes, size_t n, const char *what, struct sg_error *err)
{
        return bytes || !n ? 0 : error_set(err, SG_INVALID, "%s is missing, but has a length", what);
}

int check_reserved(const uintptr_t *reserved, size_t n, struct sg_error *err)
{
        for (size_t i = 0; i < n; i++)
                if (reserved[i])
                        return error_set(err, SG_INVALID, "a reserved field of the options is not zero");
        return 0;
}

int check_pairs(const struct sg_pair *pairs, const char *what, struct sg_error *err)
{
        for (size_t i = 0; pairs && pairs[i].name; i++) {
                if (i >= PAIRS_MAX)
                        return error_set(err, SG_INVALID, "%s: more than %u", what, PAIRS_MAX);
                if (!pairs[i].name[0] || !pairs[i].value)
                        return error_set(err, SG_INVALID, "%s: number %zu has no %s", what, i + 1,
                                         pairs[i].value ? "name" : "value");
                if (!str_is_utf8(str_of(pairs[i].name)) || !str_is_utf8(str_of(pairs[i].value)))
                        return error_set(err, SG_INVALID, "%s: number %zu is not valid UTF-8", what, i + 1);
        }
        return 0;
}

int sg_encode(const char *text, char **ret, struct sg_error *err)
{
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);
        char *block;
        int r = text ? url_encode(str_of(text), &out) : -EINVAL;

        if (r == -EINVAL)
                return error_set(err, SG_INVALID, "the text is missing");
        if (r < 0)
                return error_sys(err, r, "encode the text");
        block = block_create(out.len + 1);
        if (!block)
                return error_no_memory(err);
        if (out.len)
                memcpy(block, buf_at(&out), out.len);
        *ret = block;
        return 0;
}
