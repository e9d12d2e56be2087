#include "engine/storage/trash.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

#define RANDOM_LEN 20u

int trash_move(int trash_dir, int dir, const char *name)
{
        char to[96];

        (void)snprintf(to, sizeof(to), "%.64s-", name);
        random_id(to + strlen(to), RANDOM_LEN);
        return renameat(dir, name, trash_dir, to) < 0 ? -errno : 0;
}

void trash_discard(int trash_dir, int dir, const char *name)
{
        int r = trash_move(trash_dir, dir, name);

        if (r < 0 && r != -ENOENT)
                log_error("file.left", "name=%s error=\"%s\"", name, strerror(-r));
}
