#include "model/recipe/recipe_tag.h"

#include <stdio.h>

#include "base/err.h"

const struct suite recipe_suites[] = {
        {"bullseye", 11, 9, false}, {"bookworm", 12, 11, false}, {"trixie", 13, 13, true},
        {"forky", 14, 14, false},   {"sid", 0, 14, false},       {NULL, 0, 0, false},
};

static const struct {
        const char *role, *suite;
} suite_roles[] = {
        {"stable", "trixie"}, {"oldstable", "bookworm"}, {"oldoldstable", "bullseye"},
        {"testing", "forky"}, {"unstable", "sid"},       {"rc-buggy", "sid"},
};

static const char *const other_hosts_of_the_hub[] = {"docker.io/", "index.docker.io/", "registry-1.docker.io/"};

/* Variants that leave something out or add a little: the whole thing stands in for them. */
static const char *const known_variants[] = {"backports", "curl", "scm",    "debian", "distroless", "ubuntu",
                                             "bin",       "dev",  "latest", "full",   "minimal"};

const struct suite *recipe_suite_base(void)
{
        const struct suite *s = recipe_suites;

        while (!s->is_base)
                s++;
        return s;
}

const struct suite *recipe_suite_find(struct str text)
{
        struct str number, rest = text;
        uint32_t n = 0;

        for (size_t i = 0; i < sizeof(suite_roles) / sizeof(suite_roles[0]); i++)
                if (str_is(text, suite_roles[i].role))
                        text = str_of(suite_roles[i].suite);
        (void)str_cut(&rest, '.', &number);
        (void)parse_u32(number, 1, 1000, &n);
        for (const struct suite *s = recipe_suites; s->name; s++)
                if (str_is(text, s->name) || (n && s->number == n))
                        return s;
        return NULL;
}

bool recipe_version(const char *version, uint32_t *major, uint32_t *minor)
{
        struct str rest = str_of(version), part;

        *minor = UINT32_MAX;
        (void)str_cut(&rest, '.', &part);
        if (parse_u32(part, 0, 100000, major) < 0)
                return false;
        (void)str_cut(&rest, '.', &part);
        (void)parse_u32(part, 0, 100000, minor);
        return true;
}

/* "python:3.11@sha256:..." names bytes that no recipe makes; "ghcr.io/x" names a registry. */
static int split_reference(struct recipe_tag *t, struct str *tag, struct err *err)
{
        struct str name = t->image;
        const char *colon = NULL, *slash;

        if (memchr(name.p, '@', name.n))
                return err_set(err, ERR_NOT_FOUND, "image '%.*s' needs a registry: it is named by its digest",
                               STR_ARG(name));
        for (size_t i = 0; i < sizeof(other_hosts_of_the_hub) / sizeof(other_hosts_of_the_hub[0]); i++) {
                size_t n = strlen(other_hosts_of_the_hub[i]);

                if (str_starts(name, other_hosts_of_the_hub[i]))
                        name = (struct str){name.p + n, name.n - n};
        }
        slash = memrchr(name.p, '/', name.n);
        for (const char *p = slash ? slash : name.p; p < name.p + name.n; p++)
                if (*p == ':' && !colon)
                        colon = p;
        *tag = colon ? (struct str){colon + 1, (size_t)(name.p + name.n - colon) - 1} : STR("");
        if (colon)
                name.n = (size_t)(colon - name.p);
        if (str_starts(name, "library/"))
                name = (struct str){name.p + 8, name.n - 8};
        t->name = name;
        return 0;
}

static bool is_version(struct str s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!((s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '.'))
                        return false;
        return s.n > 0 && s.n < 32 && s.p[0] != '.';
}

static bool is_known_variant(struct str s)
{
        for (size_t i = 0; i < sizeof(known_variants) / sizeof(known_variants[0]); i++)
                if (str_is(s, known_variants[i]))
                        return true;
        return is_version(s) && s.n == 8; /* a date: "bookworm-20250113" */
}

/* One word of "3.12-slim-bookworm"; false: nobody knows it. */
static bool take_word(struct recipe_tag *t, struct str word, bool is_first)
{
        const struct suite *suite = is_version(word) ? NULL : recipe_suite_find(word);

        if (suite) {
                t->suite = suite;
        } else if (str_is(word, "slim")) {
                t->is_slim = true;
        } else if (str_starts(word, "alpine")) {
                t->is_alpine = true;
        } else if (is_known_variant(word)) {
                return true;
        } else if (is_version(word) && !t->version[0]) {
                (void)snprintf(t->version, sizeof(t->version), "%.*s", STR_ARG(word));
        } else if (is_first) {
                t->word = word;
        } else {
                return false;
        }
        return true;
}

int recipe_tag_parse(const char *image, struct recipe_tag *ret, struct err *err)
{
        struct str text = str_trim(str_of(image)), tag, word;
        struct recipe_tag t = {0};
        bool is_first = true;
        int r;

        (void)str_cut(&text, ' ', &t.image); /* "node:24 AS build" */
        r = split_reference(&t, &tag, err);
        if (r < 0)
                return r;
        while (tag.n > 0) {
                (void)str_cut(&tag, '-', &word);
                if (!take_word(&t, word, is_first))
                        return err_set(err, ERR_NOT_FOUND,
                                       "image '%.*s' needs a registry: no recipe knows its variant '%.*s'",
                                       STR_ARG(t.image), STR_ARG(word));
                is_first = false;
        }
        *ret = t;
        return 0;
}
