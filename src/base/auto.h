/* auto.h - scope-bound release of fds and memory, and giving ownership away. */
#pragma once
#include <stdlib.h>
#include <unistd.h>

#define AUTO(fn) __attribute__((cleanup(fn)))
#define AUTO_CLOSE AUTO(auto_close_p)
#define AUTO_FREE AUTO(auto_free_p)
#define TAKE_FD(fd)                                                                                                    \
        ({                                                                                                             \
                int take_ = (fd);                                                                                      \
                (fd) = -1;                                                                                             \
                take_;                                                                                                 \
        })
#define TAKE_PTR(p)                                                                                                    \
        ({                                                                                                             \
                __typeof__(p) take_ = (p);                                                                             \
                (p) = NULL;                                                                                            \
                take_;                                                                                                 \
        })

#define ARRAY_LEN(a) (sizeof(a) / sizeof(*(a)))
#define PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void auto_close_p(int *fd)
{
        if (*fd >= 0)
                (void)close(*fd); /* not retried on EINTR: the number is free already */
}

static inline void auto_free_p(void *p)
{
        free(*(void **)p);
}

/* Close and forget; for fds that live in structs. */
static inline void close_fd(int *fd)
{
        auto_close_p(fd);
        *fd = -1;
}
