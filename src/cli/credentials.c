/* credentials.c - the command credentials: what agents in sandboxes authenticate with is set, listed and removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/terminal/hidden_line.h"
#include "cli/options.h"
#include "cli/output.h"

#define VALUE_MAX (64u << 10) /* as the server takes it */

const char credentials_usage[] =
        "usage: sandglass credentials set [--file FILE] [--team | --user] [--data DIR] NAME\n"
        "       sandglass credentials list [--json] [--data DIR]\n"
        "       sandglass credentials rm [--team | --user] [--data DIR] NAME...\n"
        "Manage what tools in sandboxes of the agent API authenticate with.  Each new sandbox gets it as files and "
        "variables.\n"
        "NAME is claude, codex, git, npm, anthropic, openai, gemini, openrouter, huggingface or github; a variable in "
        "capitals; or "
        "a name of your own.\n"
        "  set      store a credential, encrypted; a sandbox that exists already is not changed\n"
        "  list     list the credentials: whose, and when set.  What they are is never shown\n"
        "  rm       remove credentials\n"
        "  --file   read the value from this file (default: standard input; a terminal is asked, without echo)\n"
        "  --team   for everybody with a key of the team (the default)\n"
        "  --user   for your own key only; instead of the team's credential of the same name\n";

/* ---- the value ---- */

static void forget(struct buf *b)
{
        if (b->mem)
                explicit_bzero(b->mem, b->cap);
        buf_done(b);
}

/* Into memory that does not move, so that no copy stays behind. */
static int read_all(int fd, struct buf *out, struct err *err)
{
        uint8_t *at;
        ssize_t n;

        if (buf_reserve(out, VALUE_MAX + 1, &at) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        do {
                n = buf_fill(out, fd, buf_room(out));
        } while (n > 0);
        if (n == -E2BIG || out->len > VALUE_MAX)
                return err_set(err, ERR_INVALID, "the value has more than %u bytes", VALUE_MAX);
        return n < 0 ? err_sys(err, (int)n, "read the value") : 0;
}

static int ask_terminal(const char *name, struct buf *out, struct err *err)
{
        AUTO_FREE char *question = NULL;

        if (asprintf(&question, "Value of %s, one line (it is not shown): ", name) < 0) {
                question = NULL;
                return err_set(err, ERR_LIMIT, "out of memory");
        }
        return hidden_line_ask(question, VALUE_MAX, out, err);
}

static int take_value(const struct cli_options *o, struct buf *out, struct err *err)
{
        AUTO_CLOSE int fd = -1;

        if (!o->file && isatty(STDIN_FILENO))
                return ask_terminal(o->args[0], out, err);
        if (!o->file)
                return read_all(STDIN_FILENO, out, err);
        fd = open(o->file, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? err_sys(err, -errno, "open '%s'", o->file) : read_all(fd, out, err);
}

/* ---- the calls ---- */

static char *target_of(const struct cli_options *o, const char *name)
{
        return api_target("/sandglass/credentials/", name, o->of_user ? "?scope=user" : "?scope=team");
}

static int set_credential(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        AUTO(forget) struct buf value = BUF_INIT(VALUE_MAX + 1);
        AUTO_FREE char *target = target_of(o, o->args[0]);
        json_t *body, *text;
        int r = take_value(o, &value, err);

        if (r < 0)
                return cli_fail("credentials", err);
        text = json_stringn((const char *)buf_at(&value), value.len);
        body = text ? json_pack("{s:O}", "value", text) : NULL;
        if (!text)
                r = err_set(err, ERR_INVALID, "the value must be text (UTF-8)");
        else if (!body || !target)
                r = err_set(err, ERR_LIMIT, "out of memory");
        else
                r = api_request(api, "PUT", target, body, NULL, err);
        if (text)
                explicit_bzero((char *)json_string_value(text), json_string_length(text));
        json_decref(body);
        json_decref(text);
        if (r < 0)
                return cli_fail("credentials", err);
        (void)fprintf(stderr, "New sandboxes of the agent API get it: %s.\n",
                      o->of_user ? "those made with your own key" : "those of everybody with a key of the team");
        return 0;
}

static int remove_credentials(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        int code = 0;

        for (int i = 0; i < o->arg_count; i++) {
                AUTO_FREE char *target = target_of(o, o->args[i]);

                if (!target)
                        (void)err_set(err, ERR_LIMIT, "out of memory");
                if (!target || api_request(api, "DELETE", target, NULL, NULL, err) < 0)
                        code = cli_fail("credentials", err);
        }
        return code;
}

static void print_credentials(const json_t *list)
{
        size_t i;
        json_t *c;

        (void)printf("%-24s %-5s %-19s %-19s %s\n", "NAME", "FOR", "FIRST SET", "SET", "STATE");
        json_array_foreach ((json_t *)list, i, c)
                (void)printf("%-24s %-5s %-19.19s %-19.19s %s\n", output_text(c, "name"), output_text(c, "scope"),
                             output_text(c, "createdAt"), output_text(c, "updatedAt"),
                             json_is_true(json_object_get(c, "readable")) ? "ok" : "encrypted with a key that is gone");
}

static int list_credentials(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        json_t *list = NULL;

        if (api_request(api, "GET", "/sandglass/credentials", NULL, &list, err) < 0)
                return cli_fail("credentials", err);
        output_list(list, o->json, print_credentials);
        json_decref(list);
        return 0;
}

static const struct credentials_deed {
        const char *word;
        unsigned takes;
        int args_min, args_max;
        int (*run)(struct cli_api *api, const struct cli_options *o, struct err *err);
} credentials_deeds[] = {
        {"set", CLI_DATA | CLI_FILE | CLI_SCOPE, 1, 1, set_credential},
        {"list", CLI_DATA | CLI_JSON, 0, 0, list_credentials},
        {"rm", CLI_DATA | CLI_SCOPE, 1, 1000, remove_credentials},
        {NULL, 0, 0, 0, NULL},
};

int credentials_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        const struct credentials_deed *d = credentials_deeds;
        struct err err = {0};
        struct cli_api api;
        int code;

        while (d->word && (argc < 2 || strcmp(d->word, argv[1]) != 0))
                d++;
        if (d->word)
                argc--, argv++;
        if (cli_options_parse(argc, argv, d->takes | CLI_ANYWHERE, &o, &err) < 0 || o.help || !d->word ||
            o.arg_count < d->args_min || o.arg_count > d->args_max)
                return cli_usage(&o, credentials_usage, &err);
        if (o.of_team && o.of_user) {
                (void)err_set(&err, ERR_INVALID, "--team and --user: only one of them");
                return cli_usage(&o, credentials_usage, &err);
        }
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("credentials", &err);
        code = d->run(&api, &o, &err);
        api_close(&api);
        return code;
}
