/* tar_maker.h - archives for tests, entry by entry, as a file that a step can be given. */
#pragma once
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "wire/tar/tar.h"

struct tar_maker {
        struct buf out;
};

static inline void tar_begin(struct tar_maker *t)
{
        buf_done(&t->out);
        buf_init(&t->out, 1u << 30);
}

static inline void tar_add(struct tar_maker *t, const struct tar_entry *e, const void *bytes)
{
        static const char zeros[TAR_BLOCK_BYTES];

        (void)tar_write_entry(&t->out, e);
        (void)buf_add(&t->out, bytes, e->size);
        (void)buf_add(&t->out, zeros, tar_padding(e->size));
}

static inline void tar_add_file(struct tar_maker *t, const char *name, const char *text, uint32_t mode)
{
        tar_add(t,
                &(struct tar_entry){
                        .type = TAR_FILE, .name = name, .mode = mode, .size = strlen(text), .mtime_s = 1000000000},
                text);
}

static inline void tar_add_dir(struct tar_maker *t, const char *name, uint32_t mode)
{
        tar_add(t, &(struct tar_entry){.type = TAR_DIRECTORY, .name = name, .mode = mode, .mtime_s = 1000000000}, "");
}

static inline void tar_add_link(struct tar_maker *t, enum tar_type type, const char *name, const char *link)
{
        tar_add(t, &(struct tar_entry){.type = type, .name = name, .link = link, .mode = 0777}, "");
}

/* The archive as a file of its own; -1 on failure. */
static inline int tar_file(struct tar_maker *t)
{
        static const char zeros[TAR_END_BYTES];
        int fd = memfd_create("archive", MFD_CLOEXEC);

        (void)buf_add(&t->out, zeros, sizeof(zeros));
        if (fd >= 0 && write(fd, buf_at(&t->out), t->out.len) != (ssize_t)t->out.len) {
                (void)close(fd);
                fd = -1;
        }
        return fd;
}
