#include "engine/host/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

int run_dir_open(void)
{
        int fd;

        if (mkdir(RUN_DIR, 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = open(RUN_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}
