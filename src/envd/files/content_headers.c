#include "envd/files/content_headers.h"

#include <errno.h>
#include <stdio.h>

static const struct {
        const char *ext, *type;
} types[] = {
        {"avif", "image/avif"},
        {"c", "text/x-c; charset=utf-8"},
        {"css", "text/css; charset=utf-8"},
        {"csv", "text/csv; charset=utf-8"},
        {"gif", "image/gif"},
        {"gz", "application/gzip"},
        {"htm", "text/html; charset=utf-8"},
        {"html", "text/html; charset=utf-8"},
        {"ico", "image/vnd.microsoft.icon"},
        {"jpeg", "image/jpeg"},
        {"jpg", "image/jpeg"},
        {"js", "text/javascript; charset=utf-8"},
        {"json", "application/json"},
        {"md", "text/markdown; charset=utf-8"},
        {"mjs", "text/javascript; charset=utf-8"},
        {"mp3", "audio/mpeg"},
        {"mp4", "video/mp4"},
        {"pdf", "application/pdf"},
        {"png", "image/png"},
        {"py", "text/x-python; charset=utf-8"},
        {"sh", "text/x-sh; charset=utf-8"},
        {"svg", "image/svg+xml"},
        {"tar", "application/x-tar"},
        {"txt", "text/plain; charset=utf-8"},
        {"wasm", "application/wasm"},
        {"wav", "audio/x-wav"},
        {"webm", "video/webm"},
        {"webp", "image/webp"},
        {"xml", "text/xml; charset=utf-8"},
        {"zip", "application/zip"},
};

const char *content_type_of_name(struct str name)
{
        size_t dot = name.n;

        while (dot && name.p[dot - 1] != '.')
                dot--;
        if (!dot)
                return NULL;
        for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
                if (str_iis((struct str){name.p + dot, name.n - dot}, types[i].ext))
                        return types[i].type;
        return NULL;
}

static const struct {
        const char *bytes;
        size_t n;
        const char *type;
} magics[] = {
        {"%PDF-", 5, "application/pdf"},
        {"%!PS-Adobe-", 11, "application/postscript"},
        {"\xfe\xff", 2, "text/plain; charset=utf-16be"},
        {"\xff\xfe", 2, "text/plain; charset=utf-16le"},
        {"\xef\xbb\xbf", 3, "text/plain; charset=utf-8"},
        {"\x89PNG\r\n\x1a\n", 8, "image/png"},
        {"\xff\xd8\xff", 3, "image/jpeg"},
        {"GIF87a", 6, "image/gif"},
        {"GIF89a", 6, "image/gif"},
        {"BM", 2, "image/bmp"},
        {"\x1f\x8b\x08", 3, "application/x-gzip"},
        {"PK\x03\x04", 4, "application/zip"},
        {"Rar!\x1a\x07", 6, "application/x-rar-compressed"},
        {"\x00"
         "asm",
         4, "application/wasm"},
        {"OggS\x00", 5, "application/ogg"},
        {"ID3", 3, "audio/mpeg"},
};

static bool is_binary(const uint8_t *p, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (p[i] <= 8 || p[i] == 0x0b || (p[i] >= 0x0e && p[i] <= 0x1a) || (p[i] >= 0x1c && p[i] <= 0x1f))
                        return true;
        return false;
}

static bool starts_with_tag(struct str s, const char *tag) /* any case, then a blank or '>' */
{
        size_t n = strlen(tag);

        return s.n > n && str_iis((struct str){s.p, n}, tag) && (s.p[n] == ' ' || s.p[n] == '>');
}

const char *content_type_of_bytes(const void *p, size_t n)
{
        struct str s = {p, n};

        for (size_t i = 0; i < sizeof(magics) / sizeof(*magics); i++)
                if (n >= magics[i].n && memcmp(p, magics[i].bytes, magics[i].n) == 0)
                        return magics[i].type;
        while (s.n && (*s.p == ' ' || (*s.p >= '\t' && *s.p <= '\r')))
                s.p++, s.n--;
        if (starts_with_tag(s, "<!doctype html") || starts_with_tag(s, "<html") || starts_with_tag(s, "<head") ||
            starts_with_tag(s, "<body") || starts_with_tag(s, "<script"))
                return "text/html; charset=utf-8";
        if (str_starts(s, "<?xml"))
                return "text/xml; charset=utf-8";
        return is_binary(p, n) ? "application/octet-stream" : "text/plain; charset=utf-8";
}

