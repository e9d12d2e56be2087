#include "image/json_document.h"

#include <stdbool.h>

#include "base/err.h"

/* Brackets outside of text; what is no JSON is left to the parser. */
static bool is_too_deep(struct str text)
{
        bool in_text = false;
        int depth = 0;

        for (size_t i = 0; i < text.n; i++) {
                char c = text.p[i];

                if (in_text && c == '\\')
                        i++;
                else if (c == '"')
                        in_text = !in_text;
                else if (!in_text && (c == '{' || c == '['))
                        depth++;
                else if (!in_text && (c == '}' || c == ']'))
                        depth--;
                if (depth > JSON_DOCUMENT_DEPTH_MAX)
                        return true;
        }
        return false;
}

static int parse(struct str text, size_t bytes_max, const char *what, json_t **ret, struct err *err)
{
        json_error_t where;

        if (text.n > bytes_max)
                return err_set(err, ERR_INVALID, "%s: is longer than %zu bytes", what, bytes_max);
        if (is_too_deep(text))
                return err_set(err, ERR_INVALID, "%s: is nested more than %d deep", what, JSON_DOCUMENT_DEPTH_MAX);
        *ret = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &where);
        if (!*ret)
                return err_set(err, ERR_INVALID, "%s: is not JSON (line %d)", what, where.line);
        return 0;
}

static int expect(bool is_expected, const char *what, const char *kind, json_t **ret, struct err *err)
{
        if (is_expected)
                return 0;
        json_decref(*ret);
        *ret = NULL;
        return err_set(err, ERR_INVALID, "%s: is not a JSON %s", what, kind);
}

int json_document_parse(struct str text, size_t bytes_max, const char *what, json_t **ret, struct err *err)
{
        json_t *got = NULL;
        int r = parse(text, bytes_max, what, &got, err);

        if (r == 0)
                r = expect(json_is_object(got), what, "object", &got, err);
        if (r == 0)
                *ret = got;
        return r;
}

int json_document_parse_array(struct str text, size_t bytes_max, const char *what, json_t **ret, struct err *err)
{
        json_t *got = NULL;
        int r = parse(text, bytes_max, what, &got, err);

        if (r == 0)
                r = expect(json_is_array(got), what, "array", &got, err);
        if (r == 0)
                *ret = got;
        return r;
}
