#include "engine/storage/tree_size.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "sys/fs.h"

static void count_below(int at, const char *name, struct tree_size *n, unsigned depth, unsigned max)
{
        int fd = sys_open_beneath(at, name, O_RDONLY | O_DIRECTORY, 0);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;
        struct stat st;

        while (d && n->entries < max && (e = sys_list_next(d))) {
                n->entries++;
                if (e->d_type == DT_DIR && depth < TREE_SIZE_DEPTH_MAX)
                        count_below(fd, e->d_name, n, depth + 1, max);
                else if (e->d_type == DT_REG && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        n->bytes += (uint64_t)st.st_blocks * 512u;
        }
        if (d)
                (void)closedir(d);
}

struct tree_size tree_size_upto(int dir, const char *name, unsigned entries_max)
{
        struct tree_size n = {0};

        count_below(dir, name, &n, 0, entries_max);
        return n;
}

struct tree_size tree_size_of(int dir, const char *name)
{
        return tree_size_upto(dir, name, TREE_SIZE_ENTRIES_MAX);
}
