#include "engine/storage/layer_links.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/host/mount_stage.h"

#define DIR_PATH_MAX 64

void layer_links_init(struct layer_links *l)
{
        *l = (struct layer_links){.dir = -1};
}

static void dir_path(char path[DIR_PATH_MAX])
{
        (void)snprintf(path, DIR_PATH_MAX, STAGE_LINKS "/%d", (int)getpid());
}

static void remove_links(int dir)
{
        char name[24];

        for (size_t i = 0; i < LAYER_LINKS; i++) {
                (void)snprintf(name, sizeof(name), "%zu", i);
                if (unlinkat(dir, name, 0) < 0)
                        return; /* they are made in order */
        }
}

int layer_links_open(struct layer_links *l, struct err *err)
{
        char path[DIR_PATH_MAX];

        layer_links_init(l);
        dir_path(path);
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
                return err_sys(err, -errno, "make %s", path);
        l->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (l->dir < 0)
                return err_sys(err, -errno, "open %s", path);
        remove_links(l->dir);
        return 0;
}

void layer_links_close(struct layer_links *l)
{
        char path[DIR_PATH_MAX];

        if (l->dir < 0)
                return;
        remove_links(l->dir);
        close_fd(&l->dir);
        dir_path(path);
        (void)rmdir(path);
}

int layer_links_set(struct layer_links *l, size_t i, const char *at, const char *place, const char *name)
{
        char target[LAYER_LINK_MAX], link[24];
        int n = snprintf(target, sizeof(target), "%s/%s/%s", at, place, name);

        if (n < 0 || (size_t)n >= sizeof(target))
                return -ENAMETOOLONG;
        if (strcmp(l->targets[i], target) == 0)
                return 0;
        (void)snprintf(link, sizeof(link), "%zu", i);
        l->targets[i][0] = '\0';
        if (unlinkat(l->dir, link, 0) < 0 && errno != ENOENT)
                return -errno;
        if (symlinkat(target, l->dir, link) < 0)
                return -errno;
        memcpy(l->targets[i], target, (size_t)n + 1);
        return 0;
}
