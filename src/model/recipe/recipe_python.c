/* recipe_python.c - Python of the Debian suite that has the wanted version, with pip, venv and the names people call. */
#include "base/err.h"
#include "model/recipe/recipe_kinds.h"

#define APT "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "
#define TIDY " && apt-get clean && rm -rf /var/lib/apt/lists/*"

/* The same version, or the nearest; of two equally near ones the newer, which runs more programs. */
static const struct suite *closest_suite(const struct recipe_tag *tag, uint32_t minor)
{
        const struct suite *best = NULL;
        uint32_t best_far = UINT32_MAX;

        if (tag->suite && tag->suite->python_minor == minor)
                return tag->suite;
        for (const struct suite *s = recipe_suites; s->name; s++) {
                uint32_t far = s->python_minor > minor ? s->python_minor - minor : minor - s->python_minor;

                if (far < best_far || (far == best_far && s->python_minor > best->python_minor)) {
                        best = s;
                        best_far = far;
                }
        }
        return best;
}

static int choose_suite(const struct recipe_tag *tag, const struct suite **ret, uint32_t *minor, struct err *err)
{
        uint32_t major;

        if (tag->word.n > 0)
                return err_set(err, ERR_NOT_FOUND, "image '%.*s' needs a registry: no recipe knows its tag",
                               STR_ARG(tag->image));
        *minor = UINT32_MAX;
        if (tag->version[0] && recipe_version(tag->version, &major, minor) && major != 3)
                return err_set(err, ERR_NOT_FOUND, "image '%.*s' needs a registry: Debian has Python 3 only",
                               STR_ARG(tag->image));
        if (*minor != UINT32_MAX)
                *ret = closest_suite(tag, *minor);
        else
                *ret = tag->suite ? tag->suite : recipe_suite_base();
        return 0;
}

static int add_packages(const struct recipe_tag *tag, const struct suite *suite, struct recipe *r, struct err *err)
{
        if (suite->is_base) /* it has Python; only what compiles extensions is missing */
                return tag->is_slim || tag->is_alpine ? 0 : recipe_add_run(r, err, APT "python3-dev" TIDY);
        return recipe_add_run(r, err, APT "python3 python3-pip python3-venv python-is-python3%s" TIDY,
                              tag->is_slim || tag->is_alpine ? "" : " python3-dev build-essential pkg-config");
}

int recipe_python(const struct recipe_tag *tag, struct recipe *r, struct err *err)
{
        const struct suite *suite = NULL;
        uint32_t minor;
        int ret;

        ret = choose_suite(tag, &suite, &minor, err);
        if (ret < 0)
                return ret;
        recipe_use_suite(r, suite);
        if (minor == UINT32_MAX || minor == suite->python_minor)
                recipe_note(r, "Python 3.%u of Debian %s stands in for %.*s", suite->python_minor, suite->name,
                            STR_ARG(tag->image));
        else
                recipe_note(r, "no Debian has Python 3.%u: Python 3.%u of Debian %s, the closest, stands in for %.*s",
                            minor, suite->python_minor, suite->name, STR_ARG(tag->image));
        recipe_note_variants(r, tag, suite);
        ret = add_packages(tag, suite, r, err);
        if (ret == 0)
                ret = recipe_add_env(r, "LANG", "C.UTF-8", err);
        return ret;
}
