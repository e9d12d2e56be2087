/* keys.c - the command key: API keys are made, listed and revoked by the operator. */
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"

#define MASK_ROOM 32

const char key_usage[] =
        "usage: sandglass key create [--team TEAM] [--json] [--data DIR] NAME\n"
        "       sandglass key list [--team TEAM] [--json] [--data DIR]\n"
        "       sandglass key revoke [--team TEAM] [--data DIR] KEY...\n"
        "Manage the API keys of a server.  Needs the operator's key, which root finds in DIR/env.\n"
        "  create   make a key for somebody, and print it: it is shown only once\n"
        "  list     list the keys: name, mask, kind, when made, when last used\n"
        "  revoke   make keys invalid at once; KEY is a key's id, or its name if no other key has the same\n"
        "  --team   the team's id or short name, if the server has several teams (default: the operator's own)\n"
        "Members of the server's group need none of this: `sandglass env`.\n";

/* "e2b_ab...9f3c" */
static void format_mask(const json_t *key, char out[MASK_ROOM])
{
        const json_t *mask = json_object_get(key, "mask");

        (void)snprintf(out, MASK_ROOM, "%.8s%.4s...%.8s", output_text(mask, "prefix"),
                       output_text(mask, "maskedValuePrefix"), output_text(mask, "maskedValueSuffix"));
}

/* The user's name where the system knows it: the server knows numbers only. */
static const char *shown_name(const json_t *key)
{
        const json_t *uid = json_object_get(key, "uid");
        const struct passwd *pw = json_is_integer(uid) ? getpwuid((uid_t)json_integer_value(uid)) : NULL;

        return pw ? pw->pw_name : output_text(key, "name");
}

static void print_keys(const json_t *list)
{
        char mask[MASK_ROOM];
        size_t i;
        json_t *key;

        (void)printf("%-36s %-14s %-9s %-19s %-19s %s\n", "ID", "KEY", "KIND", "MADE", "LAST USED", "NAME");
        json_array_foreach ((json_t *)list, i, key) {
                format_mask(key, mask);
                (void)printf("%-36s %-14s %-9s %-19.19s %-19.19s %s\n", output_text(key, "id"), mask,
                             output_text(key, "kind"), output_text(key, "createdAt"), output_text(key, "lastUsed"),
                             shown_name(key));
        }
}

static int list_keys(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        json_t *list = NULL;

        if (api_keys(api, &list, err) < 0)
                return cli_fail("key", err);
        output_list(list, o->json, print_keys);
        json_decref(list);
        return 0;
}

static int create_key(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        json_t *key = NULL;

        if (api_key_create(api, o->args[0], &key, err) < 0)
                return cli_fail("key", err);
        if (o->json) {
                output_json(key);
        } else {
                (void)puts(output_text(key, "key"));
                (void)fprintf(stderr, "This key is not shown again.  Clients set it as E2B_API_KEY.\n");
        }
        json_decref(key);
        return 0;
}

/* The key that `word` means: by its id, or by its name when only one has it. */
static const json_t *find_key(const json_t *list, const char *word, struct err *err)
{
        const json_t *found = NULL;
        json_t *key;
        size_t i;

        json_array_foreach ((json_t *)list, i, key) {
                if (strcmp(output_text(key, "id"), word) == 0)
                        return key;
                if (strcmp(output_text(key, "name"), word) != 0 && strcmp(shown_name(key), word) != 0)
                        continue;
                if (found) {
                        (void)err_set(err, ERR_INVALID, "several keys are called '%.60s': name one by its id", word);
                        return NULL;
                }
                found = key;
        }
        if (!found)
                (void)err_set(err, ERR_NOT_FOUND, "no key is called '%.60s', or has that id (`sandglass key list`)",
                              word);
        return found;
}

static int revoke_keys(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        json_t *list = NULL;
        int code = 0;

        if (api_keys(api, &list, err) < 0)
                return cli_fail("key", err);
        for (int i = 0; i < o->arg_count; i++) {
                const json_t *key = find_key(list, o->args[i], err);

                if (!key || api_key_revoke(api, output_text(key, "id"), err) < 0)
                        code = cli_fail("key", err);
                else if (strcmp(output_text(key, "kind"), "user") == 0)
                        (void)fprintf(
                                stderr,
                                "%s gets another key with the next command, as long as the user is a member of the "
                                "server's group.\n",
                                shown_name(key));
        }
        json_decref(list);
        return code;
}

static const struct key_deed {
        const char *word;
        unsigned takes;
        int args_min, args_max;
        int (*run)(struct cli_api *api, const struct cli_options *o, struct err *err);
} key_deeds[] = {
        {"create", CLI_DATA | CLI_JSON | CLI_TEAM, 1, 1, create_key},
        {"list", CLI_DATA | CLI_JSON | CLI_TEAM, 0, 0, list_keys},
        {"revoke", CLI_DATA | CLI_TEAM, 1, 1000, revoke_keys},
        {NULL, 0, 0, 0, NULL},
};

int key_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        const struct key_deed *d = key_deeds;
        struct err err = {0};
        struct cli_api api;
        int code;

        while (d->word && (argc < 2 || strcmp(d->word, argv[1]) != 0))
                d++;
        if (d->word)
                argc--, argv++;
        if (cli_options_parse(argc, argv, d->takes, &o, &err) < 0 || o.help || !d->word || o.arg_count < d->args_min ||
            o.arg_count > d->args_max)
                return cli_usage(&o, key_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("key", &err);
        api.team = o.team;
        code = d->run(&api, &o, &err);
        api_close(&api);
        return code;
}
