/* handle.h - a file by a few bytes instead of an open fd: for trees deeper and wider than there are fds. */
#pragma once
#include <stdint.h>

#define SYS_HANDLE_MAX 128u

struct sys_handle {
        uint32_t bytes;
        int32_t type;
        uint8_t data[SYS_HANDLE_MAX];
};

int sys_handle_of(int fd, struct sys_handle *ret); /* -EOPNOTSUPP: this file system has none */
/* mount: any fd of the same mount.  Needs CAP_DAC_READ_SEARCH; -ESTALE: it is gone. */
int sys_handle_open(int mount, const struct sys_handle *h, int flags);
