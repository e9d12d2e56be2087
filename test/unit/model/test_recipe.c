#include "model/recipe/recipe.h"

#include "base/auto.h"
#include "base/err.h"
#include "tap.h"

#define AUTO_RECIPE AUTO(recipe_done)

static const char *first_command(const struct recipe *r)
{
        return json_string_value(json_array_get(json_object_get(json_array_get(r->steps, 0), "args"), 0));
}

static void finds_a_base_for_each_tag(void)
{
        static const struct {
                const char *image, *from, *suite;
                size_t steps;
        } cases[] = {
                {"debian", "template:base", NULL, 0},
                {"debian:stable", "template:base", NULL, 0},
                {"debian:stable-slim", "template:base", NULL, 0},
                {"debian:latest", "template:base", NULL, 0},
                {"debian:trixie", "template:base", NULL, 0},
                {"debian:13", "template:base", NULL, 0},
                {"debian:13.1-slim", "template:base", NULL, 0},
                {"debian:trixie-20260112-slim", "template:base", NULL, 0},
                {"debian:trixie-backports", "template:base", NULL, 0},
                {"docker.io/library/debian:trixie", "template:base", NULL, 0},
                {"library/debian", "template:base", NULL, 0},
                {"  debian:12 AS build", "template:base", "bookworm", 1},
                {"debian:12.5", "template:base", "bookworm", 1},
                {"debian:oldstable-slim", "template:base", "bookworm", 1},
                {"debian:bullseye", "template:base", "bullseye", 1},
                {"debian:testing", "template:base", "forky", 1},
                {"debian:unstable-slim", "template:base", "sid", 1},
                {"ubuntu", "template:base", NULL, 0},
                {"ubuntu:latest", "template:base", NULL, 0},
                {"ubuntu:24.04", "template:base", NULL, 0},
                {"ubuntu:noble", "template:base", NULL, 0},
                {"ubuntu:22.04", "debian:bookworm", NULL, 0},
                {"ubuntu:jammy", "debian:bookworm", NULL, 0},
                {"ubuntu:20.04", "debian:bullseye", NULL, 0},
                {"ubuntu:26.04", "debian:forky", NULL, 0},
                {"python", "template:base", NULL, 1},
                {"python:3", "template:base", NULL, 1},
                {"python:3-slim", "template:base", NULL, 0},
                {"python:slim", "template:base", NULL, 0},
                {"python:3.13-slim", "template:base", NULL, 0},
                {"python:3.13.1-slim-trixie", "template:base", NULL, 0},
                {"python:3.11", "debian:bookworm", NULL, 1},
                {"python:3.11-slim-bookworm", "debian:bookworm", NULL, 1},
                {"python:3.9-alpine3.20", "debian:bullseye", NULL, 1},
                {"python:3.12-slim", "template:base", NULL, 0},
                {"python:3.10", "debian:bookworm", NULL, 1},
                {"python:3.6", "debian:bullseye", NULL, 1},
                {"python:3.14", "debian:forky", NULL, 1},
                {"python:3.14-sid", "debian:sid", NULL, 1},
                {"python:bookworm", "debian:bookworm", NULL, 1},
                {"node", "template:base", NULL, 1},
                {"node:lts-slim", "template:base", NULL, 1},
                {"node:24-alpine", "template:base", NULL, 1},
                {"node:current", "template:base", NULL, 1},
                {"node:jod-bookworm-slim", "template:base", NULL, 1},
                {"oven/bun", "template:base", NULL, 1},
                {"oven/bun:1.1-slim", "template:base", NULL, 1},
                {"oven/bun:canary", "template:base", NULL, 1},
                {"denoland/deno:debian-2.1.4", "template:base", NULL, 1},
                {"e2bdev/base", "template:base", NULL, 0},
                {"e2bdev/base:latest", "template:base", NULL, 0},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                AUTO_RECIPE struct recipe r = {0};
                struct err err = {0};

                if (recipe_find(cases[i].image, &r, &err) < 0)
                        printf("# %s: %s\n", cases[i].image, err.msg);
                CHECK_STR(r.from, cases[i].from);
                CHECK_STR(r.suite ? r.suite : "", cases[i].suite ? cases[i].suite : "");
                CHECK_INT(json_array_size(r.steps), ==, cases[i].steps);
                CHECK(json_is_object(r.env) && r.note[0]);
        }
}

/* Whatever a recipe is based on has a recipe, too, and that ends at the template. */
static void bases_have_recipes(void)
{
        static const char *const images[] = {"python:3.11", "ubuntu:22.04", "ubuntu:26.04", "python:3.14-sid"};

        for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
                AUTO_RECIPE struct recipe first = {0}, second = {0};

                CHECK_INT(recipe_find(images[i], &first, NULL), ==, 0);
                CHECK_INT(recipe_find(first.from, &second, NULL), ==, 0);
                CHECK_STR(second.from, RECIPE_BASE);
                CHECK(second.suite && strstr(first_command(&second), RECIPE_ROOT) &&
                      strstr(first_command(&second), second.suite));
        }
}

