#include "cli/code/input.h"

#include <ctype.h>
#include <strings.h>

#include "base/auto.h"

const char *language_of_file(const char *path)
{
        static const struct {
                const char *ending, *language;
        } known[] = {
                {".py", "python"},
                {".js", "javascript"},
                {".mjs", "javascript"},
                {".cjs", "javascript"},
                {".ts", "typescript"},
                {".mts", "typescript"},
                {".r", "r"},
                {".R", "r"},
                {".java", "java"},
                {".jsh", "java"},
                {".sh", "bash"},
                {".bash", "bash"},
        };

        for (size_t i = 0; i < ARRAY_LEN(known); i++)
                if (str_ends(str_of(path), known[i].ending))
                        return known[i].language;
        return NULL;
}

const char *language_name(const char *given)
{
        static const struct {
                const char *alias, *name;
        } aliases[] = {
                {"js", "javascript"}, {"ts", "typescript"}, {"py", "python"}, {"python3", "python"}, {"sh", "bash"}};

        for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
                if (strcasecmp(aliases[i].alias, given) == 0)
                        return aliases[i].name;
        return given;
}

/* ---- how a language is written, as far as this needs to know ---- */

struct grammar {
        const char *quotes;      /* each opens a string that the same one closes on the line */
        const char *long_quotes; /* ... on any line */
        const char *line_comment;
        bool has_triple_quotes, has_block_comments, has_blocks_by_colon, has_keywords;
};

static const struct grammar *grammar_of(const char *language)
{
        static const struct grammar python = {.quotes = "\"'",
                                              .long_quotes = "",
                                              .line_comment = "#",
                                              .has_triple_quotes = true,
                                              .has_blocks_by_colon = true};
        static const struct grammar script = {
                .quotes = "\"'", .long_quotes = "`", .line_comment = "//", .has_block_comments = true};
        static const struct grammar java = {.quotes = "\"'",
                                            .long_quotes = "",
                                            .line_comment = "//",
                                            .has_triple_quotes = true,
                                            .has_block_comments = true};
        static const struct grammar r = {.quotes = "", .long_quotes = "\"'`", .line_comment = "#"};
        static const struct grammar bash = {
                .quotes = "", .long_quotes = "\"'", .line_comment = "#", .has_keywords = true};

        language = language_name(language);
        if (strcasecmp(language, "javascript") == 0 || strcasecmp(language, "typescript") == 0)
                return &script;
        if (strcasecmp(language, "java") == 0)
                return &java;
        if (strcasecmp(language, "r") == 0)
                return &r;
        return strcasecmp(language, "bash") == 0 ? &bash : &python;
}

struct scan {
        const struct grammar *g;
        struct str text;
        size_t at;
        long brackets, keywords;
        bool is_open; /* in the middle of a string, a comment or a line */
};

static bool scan_sees(const struct scan *s, const char *word)
{
        return word[0] && str_starts((struct str){s->text.p + s->at, s->text.n - s->at}, word);
}

/* Behind the next `end`; where there is none, the text is open. */
static void skip_past(struct scan *s, const char *end, bool has_escapes)
{
        while (s->at < s->text.n && !scan_sees(s, end))
                s->at += has_escapes && s->text.p[s->at] == '\\' ? 2 : 1;
        if (s->at >= s->text.n) {
                s->at = s->text.n;
                s->is_open = true;
        } else {
                s->at += strlen(end);
        }
}

/* A string that ends with its line: one that is not closed is the kernel's to complain about. */
static void skip_short_string(struct scan *s, char quote)
{
        for (s->at++; s->at < s->text.n && s->text.p[s->at] != '\n'; s->at++) {
                if (s->text.p[s->at] == quote) {
                        s->at++;
                        return;
                }
                if (s->text.p[s->at] == '\\')
                        s->at++;
        }
}

