#include "sys/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

_Static_assert(SYS_HANDLE_MAX == MAX_HANDLE_SZ, "the kernel's own limit");

union room { /* struct file_handle ends in its bytes */
        struct file_handle h;
        uint8_t bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
};

int sys_handle_of(int fd, struct sys_handle *ret)
{
        union room room = {.h = {.handle_bytes = MAX_HANDLE_SZ}};
        int mount_id;

        if (name_to_handle_at(fd, "", &room.h, &mount_id, AT_EMPTY_PATH) < 0)
                return -errno;
        ret->bytes = room.h.handle_bytes;
        ret->type = room.h.handle_type;
        memcpy(ret->data, room.bytes + offsetof(struct file_handle, f_handle), ret->bytes);
        return 0;
}

int sys_handle_open(int mount, const struct sys_handle *h, int flags)
{
        union room room = {.h = {.handle_bytes = h->bytes, .handle_type = h->type}};
        int fd;

        if (h->bytes > MAX_HANDLE_SZ)
                return -EINVAL;
        memcpy(room.bytes + offsetof(struct file_handle, f_handle), h->data, h->bytes);
        fd = open_by_handle_at(mount, &room.h, flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}
