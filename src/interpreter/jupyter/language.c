#include "interpreter/jupyter/language.h"

#include <errno.h>

#include "interpreter/jupyter/json_text.h"

struct language {
        const char *name;
        int (*quote)(struct str text, struct buf *out);
        /* $n: the name, quoted; $b: the name, bare; $v: the value, quoted; $s: the seed */
        const char *set, *unset, *reseed;
        const char *fence; /* NULL: an execution of nothing takes a late interrupt */
        bool ignores_missing_directory, has_properties, needs_identifiers;
};

/* ---- quoting ---- */

/* A string of Python, R or Java: like a string of C, without the \x form, which takes more digits in some of them. */
static int quote_like_c(struct str text, struct buf *out)
{
        int r = buf_addc(out, "\"");

        for (size_t i = 0; r == 0 && i < text.n; i++) {
                unsigned char c = (unsigned char)text.p[i];

                if (c == '"' || c == '\\')
                        r = buf_addf(out, "\\%c", c);
                else if (c == '\n')
                        r = buf_addc(out, "\\n");
                else if (c == '\r')
                        r = buf_addc(out, "\\r");
                else if (c < 0x20 || c == 0x7f)
                        r = buf_addf(out, "\\%03o", c);
                else
                        r = buf_add(out, &c, 1);
        }
        return r < 0 ? r : buf_addc(out, "\"");
}

/* A constant of Java holds 65535 bytes, and constants that are added become one: they are joined when the statement runs. */
#define JAVA_PIECE 32768 /* no byte of UTF-8 takes more than one and a half there */

static int quote_for_java(struct str text, struct buf *out)
{
        int r;

        if (text.n <= JAVA_PIECE)
                return quote_like_c(text, out);
        r = buf_addc(out, "String.join(\"\"");
        while (r == 0 && text.n) {
                size_t n = text.n < JAVA_PIECE ? text.n : JAVA_PIECE;

                while (n < text.n && n > 1 && ((unsigned char)text.p[n] & 0xc0) == 0x80) /* not within a character */
                        n--;
                r = buf_addc(out, ", ");
                if (r == 0)
                        r = quote_like_c((struct str){text.p, n}, out);
                text = (struct str){text.p + n, text.n - n};
        }
        return r < 0 ? r : buf_addc(out, ")");
}

static int quote_for_shell(struct str text, struct buf *out)
{
        int r = buf_addc(out, "'");

        for (size_t i = 0; r == 0 && i < text.n; i++)
                r = text.p[i] == '\'' ? buf_addc(out, "'\\''") : buf_add(out, text.p + i, 1);
        return r < 0 ? r : buf_addc(out, "'");
}

