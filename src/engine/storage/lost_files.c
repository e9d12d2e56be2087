#include "engine/storage/lost_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "engine/storage/trash.h"
#include "model/ids.h"
#include "sys/fs.h"

#define NS_PER_DAY (INT64_C(86400) * 1000000000)

static bool is_there(int dir, const char *name)
{
        return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int lost_files_keep(int lost, int dir, const char *name, const struct lost_note *note)
{
        int r;

        if (!is_there(dir, name) && errno == ENOENT)
                return 0;
        r = lost_note_write(lost, name, note);
        if (r < 0) /* a full disk; the rename itself needs no room */
                log_warn("lost.unnoted", "name=%s error=\"%s\"", name, strerror(-r));
        if (renameat2(dir, name, lost, name, RENAME_NOREPLACE) == 0) {
                log_warn("lost.kept", "name=%s was=\"%s\" why=\"%s\", in %s/", name, note->was, note->why, LOST_DIR);
                return 0;
        }
        r = -errno;
        log_error("lost.left", "name=%s error=\"%s\"", name, strerror(-r));
        return r;
}

int lost_files_remove(int lost, int trash, const char *name)
{
        int r = trash_move(trash, lost, name);

        if (r == 0)
                lost_note_remove(lost, name);
        return r;
}

/* A note that cannot be written counts from the last one that could. */
static bool is_overdue(int lost, const char *name, unsigned days, const struct lost_clock *now)
{
        struct lost_note n;
        int r;

        lost_note_read(lost, name, &n);
        lost_note_look(&n, now);
        if (n.kept_ns > days * NS_PER_DAY)
                return true;
        r = lost_note_write(lost, name, &n);
        if (r < 0)
                log_warn("lost.unnoted", "name=%s error=\"%s\"", name, strerror(-r));
        return false;
}

/* "<name>.json" without <name>. */
static bool is_stale_note(int lost, const char *file)
{
        const char *dot = strchr(file, '.');
        char name[SEALED_ID_MAX];
        enum lost_kind kind;

        if (!dot || strcmp(dot, ".json") != 0 || (size_t)(dot - file) >= sizeof(name))
                return false;
        (void)snprintf(name, sizeof(name), "%.*s", (int)(dot - file), file);
        return lost_kind_of(name, &kind) && !is_there(lost, name) && errno == ENOENT;
}

void lost_files_tidy(int lost, int trash, unsigned days)
{
        AUTO_DIR DIR *d = sys_list(lost);
        const struct dirent *entry;
        struct lost_clock now;
        enum lost_kind kind;

        lost_clock_now(&now);
        while (d && (entry = sys_list_next(d))) {
                if (is_stale_note(lost, entry->d_name)) {
                        (void)unlinkat(lost, entry->d_name, 0);
                } else if (days && lost_kind_of(entry->d_name, &kind) && is_overdue(lost, entry->d_name, days, &now) &&
                           lost_files_remove(lost, trash, entry->d_name) == 0) {
                        log_warn("lost.expired", "name=%s lay there for more than %u days", entry->d_name, days);
                }
        }
}
