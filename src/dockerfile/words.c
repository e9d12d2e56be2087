#include "dockerfile/words.h"

#include <errno.h>
#include <jansson.h>

int words_add(struct words *w, struct str word)
{
        char **more = reallocarray(w->at, w->count + 1, sizeof(*more));

        if (!more)
                return -ENOMEM;
        w->at = more;
        more[w->count] = str_dup(word);
        if (!more[w->count])
                return -ENOMEM;
        w->count++;
        return 0;
}

void words_done(struct words *w)
{
        for (size_t i = 0; i < w->count; i++)
                free(w->at[i]);
        free(w->at);
        *w = (struct words){0};
}

int words_split(struct words *w, struct str text)
{
        size_t i = 0;
        int r = 0;

        while (r == 0) {
                size_t from;

                while (i < text.n && char_is_blank(text.p[i]))
                        i++;
                if (i == text.n)
                        break;
                from = i;
                while (i < text.n && !char_is_blank(text.p[i]))
                        i++;
                r = words_add(w, (struct str){text.p + from, i - from});
        }
        return r;
}

/* Where the word that begins at `i` ends. */
static size_t quoted_end(struct str text, size_t i, char escape)
{
        char quote = 0;

        for (; i < text.n; i++) {
                char c = text.p[i];

                if (c == escape && quote != '\'' && i + 1 < text.n)
                        i++;
                else if (quote)
                        quote = c == quote ? 0 : quote;
                else if (c == '"' || c == '\'')
                        quote = c;
                else if (char_is_blank(c))
                        break;
        }
        return i;
}

int words_split_quoted(struct words *w, struct str text, char escape)
{
        size_t i = 0;
        int r = 0;

        while (r == 0) {
                size_t from;

                while (i < text.n && char_is_blank(text.p[i]))
                        i++;
                if (i == text.n)
                        break;
                from = i;
                i = quoted_end(text, i, escape);
                r = words_add(w, (struct str){text.p + from, i - from});
        }
        return r;
}

int words_from_json(struct words *w, struct str text)
{
        json_t *array, *one;
        size_t i;
        int r = 1;

        text = str_trim(text);
        if (text.n == 0 || text.p[0] != '[')
                return 0;
        array = json_loadb(text.p, text.n, 0, NULL); /* its default refuses \u0000 */
        if (!array)
                return 0;
        json_array_foreach (array, i, one) {
                if (!json_is_string(one))
                        r = -EINVAL;
                else if (words_add(w, str_of(json_string_value(one))) < 0)
                        r = -ENOMEM;
                if (r < 0)
                        break;
        }
        json_decref(array);
        return r;
}
