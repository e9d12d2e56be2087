/* Which values a credential takes, and what a sandbox gets of it. */
#include "tap.h"

#include "base/auto.h"
#include "base/err.h"
#include "model/credential/credential.h"

static void free_p(json_t **v)
{
        credential_free(*v);
}
#define AUTO_PARTS AUTO(free_p)

static json_t *unfold(const char *name, const char *value)
{
        struct err err = {0};
        json_t *parts = NULL;

        if (credential_unfold(name, str_of(value), &parts, &err) < 0)
                printf("# %s: %s\n", name, err.msg);
        return parts;
}

static const char *file_of(const json_t *parts, const char *path)
{
        json_t *file;
        size_t i;

        json_array_foreach (json_object_get(parts, "files"), i, file)
                if (strcmp(json_string_value(json_object_get(file, "path")), path) == 0 &&
                    json_integer_value(json_object_get(file, "mode")) == 0600)
                        return json_string_value(json_object_get(file, "content"));
        return NULL;
}

static const char *variable_of(const json_t *parts, const char *name)
{
        return json_string_value(json_object_get(json_object_get(parts, "env"), name));
}

#define CLAUDE_LOGIN                                                                                                   \
        "{\"claudeAiOauth\":{\"accessToken\":\"sk-ant-oat01-x\",\"refreshToken\":\"r\",\"expiresAt\":1,\"scopes\":[]}" \
        "}\n"
#define CODEX_LOGIN "{\"auth_mode\":\"chatgpt\",\"OPENAI_API_KEY\":null,\"tokens\":{\"access_token\":\"a\"}}"
#define CODEX_KEY "{\"auth_mode\":\"apikey\",\"OPENAI_API_KEY\":\"sk-abc\"}"
#define GIT_LINES "https://me:t%40ken@git.example\n# mine\n\nhttp://u:p@127.0.0.1:3000/path\n"

static void each_form_becomes_its_files_and_variables(void)
{
        static const struct {
                const char *name, *value, *file, *content, *variable, *text;
        } rows[] = {
                {"claude", CLAUDE_LOGIN, ".claude/.credentials.json", CLAUDE_LOGIN, NULL, NULL},
                {"claude", "sk-ant-oat01-abc\n", NULL, NULL, "CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-abc"},
                {"claude", "sk-ant-api03-abc", NULL, NULL, "ANTHROPIC_API_KEY", "sk-ant-api03-abc"},
                {"claude", " gateway-key \r\n", NULL, NULL, "ANTHROPIC_API_KEY", "gateway-key"},
                {"codex", CODEX_LOGIN, ".codex/auth.json", CODEX_LOGIN, NULL, NULL},
                {"codex", CODEX_KEY, ".codex/auth.json", CODEX_KEY, NULL, NULL},
                {"codex", "sk-abc\n", ".codex/auth.json", CODEX_KEY, NULL, NULL},
                {"git", GIT_LINES, ".git-credentials", GIT_LINES, NULL, NULL},
                {"git", GIT_LINES, ".config/git/config", "[credential]\n\thelper = store\n", NULL, NULL},
                {"npm", "npm_abc==\n", NULL, NULL, "NPM_TOKEN", "npm_abc=="},
                {"npm", "//npm.example/:_authToken=abc", ".npmrc", "//npm.example/:_authToken=abc", NULL, NULL},
                {"npm", "; mine\nregistry = https://npm.example\n", ".npmrc",
                 "; mine\nregistry = https://npm.example\n", NULL, NULL},
                {"anthropic", "k", NULL, NULL, "ANTHROPIC_API_KEY", "k"},
                {"openai", "k", NULL, NULL, "OPENAI_API_KEY", "k"},
                {"gemini", "k", NULL, NULL, "GEMINI_API_KEY", "k"},
                {"openrouter", "k", NULL, NULL, "OPENROUTER_API_KEY", "k"},
                {"huggingface", "k", NULL, NULL, "HF_TOKEN", "k"},
                {"github", "k", NULL, NULL, "GH_TOKEN", "k"},
                {"github", "k", NULL, NULL, "GITHUB_TOKEN", "k"},
                {"MY_TOKEN_2", "k", NULL, NULL, "MY_TOKEN_2", "k"},
                {"mine", "{\"env\":{\"A_b\":\"c d\"},\"files\":{\".aws/credentials\":\"[default]\\n\"}}",
                 ".aws/credentials", "[default]\n", "A_b", "c d"},
                {"mine", "{\"files\":{\"x\":\"\"}}", "x", "", NULL, NULL},
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_PARTS json_t *parts = unfold(rows[i].name, rows[i].value);

                printf("# row %zu: %s\n", i, rows[i].name);
                CHECK(parts);
                CHECK_INT(json_array_size(json_object_get(parts, "files")) > 0, ==, rows[i].file != NULL);
                CHECK_INT(json_object_size(json_object_get(parts, "env")) > 0, ==, rows[i].variable != NULL);
                if (rows[i].file)
                        CHECK_STR(file_of(parts, rows[i].file), rows[i].content);
                if (rows[i].variable)
                        CHECK_STR(variable_of(parts, rows[i].variable), rows[i].text);
        }
}

