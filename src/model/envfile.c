#include "model/envfile.h"

#include <errno.h>
#include <stddef.h>

static const struct {
        const char *name;
        size_t at;
} vars[] = {
        {"E2B_API_URL", offsetof(struct envfile, api_url)},
        {"E2B_SANDBOX_URL", offsetof(struct envfile, sandbox_url)},
        {"E2B_DOMAIN", offsetof(struct envfile, domain)},
        {"E2B_API_KEY", offsetof(struct envfile, api_key)},
        {"NODE_EXTRA_CA_CERTS", offsetof(struct envfile, ca_certs)},
        {"SSL_CERT_FILE", offsetof(struct envfile, ca_bundle)},
};

static char **envfile_field(const struct envfile *e, size_t i)
{
        return (char **)(void *)((char *)e + vars[i].at);
}

/* 'it'\''s': in single quotes the shell takes everything as it is but the quote itself. */
static int add_quoted(struct buf *out, const char *text)
{
        int r = buf_addc(out, "'");

        for (; r == 0 && *text; text++)
                r = *text == '\'' ? buf_addc(out, "'\\''") : buf_add(out, text, 1);
        return r < 0 ? r : buf_addc(out, "'");
}

int envfile_format(const struct envfile *e, struct buf *out)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_LEN(vars); i++) {
                if (!*envfile_field(e, i))
                        continue;
                r = buf_addf(out, "export %s=", vars[i].name);
                if (r == 0)
                        r = add_quoted(out, *envfile_field(e, i));
                if (r == 0)
                        r = buf_addc(out, "\n");
        }
        return r;
}

/* Undo add_quoted(); plain words are taken as they are. */
static int unquote(struct str s, struct buf *out)
{
        bool quoted = false;
        int r = 0;

        for (size_t i = 0; r == 0 && i < s.n; i++) {
                if (s.p[i] == '\'')
                        quoted = !quoted;
                else if (!quoted && s.p[i] == '\\' && i + 1 < s.n)
                        r = buf_add(out, &s.p[++i], 1);
                else
                        r = buf_add(out, &s.p[i], 1);
        }
        return quoted ? -EINVAL : r;
}

static int parse_line(struct str line, struct envfile *e)
{
        AUTO_BUF struct buf value = BUF_INIT(ENVFILE_MAX);
        struct str name;
        char *copy;
        int r;

        if (!str_starts(line, "export "))
                return 0;
        line = (struct str){line.p + 7, line.n - 7};
        if (!str_cut(&line, '=', &name))
                return 0;
        for (size_t i = 0; i < ARRAY_LEN(vars); i++) {
                if (!str_is(name, vars[i].name))
                        continue;
                r = unquote(line, &value);
                if (r < 0)
                        return r;
                copy = str_dup((struct str){(const char *)buf_at(&value), value.len});
                if (!copy)
                        return -ENOMEM;
                free(*envfile_field(e, i));
                *envfile_field(e, i) = copy;
        }
        return 0;
}

int envfile_parse(struct str text, struct envfile *ret)
{
        struct envfile e = {0};
        struct str line;
        bool more;
        int r;

        do {
                more = str_cut(&text, '\n', &line);
                r = str_has_nul(line) ? -EINVAL : parse_line(line, &e);
                if (r < 0) {
                        envfile_done(&e);
                        return r;
                }
        } while (more);
        *ret = e;
        return 0;
}

void envfile_done(struct envfile *e)
{
        for (size_t i = 0; i < ARRAY_LEN(vars); i++) {
                free(*envfile_field(e, i));
                *envfile_field(e, i) = NULL;
        }
}
