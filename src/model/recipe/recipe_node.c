/* recipe_node.c - node, bun and deno: npm's registry has packages with their programs.
 *
 * A package is fetched with `npm pack` and unpacked: nothing is resolved, and no script of a package runs. */
#include <stdio.h>

#include "base/err.h"
#include "model/recipe/recipe_kinds.h"

#define NODE_LTS 26u   /* what node:lts is, the newest even major version in long-term support */
#define NODE_FIRST 16u /* older ones: no npm of today runs on them */
#define DENO_FIRST 2u  /* npm has no older one */

/* `fetch` puts packages into a temporary directory as NAME-VERSION.tgz.  `unpack NAME DIRECTORY [tar's options]`: the files of
 * one package, without its folder "package". */
#define FETCH                                                                                                          \
        "set -e\n"                                                                                                     \
        "arch=$(node -p process.arch)\n"                                                                               \
        "fetched=$(mktemp -d)\n"                                                                                       \
        "fetch() { (cd \"$fetched\" && npm pack --silent \"$@\" >/dev/null); }\n"                                      \
        "unpack() {\n"                                                                                                 \
        "  archive=$(echo \"$fetched\"/$1-[0-9]*.tgz); into=$2; shift 2; mkdir -p \"$into\"\n"                         \
        "  tar -xzf \"$archive\" -C \"$into\" --strip-components=1 --no-same-owner \"$@\"\n"                           \
        "}\n"

static const struct {
        const char *name;
        uint32_t major;
} node_names[] = {
        {"lts", NODE_LTS}, {"gallium", 16}, {"hydrogen", 18}, {"iron", 20}, {"jod", 22}, {"krypton", 24},
};

/* npm's range for the wanted version: "24", "22.4.1"; "latest". */
static int node_range(const struct recipe_tag *tag, char range[40], uint32_t *major, struct err *err)
{
        uint32_t minor;

        *major = UINT32_MAX;
        (void)snprintf(range, 40, "%s", tag->version[0] ? tag->version : "latest");
        for (size_t i = 0; i < sizeof(node_names) / sizeof(node_names[0]); i++)
                if (str_is(tag->word, node_names[i].name))
                        (void)snprintf(range, 40, "%u", node_names[i].major);
        if (recipe_version(range, major, &minor) ? *major < NODE_FIRST
                                                 : tag->word.n > 0 && !str_is(tag->word, "current"))
                return err_set(err, ERR_NOT_FOUND, "image '%.*s' needs a registry: recipes have node %u and newer",
                               STR_ARG(tag->image), NODE_FIRST);
        return 0;
}

static const char *npm_range(uint32_t node_major) /* the npm that comes with it */
{
        return node_major < 18 ? "8" : node_major < 23 ? "10" : node_major < 26 ? "11" : "latest";
}

int recipe_node(const struct recipe_tag *tag, struct recipe *r, struct err *err)
{
        char range[40];
        uint32_t major;
        int ret;

        ret = node_range(tag, range, &major, err);
        if (ret < 0)
                return ret;
        recipe_use_suite(r, recipe_suite_base());
        recipe_note(r, "node %s of npm's package on Debian %s stands in for %.*s", range, recipe_suite_base()->name,
                    STR_ARG(tag->image));
        recipe_note_variants(r, tag, recipe_suite_base());
        return recipe_add_run(
                r, err,
                FETCH "fetch node-linux-$arch@%s npm@%s yarn@1\n"
                      "unpack node-linux-$arch /usr/local package/bin package/include\n"
                      "unpack npm /usr/local/lib/node_modules/npm\n"
                      "unpack yarn /usr/local/lib/node_modules/yarn\n"
                      "cd /usr/local/bin\n"
                      "ln -sf node nodejs\n"
                      "ln -sf ../lib/node_modules/npm/bin/npm-cli.js npm\n"
                      "ln -sf ../lib/node_modules/npm/bin/npx-cli.js npx\n"
                      "ln -sf ../lib/node_modules/yarn/bin/yarn.js yarn\n"
                      "ln -sf ../lib/node_modules/yarn/bin/yarn.js yarnpkg\n"
                      "chmod 0755 ../lib/node_modules/npm/bin/*.js ../lib/node_modules/yarn/bin/yarn.js\n"
                      "id -u node >/dev/null 2>&1 || useradd --create-home --user-group --shell /bin/bash node\n"
                      "rm -rf \"$fetched\"; hash -r; node --version; npm --version\n",
                range, npm_range(major));
}

int recipe_bun(const struct recipe_tag *tag, struct recipe *r, struct err *err)
{
        if (tag->word.n > 0 && !str_is(tag->word, "canary"))
                return err_set(err, ERR_NOT_FOUND, "image '%.*s' needs a registry: no recipe knows its tag",
                               STR_ARG(tag->image));
        recipe_use_suite(r, recipe_suite_base());
        recipe_note(r, "bun %s of npm's package on Debian %s stands in for %.*s",
                    tag->version[0] ? tag->version : "latest", recipe_suite_base()->name, STR_ARG(tag->image));
        recipe_note_variants(r, tag, recipe_suite_base());
        r->workdir = "/home/bun/app";
        return recipe_add_run(r, err,
                              FETCH "kind=$arch; [ $arch = arm64 ] && kind=aarch64\n"
                                    "[ $arch = arm64 ] || grep -qw avx2 /proc/cpuinfo || kind=x64-baseline\n"
                                    "fetch @oven/bun-linux-$kind@%s\n"
                                    "unpack oven-bun-linux-$kind /usr/local package/bin/bun\n"
                                    "chmod 0755 /usr/local/bin/bun; ln -sf bun /usr/local/bin/bunx\n"
                                    "useradd --create-home --user-group --shell /bin/bash bun\n"
                                    "install -d -o bun -g bun /home/bun/app\n"
                                    "rm -rf \"$fetched\"; bun --version\n",
                              tag->version[0] ? tag->version : "latest");
}

int recipe_deno(const struct recipe_tag *tag, struct recipe *r, struct err *err)
{
        uint32_t major = DENO_FIRST, minor;
        int ret;

        if (tag->word.n > 0 || (tag->version[0] && recipe_version(tag->version, &major, &minor) && major < DENO_FIRST))
                return err_set(err, ERR_NOT_FOUND, "image '%.*s' needs a registry: recipes have deno %u and newer",
                               STR_ARG(tag->image), DENO_FIRST);
        recipe_use_suite(r, recipe_suite_base());
        recipe_note(r, "deno %s of npm's package on Debian %s stands in for %.*s",
                    tag->version[0] ? tag->version : "latest", recipe_suite_base()->name, STR_ARG(tag->image));
        recipe_note_variants(r, tag, recipe_suite_base());
        ret = recipe_add_run(r, err,
                             FETCH "fetch @deno/linux-$arch-glibc@%s\n"
                                   "unpack deno-linux-$arch-glibc /usr/local/bin package/deno\n"
                                   "chmod 0755 /usr/local/bin/deno\n"
                                   "useradd --create-home --user-group --shell /bin/bash deno\n"
                                   "install -d -o deno -g deno /deno-dir\n"
                                   "rm -rf \"$fetched\"; deno --version\n",
                             tag->version[0] ? tag->version : "latest");
        return ret < 0 ? ret : recipe_add_env(r, "DENO_DIR", "/deno-dir", err);
}
