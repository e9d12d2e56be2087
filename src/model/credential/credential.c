#include "model/credential/credential.h"

#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "model/credential/credential_parts.h"

#define CLAUDE_FILE ".claude/.credentials.json"
#define CODEX_FILE ".codex/auth.json"
#define GIT_FILE ".git-credentials"
#define GIT_CONFIG_FILE ".config/git/config" /* read beside ~/.gitconfig, which may be the template's or the user's */
#define NPM_FILE ".npmrc"

/* ---- what it becomes ---- */

json_t *parts_new(void)
{
        return json_pack("{s:[],s:{}}", "files", "env");
}

int parts_add_file(json_t *parts, const char *path, struct str content, struct err *err)
{
        json_t *file =
                json_pack("{s:s,s:i,s:s%}", "path", path, "mode", CREDENTIAL_MODE, "content", content.p, content.n);

        if (!file || json_array_append_new(json_object_get(parts, "files"), file) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        return 0;
}

int parts_add_variable(json_t *parts, const char *name, struct str value, struct err *err)
{
        if (json_object_set_new(json_object_get(parts, "env"), name, json_stringn(value.p, value.n)) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        return 0;
}

void credential_blank(json_t *v)
{
        const char *key;
        json_t *item;
        size_t i;

        if (json_is_string(v))
                explicit_bzero((char *)json_string_value(v), json_string_length(v)); /* jansson has no other way */
        json_array_foreach (v, i, item)
                credential_blank(item);
        json_object_foreach (v, key, item)
                credential_blank(item);
}

void credential_free(json_t *v)
{
        credential_blank(v);
        json_decref(v);
}

/* ---- what values look like ---- */

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool value_is_token(struct str value, struct str *ret_token)
{
        while (value.n && is_blank(value.p[value.n - 1]))
                value.n--;
        while (value.n && is_blank(*value.p))
                value.p++, value.n--;
        if (value.n == 0 || value.n > CREDENTIAL_TOKEN_MAX)
                return false;
        for (size_t i = 0; i < value.n; i++)
                if (value.p[i] <= ' ' || value.p[i] > '~')
                        return false;
        *ret_token = value;
        return true;
}

bool value_is_object(struct str value)
{
        while (value.n && is_blank(*value.p))
                value.p++, value.n--;
        return value.n && *value.p == '{';
}

static bool has_text(const json_t *obj, const char *name)
{
        const char *text = json_string_value(json_object_get(obj, name));

        return text && text[0];
}

/* ---- the table: one row for each form of a credential ---- */

static bool is_claude_login(const json_t *file)
{
        return has_text(json_object_get(file, "claudeAiOauth"), "accessToken");
}

static bool is_codex_login(const json_t *file)
{
        return has_text(file, "OPENAI_API_KEY") || has_text(json_object_get(file, "tokens"), "access_token");
}

static bool is_claude_login_token(struct str token)
{
        return str_starts(token, "sk-ant-oat");
}

/* Not a line of .npmrc without blanks. */
static bool is_npm_token(struct str word)
{
        while (word.n && word.p[word.n - 1] == '=')
                word.n--;
        return word.n && !memchr(word.p, '=', word.n) && word.p[0] != '/';
}

static int unfold_codex_key(struct str token, json_t *parts, struct err *err)
{
        json_t *file = json_pack("{s:s,s:s%}", "auth_mode", "apikey", "OPENAI_API_KEY", token.p, token.n);
        char *text = file ? json_dumps(file, JSON_COMPACT) : NULL;
        int r = text ? parts_add_file(parts, CODEX_FILE, str_of(text), err) : err_set(err, ERR_LIMIT, "out of memory");

        if (text)
                explicit_bzero(text, strlen(text));
        free(text);
        credential_free(file);
        return r;
}

static int unfold_git(struct str value, json_t *parts, struct err *err)
{
        int r = check_git_lines(value, err);

        if (r == 0)
                r = parts_add_file(parts, GIT_FILE, value, err);
        return r < 0 ? r : parts_add_file(parts, GIT_CONFIG_FILE, STR("[credential]\n\thelper = store\n"), err);
}

static int unfold_npm_lines(struct str value, json_t *parts, struct err *err)
{
        int r = check_npm_lines(value, err);

        return r < 0 ? r : parts_add_file(parts, NPM_FILE, value, err);
}

/* The first row that fits decides. */
static const struct form {
        const char *name;
        /* What the value is: a JSON object of which this holds; or one word of which this holds (NULL: of any); or, with neither,
         * whatever `unfold` takes. */
        bool (*is_file)(const json_t *file);
        bool is_word;
        bool (*is_that_word)(struct str token);
        /* What it becomes: */
        const char *file;        /* the value as it is */
        const char *variable[2]; /* the word */
        int (*unfold)(struct str value, json_t *parts, struct err *err);
} forms[] = {
        {.name = "claude", .is_file = is_claude_login, .file = CLAUDE_FILE},
        {.name = "claude",
         .is_word = true,
         .is_that_word = is_claude_login_token,
         .variable = {"CLAUDE_CODE_OAUTH_TOKEN"}},
        {.name = "claude", .is_word = true, .variable = {"ANTHROPIC_API_KEY"}},
        {.name = "codex", .is_file = is_codex_login, .file = CODEX_FILE},
        {.name = "codex", .is_word = true, .unfold = unfold_codex_key},
        {.name = "git", .unfold = unfold_git},
        {.name = "npm", .is_word = true, .is_that_word = is_npm_token, .variable = {"NPM_TOKEN"}},
        {.name = "npm", .unfold = unfold_npm_lines},
        {.name = "anthropic", .is_word = true, .variable = {"ANTHROPIC_API_KEY"}},
        {.name = "openai", .is_word = true, .variable = {"OPENAI_API_KEY"}},
        {.name = "gemini", .is_word = true, .variable = {"GEMINI_API_KEY"}},
        {.name = "openrouter", .is_word = true, .variable = {"OPENROUTER_API_KEY"}},
        {.name = "huggingface", .is_word = true, .variable = {"HF_TOKEN"}},
        {.name = "github", .is_word = true, .variable = {"GH_TOKEN", "GITHUB_TOKEN"}},
};

static const struct {
        const char *name, *expects;
} expectations[] = {
        {"claude", "the content of ~/.claude/.credentials.json, or a token or API key"},
        {"codex", "the content of ~/.codex/auth.json, or an API key"},
};

static int does_not_fit(const char *name, struct err *err)
{
        for (size_t i = 0; i < ARRAY_LEN(expectations); i++)
                if (strcmp(expectations[i].name, name) == 0)
                        return err_set(err, ERR_INVALID, "%s: the value must be %s", name, expectations[i].expects);
        return err_set(err, ERR_INVALID, "%s: the value must be a key or token: one word", name);
}

static bool form_fits(const struct form *f, struct str value, const json_t *file, struct str *ret_word)
{
        if (f->is_file)
                return file && f->is_file(file);
        if (!f->is_word)
                return true;
        return !value_is_object(value) && value_is_token(value, ret_word) &&
               (!f->is_that_word || f->is_that_word(*ret_word));
}

static int form_unfold(const struct form *f, struct str value, struct str word, json_t *parts, struct err *err)
{
        int r = 0;

        if (f->unfold)
                return f->unfold(f->is_word ? word : value, parts, err);
        if (f->file)
                return parts_add_file(parts, f->file, value, err);
        for (size_t i = 0; r == 0 && i < ARRAY_LEN(f->variable) && f->variable[i]; i++)
                r = parts_add_variable(parts, f->variable[i], word, err);
        return r;
}

static int unfold_into(const char *name, struct str value, const json_t *file, json_t *parts, struct err *err)
{
        struct str word = {0};
        bool is_known = false;

        for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
                if (strcmp(forms[i].name, name) != 0)
                        continue;
                is_known = true;
                if (form_fits(&forms[i], value, file, &word))
                        return form_unfold(&forms[i], value, word, parts, err);
        }
        return is_known ? does_not_fit(name, err) : unfold_own(name, value, parts, err);
}

/* ---- what is asked for ---- */

bool credential_name_is_valid(struct str name)
{
        static const char letters[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
        const char *at;

        for (size_t i = 0; i < name.n; i++) {
                at = name.p[i] ? strchr(letters, name.p[i]) : NULL;
                if (!at || (i == 0 && at - letters > 52))
                        return false;
        }
        return name.n > 0 && name.n <= CREDENTIAL_NAME_MAX;
}

int credential_unfold(const char *name, struct str value, json_t **ret, struct err *err)
{
        json_t *parts, *file = NULL;
        int r;

        if (!credential_name_is_valid(str_of(name)))
                return err_set(err, ERR_INVALID,
                               "the name of a credential must have 1 to %u letters, digits, '-', '_' or '.', and begin "
                               "with a letter or '_'",
                               CREDENTIAL_NAME_MAX);
        if (value.n == 0 || value.n > CREDENTIAL_VALUE_MAX)
                return err_set(err, ERR_INVALID, "%s: the value must have 1 to %u bytes", name, CREDENTIAL_VALUE_MAX);
        if (!str_is_utf8(value) || str_has_nul(value))
                return err_set(err, ERR_INVALID, "%s: the value must be text (UTF-8)", name);
        parts = parts_new();
        if (!parts)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (value_is_object(value))
                file = json_loadb(value.p, value.n, 0, NULL);
        r = unfold_into(name, value, file, parts, err);
        credential_free(file);
        if (r < 0)
                credential_free(parts);
        else
                *ret = parts;
        return r;
}
