#include "serve/setup/recipe.h"

#include <stddef.h>

const char recipe_packages[] =
        "bash,coreutils,sudo,passwd,login,procps,psmisc,util-linux,iproute2,iputils-ping,netbase,lsof,"
        "ca-certificates,curl,wget,openssh-client,rsync,gnupg,"
        "python3,python3-pip,python3-venv,python-is-python3,"
        "nodejs,npm,"
        "git,build-essential,pkg-config,"
        "ripgrep,jq,less,nano,vim-tiny,file,tree,ncurses-bin,ncurses-base,"
        "xz-utils,unzip,zip,bzip2,zstd,"
        "locales,tzdata,libnss-myhostname,apt-utils";

/* No forks here: it runs before every command of every client. */
static const char profile[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                              "case $HOME in /?*) PATH=$HOME/.local/bin:$PATH ;; esac\n"
                              "export PATH\n"
                              "export SHELL=/bin/bash\n"
                              "export LANG=${LANG-C.UTF-8}\n"
                              "PS1='\\w \\$ '\n"
                              "for file in /etc/profile.d/*.sh; do\n"
                              "  if [ -r \"$file\" ]; then . \"$file\"; fi\n"
                              "done\n"
                              "unset file\n"
                              "if [ -r \"$HOME/.bashrc\" ]; then . \"$HOME/.bashrc\"; fi\n"
                              "if [ -r \"$HOME/.profile\" ]; then . \"$HOME/.profile\"; fi\n";

static const char bashrc[] = "PS1='\\w \\$ '\n"
                             "case $- in *i*) alias ls='ls --color=auto' ;; esac\n";

const struct recipe_file recipe_files[] = {
        {"etc/profile", 0644, 0, profile},
        {"etc/skel/.bashrc", 0644, 0, bashrc},
        {"etc/skel/.profile", 0644, 0, "# for login shells\n"},
        {"root/.bashrc", 0644, 0, bashrc},
        {"root/.profile", 0644, 0, "# for login shells\n"},
        {"home/user/.bashrc", 0644, 1000, bashrc},
        {"home/user/.profile", 0644, 1000, "# for login shells\n"},
        {"etc/sudoers.d/user", 0440, 0, "user ALL=(ALL:ALL) NOPASSWD: ALL\nDefaults !lecture\n"},
        {"etc/pip.conf", 0644, 0, "[global]\nbreak-system-packages = true\nroot-user-action = ignore\n"},
        {"etc/default/locale", 0644, 0, "LANG=C.UTF-8\n"},
        {"etc/hostname", 0644, 0, "sandbox\n"},
        {"etc/hosts", 0644, 0, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"},
        {"etc/resolv.conf", 0644, 0, "nameserver 8.8.8.8\nnameserver 1.1.1.1\n"},
        {"etc/machine-id", 0444, 0, ""},
        {NULL, 0, 0, NULL},
};

static const char *const trim_skel[] = {"rm", "-f", "/etc/skel/.bash_logout", NULL}; /* one program less per login */
static const char *const add_user[] = {"useradd", "--key", "HOME_MODE=0755", "--create-home", "--user-group",
                                       "--uid",   "1000",  "--shell",        "/bin/bash",     "user",
                                       NULL};
static const char *const open_root[] = {"passwd", "--delete", "root", NULL}; /* who may sudo may su */
static const char *const make_code[] = {"install", "-d", "-m", "0777", "-o", "user", "-g", "user", "/code", NULL};
static const char *const open_local[] = {"chmod", "-R", "0777", "/usr/local", NULL};
static const char *const check_tools[] = {"python", "-c", "import venv, pip, ssl, sqlite3", NULL};

const char *const *const recipe_steps[] = {trim_skel, add_user, open_root, make_code, open_local, check_tools, NULL};