static bool is_token_char(char c)
{
        return c > ' ' && c < 0x7f && !strchr("()<>@,;:\\\"/[]?=", c);
}

static bool needs_encoding(struct str s)
{
        for (size_t i = 0; i < s.n; i++)
                if ((s.p[i] < ' ' || s.p[i] > '~') && s.p[i] != '\t')
                        return true;
        return false;
}

static bool is_token(struct str s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!is_token_char(s.p[i]))
                        return false;
        return s.n > 0;
}

static int add_encoded(struct str s, struct buf *out)
{
        int r = buf_addc(out, "inline; filename*=utf-8''");

        for (size_t i = 0; r == 0 && i < s.n; i++) {
                if (is_token_char(s.p[i]) && !strchr("*'%", s.p[i]))
                        r = buf_add(out, s.p + i, 1);
                else
                        r = buf_addf(out, "%%%02X", (uint8_t)s.p[i]);
        }
        return r;
}

int content_disposition(struct str name, struct buf *out)
{
        int r;

        if (needs_encoding(name))
                return add_encoded(name, out);
        if (is_token(name))
                return buf_addf(out, "inline; filename=%.*s", STR_ARG(name));
        r = buf_addc(out, "inline; filename=\"");
        for (size_t i = 0; r == 0 && i < name.n; i++) {
                if (name.p[i] == '"' || name.p[i] == '\\')
                        r = buf_addc(out, "\\");
                if (r == 0)
                        r = buf_add(out, name.p + i, 1);
        }
        return r < 0 ? r : buf_addc(out, "\"");
}

void http_date_format(time_t t, char out[HTTP_DATE_MAX])
{
        struct tm tm;

        (void)gmtime_r(&t, &tm);
        (void)strftime(out, HTTP_DATE_MAX, "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

int http_date_parse(struct str s, time_t *ret)
{
        char text[HTTP_DATE_MAX];
        struct tm tm = {0};
        const char *end;

        if (s.n >= sizeof(text) || str_has_nul(s))
                return -EINVAL;
        memcpy(text, s.p, s.n);
        text[s.n] = 0;
        end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        if (!end || *end)
                return -EINVAL;
        *ret = timegm(&tm);
        return 0;
}

/* One "a-b", "a-" or "-n".  1; 0 beyond the end; -EINVAL. */
static int range_parse(struct str spec, uint64_t size, struct byte_range *ret)
{
        struct str first, last = spec;
        uint64_t from, to = UINT64_MAX;

        if (!str_cut(&last, '-', &first))
                return -EINVAL;
        first = str_trim(first);
        last = str_trim(last);
        if (first.n == 0) { /* the last n bytes */
                if (parse_u64(last, 0, UINT64_MAX, &to) < 0)
                        return -EINVAL;
                to = to < size ? to : size;
                *ret = (struct byte_range){size - to, to};
                return to > 0;
        }
        if (parse_u64(first, 0, UINT64_MAX, &from) < 0 ||
            (last.n && (parse_u64(last, 0, UINT64_MAX, &to) < 0 || to < from)))
                return -EINVAL;
        if (from >= size)
                return 0;
        if (to >= size)
                to = size - 1;
        *ret = (struct byte_range){from, to - from + 1};
        return 1;
}

int byte_ranges_parse(struct str value, uint64_t size, struct byte_range out[BYTE_RANGES_MAX])
{
        struct str unit, spec;
        uint64_t total = 0;
        bool any_beyond = false;
        int n = 0, r;

        if (value.n == 0)
                return 0;
        if (!str_cut(&value, '=', &unit) || !str_is(unit, "bytes"))
                return -EINVAL;
        while (value.n) {
                (void)str_cut(&value, ',', &spec);
                spec = str_trim(spec);
                if (spec.n == 0)
                        continue;
                if (n == BYTE_RANGES_MAX)
                        return -EINVAL;
                r = range_parse(spec, size, &out[n]);
                if (r < 0)
                        return r;
                any_beyond |= r == 0;
                if (r > 0)
                        total += out[n++].length;
        }
        if (n == 0 && any_beyond)
                return -ERANGE;
        return total > size ? 0 : n; /* together longer than the file: send the whole file */
}
