#include "control/build/build_env.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/build/build_request.h"

#define DEPTH_MAX 8 /* of words in words */
#define NAME_MAX_BYTES 256

struct expansion {
        const json_t *env;
        const char *user;
        struct buf *out;
};

static size_t name_length(struct str s)
{
        size_t n = 0;

        while (n < s.n && (isalnum((unsigned char)s.p[n]) || s.p[n] == '_') &&
               !(n == 0 && isdigit((unsigned char)s.p[n])))
                n++;
        return n;
}

/* "": not set.  Borrowed, or in `room`. */
static const char *value_of(const struct expansion *x, struct str name, char room[NAME_MAX_BYTES])
{
        char key[NAME_MAX_BYTES];
        const char *v;

        if (name.n >= sizeof(key))
                return "";
        memcpy(key, name.p, name.n);
        key[name.n] = 0;
        v = json_string_value(json_object_get(x->env, key));
        if (v)
                return v;
        if (strcmp(key, "PATH") == 0)
                return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        if (strcmp(key, "HOME") != 0)
                return "";
        (void)snprintf(room, NAME_MAX_BYTES, "%s%s", strcmp(x->user, "root") == 0 ? "/" : "/home/", x->user);
        return room;
}

static int expand_into(const struct expansion *x, struct str s, int depth);

/* Where the brace that was opened before s is closed; s.n: nowhere. */
static size_t closing_brace(struct str s)
{
        int open = 1;
        size_t i;

        for (i = 0; i < s.n && open; i++)
                open += (s.p[i] == '{' && i > 0 && s.p[i - 1] == '$') - (s.p[i] == '}');
        return open ? s.n : i - 1;
}

/* s is what is between the braces.  1: it is none of ours, and stays as it is. */
static int expand_braces(const struct expansion *x, struct str s, int depth)
{
        size_t n = name_length(s);
        struct str name = {s.p, n}, word = {s.p + n + 2, s.n > n + 2 ? s.n - n - 2 : 0};
        char room[NAME_MAX_BYTES];
        const char *v;

        if (n == 0 || depth >= DEPTH_MAX)
                return 1;
        v = value_of(x, name, room);
        if (n == s.n)
                return buf_add(x->out, v, strlen(v));
        if (s.n < n + 2 || s.p[n] != ':' || (s.p[n + 1] != '-' && s.p[n + 1] != '+'))
                return 1;
        if (s.p[n + 1] == '-')
                return v[0] ? buf_add(x->out, v, strlen(v)) : expand_into(x, word, depth + 1);
        return v[0] ? expand_into(x, word, depth + 1) : 0;
}

/* s begins with '$'.  How much of it was used; 0: it is literal. */
static ssize_t expand_dollar(const struct expansion *x, struct str s, int depth)
{
        char room[NAME_MAX_BYTES];
        struct str inner;
        const char *v;
        size_t n;
        int r;

        if (s.n > 1 && s.p[1] == '{') {
                inner = (struct str){s.p + 2, s.n - 2};
                n = closing_brace(inner);
                if (n == inner.n)
                        return 0;
                r = expand_braces(x, (struct str){inner.p, n}, depth);
                return r < 0 ? r : r == 1 ? 0 : (ssize_t)n + 3;
        }
        n = name_length((struct str){s.p + 1, s.n - 1});
        if (n == 0)
                return 0;
        v = value_of(x, (struct str){s.p + 1, n}, room);
        r = buf_add(x->out, v, strlen(v));
        return r < 0 ? r : (ssize_t)n + 1;
}

static int expand_into(const struct expansion *x, struct str s, int depth)
{
        ssize_t used;
        int r;

        while (s.n > 0) {
                used = s.p[0] == '$' ? expand_dollar(x, s, depth) : 0;
                if (used < 0)
                        return (int)used;
                if (used == 0) {
                        r = buf_add(x->out, s.p, 1);
                        if (r < 0)
                                return r;
                        used = 1;
                }
                s.p += used;
                s.n -= (size_t)used;
        }
        return 0;
}

int build_env_expand(const char *text, const json_t *env, const char *user, char **ret, struct err *err)
{
        AUTO_BUF struct buf out = BUF_INIT(BUILD_ENV_VALUE_MAX);
        const struct expansion x = {.env = env, .user = user, .out = &out};
        int r = expand_into(&x, str_of(text), 0);

        if (r == 0)
                r = buf_add(&out, "", 1);
        if (r == -E2BIG)
                return err_set(err, ERR_INVALID, "ENV: a value is longer than %u bytes", BUILD_ENV_VALUE_MAX);
        *ret = r < 0 ? NULL : strdup((const char *)buf_at(&out));
        return *ret ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

/* user NULL: the value is taken as it is. */
static int apply_pair(json_t *to, const json_t *env, const char *name, const char *value, const char *user,
                      struct err *err)
{
        AUTO_FREE char *expanded = NULL;
        int r = 0;

        if (!name || !value || !name[0] || strchr(name, '='))
                return err_set(err, ERR_INVALID, "ENV: '%.100s' is not a name", name ? name : "");
        if (user)
                r = build_env_expand(value, env, user, &expanded, err);
        if (r < 0)
                return r;
        return json_object_set_new(to, name, json_string(expanded ? expanded : value)) < 0
                       ? err_set(err, ERR_INVALID, "ENV: the value of %.100s is not UTF-8", name)
                       : 0;
}

int build_env_apply(const json_t *env, const struct build_step *step, const char *user, json_t **ret, struct err *err)
{
        const json_t *pairs = step->args;
        json_t *to = json_deep_copy(env);
        size_t n = json_array_size(pairs);
        int r = to ? 0 : err_set(err, ERR_LIMIT, "out of memory");

        if (r == 0 && n % 2)
                r = err_set(err, ERR_INVALID, "ENV: a name without a value");
        for (size_t i = 0; r == 0 && i < n; i += 2)
                r = apply_pair(to, env, json_string_value(json_array_get(pairs, i)),
                               json_string_value(json_array_get(pairs, i + 1)), step->is_literal ? NULL : user, err);
        if (r < 0)
                json_decref(to);
        else
                *ret = to;
        return r;
}