static void what_does_not_fit_is_refused_without_repeating_it(void)
{
        static const struct {
                const char *name, *value;
        } rows[] = {
                {"claude", "SECRET two"},
                {"claude", "{\"SECRET\":1}"},
                {"claude", "{\"claudeAiOauth\":{\"accessToken\":\"\"},\"SECRET\":1}"},
                {"claude", "{\"claudeAiOauth\":\"SECRET\"}"},
                {"codex", "{\"SECRET\":"},
                {"codex", "{\"OPENAI_API_KEY\":7,\"SECRET\":1}"},
                {"codex", "SECRET\nSECRET"},
                {"git", "SECRET"},
                {"git", "https://SECRET@git.example"},
                {"git", "https://me:@git.example/SECRET"},
                {"git", "https://:SECRET@git.example"},
                {"git", "https://me:SECRET@"},
                {"git", "https://me:SECRET@/path"},
                {"git", "ssh://me:SECRET@git.example"},
                {"git", "https://git.example/a:SECRET@b"},
                {"git", "https://me:p@git.example\nSECRET\n"},
                {"git", "# SECRET\n"},
                {"npm", "//npm.example/ SECRET"},
                {"npm", "a=b\n=SECRET"},
                {"npm", "; SECRET only"},
                {"openai", "SECRET two"},
                {"openai", "SECRET\x7f"},
                {"openai", "caf\xc3\xa9SECRET"},
                {"openai", "{\"SECRET\":1}"},
                {"openai", " \n"},
                {"MY_TOKEN", "SECRET two"},
                {"mine", "SECRET"},
                {"mine", "{\"SECRET\":1}"},
                {"mine", "{}"},
                {"mine", "{\"env\":{}}"},
                {"mine", "{\"env\":{\"SECRET\":1}}"},
                {"mine", "{\"env\":\"SECRET\"}"},
                {"mine", "{\"env\":{\"SEC RET\":\"x\"}}"},
                {"mine", "{\"env\":{\"1SECRET\":\"x\"}}"},
                {"mine", "{\"env\":{\"A\":\"b\"},\"env\":{\"SECRET\":\"b\"}}"},
                {"mine", "{\"files\":{\"/SECRET\":\"x\"}}"},
                {"mine", "{\"files\":{\"../SECRET\":\"x\"}}"},
                {"mine", "{\"files\":{\"a/../SECRET\":\"x\"}}"},
                {"mine", "{\"files\":{\"a/./SECRET\":\"x\"}}"},
                {"mine", "{\"files\":{\"a//SECRET\":\"x\"}}"},
                {"mine", "{\"files\":{\"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/SECRET\":\"x\"}}"},
                {"mine", "{\"files\":{\"SECRET/\":\"x\"}}"},
                {"mine", "{\"files\":{\"~/SECRET\":\"x\"}}"},
                {"mine", "{\"files\":{\"a\\nSECRET\":\"x\"}}"},
                {"mine", "{\"files\":{\"SECRET\":7}}"},
                {"mine", "{\"files\":{\"\":\"SECRET\"}}"},
                {"no spaces", "SECRET"},
                {"", "SECRET"},
                {"-x", "SECRET"},
                {"1x", "SECRET"},
                {"a/b", "SECRET"},
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct err err = {0};
                json_t *parts = NULL;

                printf("# row %zu: %s\n", i, rows[i].name);
                CHECK_INT(credential_unfold(rows[i].name, str_of(rows[i].value), &parts, &err), <, 0);
                CHECK_INT(err.kind, ==, ERR_INVALID);
                CHECK(!parts && err.msg[0] && !strstr(err.msg, "SECRET"));
        }
}

