/* The lines of ~/.git-credentials and of an .npmrc. */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "model/credential/credential_parts.h"

static bool is_comment(struct str line, const char *marks)
{
        return line.n == 0 || strchr(marks, line.p[0]);
}

/* "https://USER:SECRET@HOST", as git writes it: what is special in user and secret is percent-encoded. */
static bool is_git_line(struct str line)
{
        static const char *const schemes[] = {"https://", "http://"};
        struct str rest = {0}, user, login;

        for (size_t i = 0; i < ARRAY_LEN(schemes) && !rest.p; i++)
                if (str_starts(line, schemes[i]))
                        rest = (struct str){line.p + strlen(schemes[i]), line.n - strlen(schemes[i])};
        if (!rest.p || memchr(line.p, ' ', line.n) || memchr(line.p, '\t', line.n))
                return false;
        if (!str_cut(&rest, '@', &login) || memchr(login.p, '/', login.n) || rest.n == 0 || rest.p[0] == '/')
                return false;
        return str_cut(&login, ':', &user) && user.n > 0 && login.n > 0;
}

/* ERR_INVALID names the line's number. */
static int check_lines(struct str value, const char *marks, bool (*is_line)(struct str line), const char *expected,
                       struct err *err)
{
        unsigned number = 0, found = 0;
        struct str line;
        bool more;

        do {
                more = str_cut(&value, '\n', &line);
                line = str_trim(line.n && line.p[line.n - 1] == '\r' ? (struct str){line.p, line.n - 1} : line);
                number++;
                if (is_comment(line, marks))
                        continue;
                if (!is_line(line))
                        return err_set(err, ERR_INVALID, "line %u of the value must be %s", number, expected);
                found++;
        } while (more);
        if (found == 0)
                return err_set(err, ERR_INVALID, "the value must have at least one line: %s", expected);
        return 0;
}

int check_git_lines(struct str value, struct err *err)
{
        int r = check_lines(value, "#", is_git_line, "https://USER:TOKEN@HOST, as in ~/.git-credentials", err);

        return r < 0 ? err_wrap(err, "git") : 0;
}

/* "NAME=VALUE", with blanks around both as one likes. */
static bool is_npm_line(struct str line)
{
        struct str key;

        return str_cut(&line, '=', &key) && str_trim(key).n > 0;
}

int check_npm_lines(struct str value, struct err *err)
{
        int r = check_lines(value, "#;", is_npm_line, "NAME=VALUE as in ~/.npmrc (or the whole value one token)", err);

        return r < 0 ? err_wrap(err, "npm") : 0;
}
