#include "image/challenge.h"

#include <string.h>

static bool is_token_char(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip(struct str *s, const char *chars)
{
        while (s->n > 0 && s->p[0] && strchr(chars, s->p[0])) {
                s->p++;
                s->n--;
        }
}

static struct str take_token(struct str *s)
{
        struct str token = {s->p, 0};

        while (token.n < s->n && is_token_char(s->p[token.n]))
                token.n++;
        s->p += token.n;
        s->n -= token.n;
        return token;
}

/* Quoted or not; false: not well formed, or too long.  Without control characters. */
static bool take_value(struct str *s, char out[CHALLENGE_TEXT_MAX])
{
        bool is_quoted = s->n > 0 && s->p[0] == '"';
        size_t i = is_quoted ? 1 : 0, n = 0;

        for (; i < s->n; i++) {
                char c = s->p[i];

                if (is_quoted ? c == '"' : !is_token_char(c) && c != '/' && c != ':' && c != '=')
                        break;
                if (is_quoted && c == '\\' && ++i < s->n)
                        c = s->p[i];
                if (c < ' ' || c > '~' || n + 1 >= CHALLENGE_TEXT_MAX)
                        return false;
                out[n++] = c;
        }
        if (is_quoted && i >= s->n)
                return false;
        i += is_quoted;
        s->p += i;
        s->n -= i;
        out[n] = 0;
        return true;
}

/* The parameters of one challenge, up to the next word without '='. */
static bool take_params(struct str *s, struct challenge *one)
{
        char value[CHALLENGE_TEXT_MAX];

        for (;;) {
                struct str before, name;

                skip(s, " \t,");
                before = *s;
                name = take_token(s);
                skip(s, " \t");
                if (name.n == 0 || s->n == 0 || s->p[0] != '=') {
                        *s = before; /* the next challenge, or the end */
                        return true;
                }
                skip(s, "=");
                skip(s, " \t");
                if (!take_value(s, value))
                        return false;
                if (str_iis(name, "realm"))
                        memcpy(one->realm, value, sizeof(value));
                else if (str_iis(name, "service"))
                        memcpy(one->service, value, sizeof(value));
                else if (str_iis(name, "scope"))
                        memcpy(one->scope, value, sizeof(value));
        }
}

void challenge_parse(struct str header, struct challenge *ret)
{
        *ret = (struct challenge){0};
        for (;;) {
                struct challenge one = {0};
                struct str scheme;
                bool is_well_formed;

                skip(&header, " \t,");
                scheme = take_token(&header);
                if (scheme.n == 0)
                        return;
                is_well_formed = take_params(&header, &one);
                if (str_iis(scheme, "Bearer") && one.realm[0])
                        one.kind = CHALLENGE_BEARER;
                else if (str_iis(scheme, "Basic"))
                        one.kind = CHALLENGE_BASIC;
                if (is_well_formed && one.kind > ret->kind)
                        *ret = one;
                if (!is_well_formed)
                        return;
        }
}
