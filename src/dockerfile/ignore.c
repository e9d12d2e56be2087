#include "dockerfile/ignore.h"

#include <errno.h>
#include <stdlib.h>

#include "dockerfile/path_pattern.h"
#include "dockerfile/words.h"

static struct str trim(struct str s)
{
        while (s.n && char_is_blank(s.p[0]))
                s = (struct str){s.p + 1, s.n - 1};
        while (s.n && char_is_blank(s.p[s.n - 1]))
                s.n--;
        return s;
}

static int add(struct ignore *i, struct str text, bool keeps)
{
        struct ignore_pattern *more = reallocarray(i->at, i->count + 1, sizeof(*more));
        bool leaves;

        if (!more)
                return -ENOMEM;
        i->at = more;
        more[i->count] = (struct ignore_pattern){clean_path(text, &leaves), keeps};
        if (!more[i->count].text)
                return -ENOMEM;
        i->count++;
        i->has_keeps |= keeps;
        return 0;
}

int ignore_parse(struct str text, struct ignore *ret, struct problems *problems)
{
        struct ignore found = {0};
        struct str line;
        int r = 0;

        if (str_starts(text, "\xef\xbb\xbf"))
                text = (struct str){text.p + 3, text.n - 3};
        for (unsigned n = 1; r == 0 && text.n; n++) {
                bool keeps;

                (void)str_cut(&text, '\n', &line);
                if (str_starts(line, "#"))
                        continue;
                line = trim(line);
                keeps = str_starts(line, "!");
                if (keeps)
                        line = trim((struct str){line.p + 1, line.n - 1});
                if (str_has_nul(line) || !path_pattern_is_valid(line))
                        problems_error(problems, n, "not a pattern: a [ is not closed, or nothing follows a \\");
                else if (line.n)
                        r = problems_take(problems, n, add(&found, line, keeps));
                else if (keeps)
                        problems_error(problems, n, "nothing follows the !");
        }
        if (problems_has_errors(problems)) {
                ignore_done(&found);
                return -EINVAL;
        }
        *ret = found;
        return 0;
}

void ignore_done(struct ignore *i)
{
        for (size_t k = 0; k < i->count; k++)
                free(i->at[k].text);
        free(i->at);
        *i = (struct ignore){0};
}

static bool matches_or_above(const struct ignore_pattern *p, struct str path)
{
        if (path_pattern_matches(str_of(p->text), path, true))
                return true;
        for (size_t n = path.n; n > 0; n--)
                if (path.p[n - 1] == '/' && path_pattern_matches(str_of(p->text), (struct str){path.p, n - 1}, true))
                        return true;
        return false;
}

bool ignore_matches(const struct ignore *i, struct str path)
{
        for (size_t k = i->count; k > 0; k--)
                if (matches_or_above(&i->at[k - 1], path))
                        return !i->at[k - 1].keeps;
        return false;
}