static int unfold_bytes(const char *name, const char *p, size_t n)
{
        json_t *parts = NULL;
        int r = credential_unfold(name, (struct str){p, n}, &parts, NULL);

        credential_free(parts);
        return r;
}

static void sizes_are_bounded(void)
{
        static char big[CREDENTIAL_VALUE_MAX + 1];
        char name[CREDENTIAL_NAME_MAX + 2] = "";

        memset(big, 'x', sizeof(big));
        CHECK_INT(unfold_bytes("openai", big, CREDENTIAL_TOKEN_MAX), ==, 0);
        CHECK_INT(unfold_bytes("openai", big, CREDENTIAL_TOKEN_MAX + 1), <, 0);
        memcpy(big, "a=", 2);
        CHECK_INT(unfold_bytes("npm", big, CREDENTIAL_VALUE_MAX), ==, 0);
        CHECK_INT(unfold_bytes("npm", big, CREDENTIAL_VALUE_MAX + 1), <, 0);
        CHECK_INT(unfold_bytes("npm", big, 0), <, 0);
        CHECK_INT(unfold_bytes("npm", "a=\0b", 4), <, 0);
        CHECK_INT(unfold_bytes("npm", "a=\xff", 3), <, 0);
        memset(name, 'A', CREDENTIAL_NAME_MAX + 1);
        CHECK_INT(unfold_bytes(name, "x", 1), <, 0);
        name[CREDENTIAL_NAME_MAX] = 0;
        CHECK_INT(unfold_bytes(name, "x", 1), ==, 0);
}

static void an_object_has_a_bounded_number_of_parts(void)
{
        for (unsigned n = CREDENTIAL_FILES_MAX; n <= CREDENTIAL_FILES_MAX + 1; n++) {
                json_t *files = json_object(), *env = json_object(), *all;
                char key[16], *text;
                int r;

                for (unsigned i = 0; i < n; i++) {
                        (void)snprintf(key, sizeof(key), "A%u", i);
                        (void)json_object_set_new(files, key, json_string("x"));
                        (void)json_object_set_new(env, key, json_string("x"));
                }
                all = json_pack("{s:o,s:o}", "files", files, "env", env);
                text = json_dumps(all, 0);
                r = unfold_bytes("mine", text, strlen(text));
                free(text);
                json_decref(all);
                CHECK_INT(r == 0, ==, n == CREDENTIAL_FILES_MAX);
        }
}

static void blanking_leaves_no_text(void)
{
        json_t *parts = unfold("mine", "{\"env\":{\"A\":\"secret\"},\"files\":{\"x\":\"secret\"}}");
        char *text;

        CHECK(parts);
        credential_blank(parts);
        text = json_dumps(parts, 0);
        json_decref(parts);
        CHECK(!text || !strstr(text, "secret"));
        free(text);
}

int main(void)
{
        RUN(each_form_becomes_its_files_and_variables);
        RUN(what_does_not_fit_is_refused_without_repeating_it);
        RUN(sizes_are_bounded);
        RUN(an_object_has_a_bounded_number_of_parts);
        RUN(blanking_leaves_no_text);
        return tap_done();
}
