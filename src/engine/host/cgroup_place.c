#include "engine/host/cgroup_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "engine/host/run_dir.h"
#include "sys/fs.h"

#define OWN_GROUP_MAX 4096

void cgroup_place_choose(const char *own, bool (*is_delegated)(const char *path, void *arg), void *arg,
                         char out[CGROUP_PLACE_MAX])
{
        const char *end = strrchr(own, '/');
        char above[CGROUP_PLACE_MAX];

        out[0] = '\0';
        if (own[0] != '/' || end == own || (size_t)(end - own) >= sizeof(above))
                return; /* nothing is above it but the top */
        memcpy(above, own + 1, (size_t)(end - own - 1));
        above[end - own - 1] = '\0';
        if (is_delegated(above, arg))
                memcpy(out, above, sizeof(above));
}

bool cgroup_place_parse(const char *text, char out[CGROUP_PLACE_MAX])
{
        struct str rest = str_of(text), line;
        bool more;

        do {
                more = str_cut(&rest, '\n', &line);
                if (!str_starts(line, "0::/") || line.n - 3 >= CGROUP_PLACE_MAX)
                        continue;
                memcpy(out, line.p + 3, line.n - 3);
                out[line.n - 3] = '\0';
                return true;
        } while (more);
        return false;
}

/* The mark that systemd puts on a group which it leaves to somebody else; its twin user.delegate anybody could set. */
static bool has_delegate_mark(const char *path, void *arg)
{
        AUTO_CLOSE int dir = sys_open_dir(*(const int *)arg, path);
        char value[4];

        return dir >= 0 && fgetxattr(dir, "trusted.delegate", value, sizeof(value)) == 1 && value[0] == '1';
}

static void note_name(char out[64], const char *parent)
{
        (void)snprintf(out, 64, "cgroup-of-%s", parent);
}

static bool has_group(int v2, const char *place, const char *parent)
{
        char path[CGROUP_PLACE_MAX + 64];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s%s%s", place, place[0] ? "/" : "", parent);
        return fstatat(v2, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool read_note(const char *parent, char out[CGROUP_PLACE_MAX])
{
        AUTO_CLOSE int run = run_dir_open();
        char name[64];

        note_name(name, parent);
        return run >= 0 && sys_read_at(run, name, out, CGROUP_PLACE_MAX) > 0;
}

void cgroup_place_find(int v2, const char *parent, char out[CGROUP_PLACE_MAX])
{
        char text[OWN_GROUP_MAX], own[CGROUP_PLACE_MAX];

        if (read_note(parent, out) && has_group(v2, out, parent))
                return;
        out[0] = '\0';
        if (has_group(v2, "", parent))
                return; /* an earlier server was not in a delegated group, and its sandboxes may live */
        if (sys_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) > 0 && cgroup_place_parse(text, own))
                cgroup_place_choose(own, has_delegate_mark, &v2, out);
}

bool cgroup_place_noted(char out[CGROUP_PLACE_MAX])
{
        AUTO_CLOSE int run = run_dir_open();
        AUTO_DIR DIR *d = run < 0 ? NULL : sys_list(run);
        struct dirent *e;

        while (d && (e = sys_list_next(d)))
                if (str_starts(str_of(e->d_name), "cgroup-of-") &&
                    sys_read_at(run, e->d_name, out, CGROUP_PLACE_MAX) > 0)
                        return true;
        return false;
}

int cgroup_place_note(const char *parent, const char *place)
{
        AUTO_CLOSE int run = run_dir_open();
        char name[64];

        note_name(name, parent);
        if (place[0])
                return run < 0 ? run : sys_replace_at(run, name, place, strlen(place), 0600);
        cgroup_place_forget(parent);
        return 0;
}

void cgroup_place_forget(const char *parent)
{
        AUTO_CLOSE int run = run_dir_open();
        char name[64];

        note_name(name, parent);
        if (run >= 0)
                (void)unlinkat(run, name, 0); /* without a note, the top */
}
