#include "serve/setup/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "sys/fs.h"
#include "version.h"

#define LAYOUT_FILE "layout"

static int open_data_dir(const char *data_dir)
{
        int fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

/* ---- contents without a layout ---- */

/* What is shared with other data directories or put there before the first start, and what a new file system or a power
 * cut while the number was being written leaves. */
static bool is_expected(const char *name)
{
        static const char *const names[] = {"images", "criu", "stall", "lost+found", LAYOUT_FILE ".new"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

static bool is_empty_dir(int dir, const char *name)
{
        AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        AUTO_DIR DIR *d = fd < 0 ? NULL : sys_list(fd);

        return d && !sys_list_next(d);
}

/* The name of something that lies there into out: 1; 0: there is nothing; or negative errno. */
static int first_content(int dir, char out[NAME_MAX + 1])
{
        AUTO_DIR DIR *d = sys_list(dir);
        const struct dirent *entry;

        if (!d)
                return -errno;
        while ((entry = sys_list_next(d)))
                if (!is_expected(entry->d_name) && !is_empty_dir(dir, entry->d_name)) {
                        (void)snprintf(out, NAME_MAX + 1, "%s", entry->d_name);
                        return 1;
                }
        return 0;
}

/* ---- the number ---- */

/* 0: *ret is the number; -ENOENT: there is none; other negative errno: it cannot be told. */
static int read_layout(int dir, uint32_t *ret)
{
        char text[16];
        ssize_t n = sys_read_at(dir, LAYOUT_FILE, text, sizeof(text));

        if (n < 0)
                return (int)n;
        return parse_u32((struct str){text, strcspn(text, "\n")}, 1, UINT32_MAX, ret);
}

static int refuse_layout(const char *data_dir, uint32_t layout, struct err *err)
{
        return err_set(err, ERR_CONFLICT,
                       "data directory '%s' has layout %u, and sandglass " SANDGLASS_VERSION
                       " works with layout %u: use the version of sandglass that made the directory, or another --data",
                       data_dir, layout, DATA_LAYOUT);
}

static int refuse_contents(const char *data_dir, const char *name, struct err *err)
{
        return err_set(err, ERR_CONFLICT,
                       "'%s' holds '%.40s' but no layout version: made by another version of sandglass (this "
                       "is " SANDGLASS_VERSION
                       ", layout %u), or not a data directory. Use that version, or another --data",
                       data_dir, name, DATA_LAYOUT);
}

int layout_check(const char *data_dir, struct err *err)
{
        AUTO_CLOSE int dir = open_data_dir(data_dir);
        char name[NAME_MAX + 1];
        uint32_t layout = 0;
        int r;

        if (dir == -ENOENT)
                return 0;
        if (dir < 0)
                return err_sys(err, dir, "open data directory '%s'", data_dir);
        r = read_layout(dir, &layout);
        if (r == 0)
                return layout == DATA_LAYOUT ? 0 : refuse_layout(data_dir, layout, err);
        if (r != -ENOENT)
                return err_set(err, ERR_CONFLICT,
                               "'%s/" LAYOUT_FILE "' is not the number of a layout (sandglass " SANDGLASS_VERSION
                               " works with %u): use another --data",
                               data_dir, DATA_LAYOUT);
        r = first_content(dir, name);
        if (r < 0)
                return err_sys(err, r, "read data directory '%s'", data_dir);
        return r > 0 ? refuse_contents(data_dir, name, err) : 0;
}

int layout_write(const char *data_dir, struct err *err)
{
        AUTO_CLOSE int dir = open_data_dir(data_dir);
        uint32_t layout;
        char text[16];
        int n, r;

        if (dir < 0)
                return err_sys(err, dir, "open data directory '%s'", data_dir);
        if (read_layout(dir, &layout) == 0)
                return 0;
        n = snprintf(text, sizeof(text), "%u\n", DATA_LAYOUT);
        r = sys_replace_durably_at(dir, LAYOUT_FILE, text, (size_t)n, 0644);
        return r < 0 ? err_sys(err, r, "write '%s/" LAYOUT_FILE "'", data_dir) : 0;
}