static bool skip_string(struct scan *s)
{
        char quote[] = {s->text.p[s->at], s->text.p[s->at], s->text.p[s->at], 0}, one[] = {quote[0], 0};

        if (s->g->has_triple_quotes && (quote[0] == '"' || quote[0] == '\'') && scan_sees(s, quote)) {
                s->at += 3;
                skip_past(s, quote, true);
                return true;
        }
        if (strchr(s->g->long_quotes, quote[0])) {
                s->at++;
                skip_past(s, one, !(s->g->has_keywords && quote[0] == '\''));
                return true;
        }
        if (!strchr(s->g->quotes, quote[0]))
                return false;
        skip_short_string(s, quote[0]);
        return true;
}

static bool is_word(char c)
{
        return isalnum((unsigned char)c) || c == '_';
}

/* if ... fi, do ... done, case ... esac: where a command may begin. */
static void count_keyword(struct scan *s)
{
        static const struct {
                const char *word;
                int change;
        } words[] = {{"if", 1}, {"fi", -1}, {"do", 1}, {"done", -1}, {"case", 1}, {"esac", -1}};
        size_t from = s->at;

        while (s->at < s->text.n && is_word(s->text.p[s->at]))
                s->at++;
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                if (str_is((struct str){s->text.p + from, s->at - from}, words[i].word))
                        s->keywords += words[i].change;
}

static void scan_step(struct scan *s, bool *may_begin_command)
{
        char c = s->text.p[s->at];
        bool begins = *may_begin_command;

        *may_begin_command = begins && (c == ' ' || c == '\t');
        if (c == '\0') {
                s->at++;
        } else if (scan_sees(s, s->g->line_comment) &&
                   (!s->g->has_keywords || begins || isspace((unsigned char)s->text.p[s->at - 1]))) {
                while (s->at < s->text.n && s->text.p[s->at] != '\n')
                        s->at++;
        } else if (s->g->has_block_comments && scan_sees(s, "/*")) {
                skip_past(s, "*/", false);
        } else if (s->g->has_keywords && is_word(c) && begins) {
                size_t from = s->at;
                struct str word;

                count_keyword(s);
                word = (struct str){s->text.p + from, s->at - from};
                *may_begin_command = str_is(word, "then") || str_is(word, "do") || str_is(word, "else") ||
                                     str_is(word, "while") || str_is(word, "until") || str_is(word, "if") ||
                                     str_is(word, "elif");
        } else if (!skip_string(s)) {
                s->brackets += c == '(' || c == '[' || c == '{';
                s->brackets -= c == ')' || c == ']' || c == '}';
                *may_begin_command |= c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == '{';
                s->at += c == '\\' && s->at + 1 < s->text.n && s->text.p[s->at + 1] != '\n' ? 2 : 1;
        }
}

/* A line that ends so continues on the next; `code` without its last line end. */
static bool has_trailing_backslash(struct str code)
{
        return code.n && code.p[code.n - 1] == '\\';
}

static struct str last_line(struct str code)
{
        size_t from = code.n;

        while (from && code.p[from - 1] != '\n')
                from--;
        return (struct str){code.p + from, code.n - from};
}

/* Python: a block begins with a line that ends in a colon, or a decorator, and ends with a blank line. */
static bool is_in_block(struct str code)
{
        struct str rest = code, line;
        bool goes_on = true;

        if (!str_trim(last_line(code)).n)
                return false;
        while (goes_on) {
                goes_on = str_cut(&rest, '\n', &line);
                line = str_trim(line);
                if (str_ends(line, ":") || str_starts(line, "@"))
                        return true;
        }
        return false;
}

enum input_state input_state_of(const char *language, struct str text)
{
        struct scan s = {.g = grammar_of(language), .text = text};
        struct str code = {text.p, text.n && text.p[text.n - 1] == '\n' ? text.n - 1 : text.n};
        bool may_begin_command = true;

        while (s.at < s.text.n)
                scan_step(&s, &may_begin_command);
        if (s.is_open || s.brackets > 0 || s.keywords > 0 || has_trailing_backslash(code))
                return INPUT_OPEN;
        return s.g->has_blocks_by_colon && is_in_block(code) ? INPUT_BLOCK : INPUT_COMPLETE;
}
