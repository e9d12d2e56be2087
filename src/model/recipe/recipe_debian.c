/* recipe_debian.c - Debian by suite, and what is closest to releases of Ubuntu. */
#include "base/err.h"
#include "model/recipe/recipe_kinds.h"

/* What every sandbox needs, and what images for developers have; the template `base` has more. */
#define PACKAGES                                                                                                       \
        "bash,coreutils,sudo,passwd,login,procps,util-linux,iproute2,netbase,ca-certificates,curl,git,less,"           \
        "ncurses-base,xz-utils,tzdata,libnss-myhostname"

/* Users, shells and apt are set up as in `base`.  A sandbox makes no device nodes; each sandbox gets its own /dev. */
#define BOOTSTRAP                                                                                                      \
        "set -e\n"                                                                                                     \
        "export DEBIAN_FRONTEND=noninteractive\n"                                                                      \
        "apt-get update -qq\n"                                                                                         \
        "apt-get install -qq -y --no-install-recommends mmdebstrap >/dev/null\n"                                       \
        "mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' | head -n 1)\n" \
        "root=" RECIPE_ROOT "\n"                                                                                       \
        "mmdebstrap --mode=root --variant=apt --skip=output/mknod,chroot/mount --aptopt='Acquire::Languages "          \
        "\"none\"' "                                                                                                   \
        "--aptopt='Acquire::Retries \"3\"' --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' "       \
        "--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' "               \
        "--include=" PACKAGES " %1$s \"$root\" \"deb $mirror %1$s main\"\n"                                            \
        "rm -rf \"$root\"/dev/* \"$root\"/run/* \"$root\"/tmp/*\n"                                                     \
        "rm -f \"$root\"/etc/skel/.bash_logout\n"                                                                      \
        "cp -p /etc/profile \"$root\"/etc/profile\n"                                                                   \
        "cp -p /etc/skel/.bashrc /etc/skel/.profile \"$root\"/etc/skel/\n"                                             \
        "cp -p /etc/skel/.bashrc /etc/skel/.profile \"$root\"/root/\n"                                                 \
        "cp -p /etc/sudoers.d/user \"$root\"/etc/sudoers.d/user\n"                                                     \
        "cp -p /etc/pip.conf \"$root\"/etc/pip.conf\n"                                                                 \
        "echo LANG=C.UTF-8 >\"$root\"/etc/default/locale\n"                                                            \
        ": >\"$root\"/etc/machine-id\n"                                                                                \
        "chroot \"$root\" useradd --key HOME_MODE=0755 --create-home --user-group --uid 1000 --shell /bin/bash user\n" \
        "chroot \"$root\" passwd --delete root >/dev/null\n"                                                           \
        "install -d -m 0777 -o 1000 -g 1000 \"$root\"/code\n"                                                          \
        "chmod -R 0777 \"$root\"/usr/local\n"

static int make_suite(struct recipe *r, const struct suite *suite, struct err *err)
{
        recipe_use_suite(r, recipe_suite_base());
        if (suite->is_base)
                return 0;
        r->suite = suite->name;
        return recipe_add_run(r, err, BOOTSTRAP, suite->name);
}

int recipe_debian(const struct recipe_tag *tag, struct recipe *r, struct err *err)
{
        const struct suite *suite = tag->suite;

        if (tag->version[0])
                suite = recipe_suite_find(str_of(tag->version));
        else if (!suite && tag->word.n == 0)
                suite = recipe_suite_base();
        if (!suite)
                return err_set(
                        err, ERR_NOT_FOUND,
                        "image '%.*s' needs a registry: Debian's archive has no such release any more, or not yet",
                        STR_ARG(tag->image));
        recipe_note(r, "Debian %s is made of Debian's packages", suite->name);
        return make_suite(r, suite, err);
}

/* /etc/debian_version of each release of Ubuntu names the Debian that it was made of. */
static const struct {
        const char *number, *name, *suite;
} ubuntu_releases[] = {
        {"20.04", "focal", "bullseye"},  {"20.10", "groovy", "bullseye"}, {"21.04", "hirsute", "bullseye"},
        {"21.10", "impish", "bookworm"}, {"22.04", "jammy", "bookworm"},  {"22.10", "kinetic", "bookworm"},
        {"23.04", "lunar", "bookworm"},  {"23.10", "mantic", "trixie"},   {"24.04", "noble", "trixie"},
        {"24.10", "oracular", "trixie"}, {"25.04", "plucky", "trixie"},   {"25.10", "questing", "forky"},
        {"26.04", "resolute", "forky"},
};

static const struct suite *ubuntu_suite(const struct recipe_tag *tag)
{
        struct str release = tag->version[0] ? str_of(tag->version) : tag->word;

        if (release.n == 0 || str_is(release, "rolling") || str_is(release, "devel"))
                return recipe_suite_base();
        for (size_t i = 0; i < sizeof(ubuntu_releases) / sizeof(ubuntu_releases[0]); i++)
                if (str_is(release, ubuntu_releases[i].number) || str_is(release, ubuntu_releases[i].name))
                        return recipe_suite_find(str_of(ubuntu_releases[i].suite));
        return NULL;
}

int recipe_ubuntu(const struct recipe_tag *tag, struct recipe *r, struct err *err)
{
        const struct suite *suite = ubuntu_suite(tag);

        if (!suite)
                return err_set(err, ERR_NOT_FOUND,
                               "image '%.*s' needs a registry: no Debian that the archive still has is close to it",
                               STR_ARG(tag->image));
        recipe_use_suite(r, suite);
        recipe_note(r, "Debian %s, the closest to it, stands in for %.*s", suite->name, STR_ARG(tag->image));
        return 0;
}

int recipe_e2b_base(const struct recipe_tag *tag, struct recipe *r, struct err *err)
{
        (void)err; /* every tag is the same template */
        recipe_use_suite(r, recipe_suite_base());
        recipe_note(r, "the template base stands in for %.*s", STR_ARG(tag->image));
        return 0;
}
