#include "image/image_ref.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

#define DIGEST_PREFIX "sha256:"
#define SHOWN_MAX 100 /* characters of a bad name in an error */

static bool is_lower_or_digit(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool image_digest_is_valid(struct str text)
{
        size_t prefix = sizeof(DIGEST_PREFIX) - 1;

        if (text.n != prefix + 64 || !str_starts(text, DIGEST_PREFIX))
                return false;
        for (size_t i = prefix; i < text.n; i++)
                if (!((text.p[i] >= '0' && text.p[i] <= '9') || (text.p[i] >= 'a' && text.p[i] <= 'f')))
                        return false;
        return true;
}

static int bad(struct str text, struct err *err, const char *why)
{
        int shown = text.n > SHOWN_MAX ? SHOWN_MAX : (int)text.n;

        for (int i = 0; i < shown; i++)
                if (text.p[i] < 0x20 || text.p[i] > 0x7e)
                        return err_set(err, ERR_INVALID, "image name: %s", why);
        return err_set(err, ERR_INVALID, "image name '%.*s': %s", shown, text.p, why);
}

/* [a-z0-9]+ with ".", "_", "__" or any number of "-" between. */
static bool is_component(struct str s)
{
        size_t i = 0, from;

        if (s.n == 0 || !is_lower_or_digit(s.p[0]) || !is_lower_or_digit(s.p[s.n - 1]))
                return false;
        while (i < s.n) {
                while (i < s.n && is_lower_or_digit(s.p[i]))
                        i++;
                from = i;
                while (i < s.n && !is_lower_or_digit(s.p[i]) && s.p[i] == s.p[from])
                        i++;
                if (i < s.n && !is_lower_or_digit(s.p[i]))
                        return false;
                if (i > from &&
                    !((s.p[from] == '-') || (s.p[from] == '.' && i - from == 1) || (s.p[from] == '_' && i - from <= 2)))
                        return false;
        }
        return true;
}

static bool is_path(struct str s)
{
        struct str part;
        bool more;

        if (s.n == 0 || s.n >= IMAGE_PATH_MAX)
                return false;
        do {
                more = str_cut(&s, '/', &part);
                if (!is_component(part))
                        return false;
        } while (more);
        return true;
}

static bool is_word(char c)
{
        return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_tag(struct str s)
{
        if (s.n == 0 || s.n >= IMAGE_TAG_MAX || !is_word(s.p[0]))
                return false;
        for (size_t i = 1; i < s.n; i++)
                if (!is_word(s.p[i]) && s.p[i] != '.' && s.p[i] != '-')
                        return false;
        return true;
}

/* A DNS name or an address (IPv6 in brackets), with or without a port. */
static bool is_host(struct str s)
{
        struct str name = s;
        uint32_t port;

        if (s.n == 0 || s.n >= IMAGE_HOST_MAX)
                return false;
        if (s.p[0] == '[') {
                const char *end = memchr(s.p, ']', s.n);
                size_t n = end ? (size_t)(end - s.p) + 1 : 0;

                if (n < 4 || (n < s.n && (s.p[n] != ':' ||
                                          parse_u32((struct str){s.p + n + 1, s.n - n - 1}, 1, 65535, &port) < 0)))
                        return false;
                for (size_t i = 1; i + 1 < n; i++)
                        if (hex_value(s.p[i]) < 0 && s.p[i] != ':' && s.p[i] != '.')
                                return false;
                return true;
        }
        if (str_cut(&s, ':', &name) && parse_u32(s, 1, 65535, &port) < 0)
                return false;
        if (name.n == 0 || name.n > 253 || name.p[0] == '-' || name.p[0] == '.' || name.p[name.n - 1] == '-')
                return false;
        for (size_t i = 0; i < name.n; i++)
                if (!is_word(name.p[i]) && name.p[i] != '-' && name.p[i] != '.')
                        return false;
        return true;
}

/* Is what is before the first slash a registry?  As Docker decides, but for capital letters alone: "G/a" is no name. */
static bool names_a_host(struct str first)
{
        return str_is(first, "localhost") || memchr(first.p, '.', first.n) || memchr(first.p, ':', first.n);
}

static void copy(char *to, struct str s)
{
        memcpy(to, s.p, s.n);
        to[s.n] = 0;
}

static void copy_host(char *to, struct str host)
{
        copy(to, host);
        for (char *p = to; *p; p++)
                if (*p >= 'A' && *p <= 'Z')
                        *p = (char)(*p - 'A' + 'a');
        if (strcmp(to, "index.docker.io") == 0 || strcmp(to, "registry-1.docker.io") == 0)
                copy(to, STR(IMAGE_DEFAULT_HOST));
}

/* Everything but the digest: [host/]path[:tag]. */
static int parse_name(struct str name, struct str whole, struct image_ref *ref, struct err *err)
{
        struct str rest = name, first, host = STR(IMAGE_DEFAULT_HOST), path = name, tag = {0};
        const char *colon;

        if (str_cut(&rest, '/', &first) && names_a_host(first)) {
                host = first;
                path = rest;
        }
        colon = memrchr(path.p, ':', path.n);
        if (colon) {
                tag = (struct str){colon + 1, path.n - (size_t)(colon + 1 - path.p)};
                path.n = (size_t)(colon - path.p);
                if (!is_tag(tag))
                        return bad(whole, err, "what follows ':' is not a tag");
        }
        if (!is_host(host))
                return bad(whole, err, "its registry is not HOST or HOST:PORT");
        if (!is_path(path))
                return bad(whole, err, "it is not [HOST/]NAME[:TAG][@DIGEST] in lower case");
        copy_host(ref->host, host);
        copy(ref->tag, tag);
        if (strcmp(ref->host, IMAGE_DEFAULT_HOST) == 0 && !memchr(path.p, '/', path.n)) {
                if (path.n + sizeof("library/") > IMAGE_PATH_MAX)
                        return bad(whole, err, "it is too long");
                (void)snprintf(ref->path, sizeof(ref->path), "library/%.*s", STR_ARG(path));
        } else {
                copy(ref->path, path);
        }
        return 0;
}

int image_ref_parse(struct str text, struct image_ref *ret, struct err *err)
{
        struct str whole = str_trim(text), rest, name, digest = {0};
        struct image_ref ref = {0};
        const char *at;
        int r;

        rest = whole;
        (void)str_cut(&rest, ' ', &whole);
        if (whole.n == 0)
                return err_set(err, ERR_INVALID, "image name: is empty");
        name = whole;
        at = memchr(whole.p, '@', whole.n);
        if (at) {
                name.n = (size_t)(at - whole.p);
                digest = (struct str){at + 1, whole.n - name.n - 1};
                if (!image_digest_is_valid(digest))
                        return bad(whole, err, "what follows '@' is not sha256: and 64 digits");
                copy(ref.digest, digest);
        }
        r = parse_name(name, whole, &ref, err);
        if (r < 0)
                return r;
        if (!ref.tag[0] && !ref.digest[0])
                copy(ref.tag, STR("latest"));
        *ret = ref;
        return 0;
}

const char *image_ref_version(const struct image_ref *ref)
{
        return ref->digest[0] ? ref->digest : ref->tag;
}

void image_ref_name(const struct image_ref *ref, char out[IMAGE_NAME_MAX])
{
        (void)snprintf(out, IMAGE_NAME_MAX, "%s/%s%c%s", ref->host, ref->path, ref->digest[0] ? '@' : ':',
                       image_ref_version(ref));
}