/* A terminal is between us and bash: line ends and control characters are written as escapes. */
static int quote_for_bash(struct str text, struct buf *out)
{
        int r;

        for (size_t i = 0; i < text.n; i++)
                if ((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f)
                        goto has_control_characters;
        return quote_for_shell(text, out);

has_control_characters:
        r = buf_addc(out, "$'");
        for (size_t i = 0; r == 0 && i < text.n; i++) {
                unsigned char c = (unsigned char)text.p[i];

                if (c == '\'' || c == '\\')
                        r = buf_addf(out, "\\%c", c);
                else if (c < 0x20 || c == 0x7f)
                        r = buf_addf(out, "\\%03o", c);
                else
                        r = buf_add(out, &c, 1);
        }
        return r < 0 ? r : buf_addc(out, "'");
}

/* ---- the table ---- */

/* No statement leaves a name behind in the user's namespace, or a value that would be shown. */
static const struct language languages[] = {
        {
                .name = "python",
                .quote = quote_like_c,
                .set = "__import__('os').environ.__setitem__($n, $v)\n",
                .unset = "__import__('os').environ.pop($n, None)\n",
                /* our kernel knows more generators than these two */
                .reseed = "(lambda m: m['sandglass_kernel'].reseed() if 'sandglass_kernel' in m else"
                          " (__import__('random').seed(), 'numpy.random' in m and m['numpy.random'].seed()))"
                          "(__import__('sys').modules)\n",
                .ignores_missing_directory = true,
        },
        {
                .name = "javascript",
                .quote = json_text_quote,
                .set = "process.env[$n] = $v;\n",
                .unset = "delete process.env[$n];\n",
                .reseed = "globalThis[Symbol.for('sandglass.reseed')]?.();\n", /* our kernel has this function */
        },
        {
                .name = "r",
                .quote = quote_like_c,
                .set = "base::do.call(base::Sys.setenv, base::structure(base::list($v), names = $n))\n",
                .unset = "base::Sys.unsetenv($n)\n",
                .reseed = "base::set.seed($sL)\n",
                .fence =
                        "base::Sys.sleep(0.02)\n", /* R looks for interrupts while it waits or computes, not in an empty cell */
        },
        {
                .name = "java",
                .quote = quote_for_java,
                .set = "{ System.setProperty($n, $v); }\n",
                .unset = "{ System.clearProperty($n); }\n",
                .ignores_missing_directory = true,
                .has_properties = true,
        },
        {
                .name = "bash",
                .quote = quote_for_bash,
                .set = "export $b=$v\n",
                .unset = "unset $b\n",
                .reseed = "RANDOM=$s\n",
                .needs_identifiers = true,
        },
};

const struct language *language_find(const char *kernel_language)
{
        if (strcasecmp(kernel_language, "typescript") == 0)
                kernel_language = "javascript";
        for (size_t i = 0; i < ARRAY_LEN(languages); i++)
                if (strcasecmp(kernel_language, languages[i].name) == 0)
                        return &languages[i];
        return NULL;
}

bool language_ignores_missing_directory(const struct language *l)
{
        return l && l->ignores_missing_directory;
}

bool language_has_process_environment(const struct language *l)
{
        return l && !l->has_properties;
}

/* ---- names ---- */

int language_normalise(struct str name, char out[LANGUAGE_NAME_MAX])
{
        static const char blanks[] = " \t\n\r\f\v";

        while (name.n && memchr(blanks, name.p[0], sizeof(blanks) - 1))
                name = (struct str){name.p + 1, name.n - 1};
        while (name.n && memchr(blanks, name.p[name.n - 1], sizeof(blanks) - 1))
                name.n--;
        if (name.n == 0 || str_iis(name, "js") || str_iis(name, "ts"))
                name = name.n == 0 ? STR("python") : str_iis(name, "js") ? STR("javascript") : STR("typescript");
        if (name.n >= LANGUAGE_NAME_MAX)
                return -E2BIG;
        for (size_t i = 0; i < name.n; i++)
                out[i] = name.p[i] >= 'A' && name.p[i] <= 'Z' ? (char)(name.p[i] | 0x20) : name.p[i];
        out[name.n] = 0;
        return 0;
}

const char *language_kernel(const char *language)
{
        return strcmp(language, "typescript") == 0 ? "javascript" : language;
}

/* ---- statements ---- */

bool variable_is_valid(struct str name, struct str value)
{
        return name.n && !memchr(name.p, '=', name.n) && !str_has_nul(name) && !str_has_nul(value);
}

static bool is_identifier(struct str name)
{
        for (size_t i = 0; i < name.n; i++) {
                char c = name.p[i];
                bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

                if (!is_letter && (i == 0 || c < '0' || c > '9'))
                        return false;
        }
        return name.n > 0;
}

struct blanks {
        struct str name, value;
        uint32_t seed;
};

static int add_statement(const struct language *l, const char *pattern, const struct blanks *fill, struct buf *out)
{
        int r = 0;

        for (const char *at = pattern; r == 0 && *at; at++) {
                if (*at != '$') {
                        r = buf_add(out, at, 1);
                        continue;
                }
                switch (*++at) {
                case 'n': r = l->quote(fill->name, out); break;
                case 'b': r = buf_add(out, fill->name.p, fill->name.n); break;
                case 'v': r = l->quote(fill->value, out); break;
                case 's': r = buf_addf(out, "%u", fill->seed); break;
                default: return -EINVAL;
                }
        }
        return r;
}

static bool can_hold(const struct language *l, struct str name)
{
        return l && (!l->needs_identifiers || is_identifier(name));
}

int language_set(const struct language *l, struct str name, struct str value, struct buf *out)
{
        return can_hold(l, name) ? add_statement(l, l->set, &(struct blanks){name, value, 0}, out) : 0;
}

int language_unset(const struct language *l, struct str name, struct buf *out)
{
        return can_hold(l, name) ? add_statement(l, l->unset, &(struct blanks){.name = name}, out) : 0;
}

int language_reseed(const struct language *l, uint32_t seed, struct buf *out)
{
        return l && l->reseed ? add_statement(l, l->reseed, &(struct blanks){.seed = seed & 0x7fffffff}, out) : 0;
}

int language_fence(const struct language *l, struct buf *out)
{
        return l && l->fence ? buf_addc(out, l->fence) : 0;
}
