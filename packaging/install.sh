#!/bin/sh
# Install Sandglass from this directory, or remove what was installed.
#
# usage: install.sh [--prefix DIR] [--root DIR] [--no-start]
#        install.sh --uninstall [--purge] [--prefix DIR] [--root DIR]
#
#   --prefix DIR   where programs, pages and the unit go (default /usr/local)
#   --root DIR     a file system that is not running: only files are written, no user is made and nothing is started
#   --no-start     do not start the service
#   --uninstall    end the server and its running sandboxes, and remove what the last installation wrote
#   --purge        remove the data (/var/lib/sandglass), the settings and the users, too
#
# PREFIX/lib/sandglass/installed records each file, with its sum, each directory and each user that was made.  A file that is
# in the way and not in the record is not ours: nothing is written then.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local root='' starts=yes task=install purges=no
settings=/etc/sandglass/sandglass.json data=/var/lib/sandglass
users="sandglass sandglass-edge sandglass-builder sandglass-puller sandglass-agent"

say() { echo "install.sh: $*"; }
fail() { echo "install.sh: $*" >&2; exit 1; }
usage() { sed -n 's/^# \{0,1\}//; 3,10p' "$0" | sed '/^$/d'; }

while [ $# -gt 0 ]; do
        case $1 in
        --prefix | --root) [ $# -gt 1 ] || fail "$1: needs a directory"
                case $2 in /*) ;; *) fail "$1 $2: must be an absolute path" ;; esac
                [ "$1" = --prefix ] && prefix=${2%/} || root=${2%/}
                shift ;;
        --no-start) starts=no ;;
        --uninstall) task=uninstall ;;
        --purge) purges=yes ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
        esac
        shift
done
record=$root$prefix/lib/sandglass/installed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "needs root: try sudo"

sum() { sha256sum <"$1" | cut -c1-64; }
recorded() { [ -f "$record" ] && sed -n "s|^$1 ||p" "$record"; } # recorded KIND
recorded_sum() { [ -f "$record" ] && sed -n "s|^file \([0-9a-f]*\) $1\$|\1|p" "$record"; }
runs_systemd() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

# --- install ---

# Each file that is to be written: "source target", the target without root.
list_files() {
        (cd "$here/files" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) | while IFS= read -r name; do
                printf '%s %s\n' "$work/files/$name" "$prefix/$name"
        done
        printf '%s %s\n' "$here/sandglass.json" "$settings"
}

# The unit names the program by its path.
prepare() {
        LC_ALL=C "$here/files/bin/sandglass" version >/dev/null 2>"$work/why" ||
                fail "the program does not run here ($(head -n 1 "$work/why")): it needs the GNU C library 2.36 or newer"
        cp -R "$here/files" "$work/files"
        sed -i "s|^ExecStart=[^ ]*|ExecStart=$prefix/bin/sandglass|" "$work/files/lib/systemd/system/sandglass.service"
        list_files >"$work/list"
}

check_strangers() {
        for place in /usr/bin/sandglass /lib/systemd/system/sandglass.service; do
                [ "$prefix" = /usr ] || [ ! -e "$root$place" ] || fail "$place is there: a package has Sandglass installed, remove it first"
        done
        while read -r source target; do
                [ "$target" != "$settings" ] || continue
                [ -e "$root$target" ] || [ -L "$root$target" ] || continue
                known=$(recorded_sum "$target" || :)
                [ -n "$known" ] || fail "$target is there, and no installation of ours wrote it: nothing was changed"
                [ -f "$root$target" ] && [ "$(sum "$root$target")" = "$known" ] || fail "$target was changed since it was installed: nothing was changed"
        done <"$work/list"
}

# Each directory above a file that has to be made, the outermost first.
missing_dirs() {
        while read -r source target; do
                dir=${target%/*}
                while [ -n "$dir" ] && [ ! -d "$root$dir" ]; do
                        echo "$dir"
                        dir=${dir%/*}
                done
        done <"$work/list" | LC_ALL=C sort -u
}

missing_users() {
        [ -n "$root" ] || for user in $users; do
                getent passwd "$user" >/dev/null || echo "$user"
        done
}

# Before anything is written, so that what an interrupted installation left can be removed.
write_record() {
        {
                { recorded dir || :; missing_dirs; echo "$prefix/lib/sandglass"; } | LC_ALL=C sort -u | sed 's/^/dir /'
                { recorded user || :; missing_users; } | LC_ALL=C sort -u | sed 's/^/user /'
                while read -r source target; do
                        if [ "$target" = "$settings" ] && [ -e "$root$target" ]; then
                                known=$(recorded_sum "$target" || :)
                                [ -z "$known" ] || echo "file $known $target"
                        else
                                echo "file $(sum "$source") $target"
                        fi
                done <"$work/list"
        } >"$work/record"
        [ ! -f "$record" ] || sed -n 's/^file [0-9a-f]* //p' "$record" >"$work/before"
        mkdir -p "${record%/*}"
        cp "$work/record" "$record.new"
        mv "$record.new" "$record"
}

# By a new name first: a program that runs cannot be written to.
write_files() {
        while read -r source target; do
                [ "$target" != "$settings" ] || [ ! -e "$root$target" ] || continue
                mode=644
                [ ! -x "$source" ] || mode=755
                mkdir -p "$root${target%/*}"
                cp "$source" "$root$target.new"
                chmod "$mode" "$root$target.new"
                mv "$root$target.new" "$root$target"
        done <"$work/list"
}

# What an older version had, and this one has not.
remove_old() {
        [ ! -f "$work/before" ] || while IFS= read -r target; do
                grep -q " $target\$" "$work/list" || rm -f "$root$target"
        done <"$work/before"
}

make_users() {
        for user in $(missing_users); do
                if command -v systemd-sysusers >/dev/null; then
                        systemd-sysusers "$prefix/lib/sysusers.d/sandglass.conf"
                else
                        useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin "$user"
                fi
        done
}

start_service() {
        if ! runs_systemd; then
                say "no systemd runs here: start the server with '$prefix/bin/sandglass serve --config $settings'"
                return 0
        fi
        systemctl daemon-reload
        if [ -f "$work/before" ]; then
                systemctl try-restart sandglass.service
        elif [ "$starts" = yes ]; then
                systemctl enable --quiet sandglass.service
                systemctl start --no-block sandglass.service
                say "the first start makes the template for sandboxes, which takes a minute or two: journalctl -fu sandglass"
        fi
}

do_install() {
        prepare
        check_strangers
        write_record
        write_files
        remove_old
        [ -n "$root" ] || make_users
        [ -n "$root" ] || start_service
        say "installed below $prefix; '$prefix/bin/sandglass doctor' says what this machine can do and what is missing"
}

# --- uninstall ---

end_server() {
        if runs_systemd; then
                systemctl disable --quiet --now sandglass.service || :
        fi
        if [ -z "$root" ] && [ -e "$data/layout" ]; then
                "$prefix/bin/sandglass" down --data "$data" || say "some sandboxes may still run, see above"
        fi
}

remove_files() {
        sed -n 's/^file //p' "$record" | while read -r known target; do
                [ -f "$root$target" ] || continue
                if [ "$(sum "$root$target")" = "$known" ] || { [ "$purges" = yes ] && [ "$target" = "$settings" ]; }; then
                        rm -f "$root$target"
                else
                        say "$target was changed, and stays"
                fi
        done
        rm -f "$root$settings.new"
        sed -n 's/^file [0-9a-f]* //p' "$record" | while IFS= read -r target; do rm -f "$root$target.new"; done
}

remove_users() {
        [ -z "$root" ] || return 0
        sed -n 's/^user //p' "$record" | while IFS= read -r user; do
                ! getent passwd "$user" >/dev/null || userdel "$user"
                ! getent group "$user" >/dev/null || groupdel "$user"
        done
}

remove_dirs() { # the innermost first
        sed -n 's/^dir //p' "$work/gone" | LC_ALL=C sort -r | while IFS= read -r dir; do
                rmdir "$root$dir" 2>/dev/null || :
        done
}

do_uninstall() {
        [ -f "$record" ] || fail "no installation of ours below $root$prefix (no $record)"
        end_server
        remove_files
        if [ "$purges" = yes ]; then
                # Made by a server on a machine whose own control groups are of version 1.
                umount "$root/run/sandglass/cgroup2" 2>/dev/null || :
                rm -rf --one-file-system "$root$data"
                rm -rf --one-file-system "$root/run/sandglass" || say "not all of /run/sandglass could be removed, see above"
                rm -f "$root$settings"
        fi
        [ -e "$root$data" ] || remove_users
        cp "$record" "$work/gone"
        rm -f "$record"
        remove_dirs
        ! runs_systemd || systemctl daemon-reload
        [ ! -e "$root$data" ] || say "$data and the users stay; --purge removes them, too"
        say "removed"
}

do_$task