static void steps_run_as_root(void)
{
        AUTO_RECIPE struct recipe r = {0};
        json_t *step;

        CHECK_INT(recipe_find("node:24", &r, NULL), ==, 0);
        step = json_array_get(r.steps, 0);
        CHECK_STR(json_string_value(json_object_get(step, "type")), "RUN");
        CHECK_STR(json_string_value(json_array_get(json_object_get(step, "args"), 1)), "root");
        CHECK(json_is_false(json_object_get(step, "force")));
}

static void fetches_the_wanted_version(void)
{
        static const struct {
                const char *image, *package;
        } cases[] = {
                {"node:24", "node-linux-$arch@24 "},
                {"node:24", "npm@11 "},
                {"node:22.4.1-slim", "@22.4.1 "},
                {"node:22", "npm@10 "},
                {"node:lts", "node-linux-$arch@26 "},
                {"node:iron-alpine", "@20 "},
                {"node", "node-linux-$arch@latest "},
                {"node:latest", "@latest "},
                {"oven/bun:1.1", "@oven/bun-linux-$kind@1.1\n"},
                {"oven/bun", "@latest\n"},
                {"denoland/deno:2.1.4", "glibc@2.1.4\n"},
                {"python:3.11", "build-essential"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                AUTO_RECIPE struct recipe r = {0};

                CHECK_INT(recipe_find(cases[i].image, &r, NULL), ==, 0);
                if (!strstr(first_command(&r), cases[i].package))
                        printf("# %s: %s\n", cases[i].image, first_command(&r));
                CHECK(strstr(first_command(&r), cases[i].package));
        }
}

static void says_what_stands_in(void)
{
        static const struct {
                const char *image, *note;
        } cases[] = {
                {"ubuntu:22.04", "Debian bookworm, the closest to it, stands in for ubuntu:22.04"},
                {"python:3.11-slim", "Python 3.11 of Debian bookworm stands in for python:3.11-slim"},
                {"python:3.12",
                 "no Debian has Python 3.12: Python 3.13 of Debian trixie, the closest, stands in for python:3.12"},
                {"python:3.13-alpine",
                 "Python 3.13 of Debian trixie stands in for python:3.13-alpine; Debian stands in for "
                 "Alpine: there is no apk"},
                {"node:24-bookworm",
                 "node 24 of npm's package on Debian trixie stands in for node:24-bookworm; Debian trixie "
                 "stands in for bookworm"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                AUTO_RECIPE struct recipe r = {0};

                CHECK_INT(recipe_find(cases[i].image, &r, NULL), ==, 0);
                CHECK_STR(r.note, cases[i].note);
        }
}

static void refuses_what_no_recipe_makes(void)
{
        static const struct {
                const char *image, *message;
        } cases[] = {
                {"alpine:3.24", "image 'alpine:3.24' needs a registry: without one only images on Debian"},
                {"fedora:44", "needs a registry: without one only images on Debian"},
                {"archlinux:latest", "needs a registry: without one only images on Debian"},
                {"golang:1.24", "needs a registry: no recipe makes it"},
                {"acme/python:3.11", "needs a registry: no recipe makes it"},
                {"ghcr.io/library/python:3.11", "needs a registry: no recipe makes it"},
                {"localhost:5000/debian", "needs a registry: no recipe makes it"},
                {"", "needs a registry: no recipe makes it"},
                {"python:3.11@sha256:00", "named by its digest"},
                {"python:3.11-windowsservercore", "its variant 'windowsservercore'"},
                {"python:3.11-slim;reboot", "its variant 'slim;reboot'"},
                {"python:2.7", "Debian has Python 3 only"},
                {"python:nonsense", "no recipe knows its tag"},
                {"debian:10", "no such release any more"},
                {"debian:buster-slim", "no such release any more"},
                {"ubuntu:14.04", "no Debian that the archive still has"},
                {"node:8", "recipes have node 16 and newer"},
                {"node:$(reboot)", "recipes have node 16 and newer"},
                {"denoland/deno:1.46.0", "recipes have deno 2 and newer"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                AUTO_RECIPE struct recipe r = {0};
                struct err err = {0};

                CHECK_INT(recipe_find(cases[i].image, &r, &err), <, 0);
                CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
                if (!strstr(err.msg, cases[i].message))
                        printf("# %s: %s\n", cases[i].image, err.msg);
                CHECK(strstr(err.msg, cases[i].message));
        }
}

int main(void)
{
        RUN(finds_a_base_for_each_tag);
        RUN(bases_have_recipes);
        RUN(steps_run_as_root);
        RUN(fetches_the_wanted_version);
        RUN(says_what_stands_in);
        RUN(refuses_what_no_recipe_makes);
        return tap_done();
}
