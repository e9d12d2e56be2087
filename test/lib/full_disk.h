/* full_disk.h - a small disk that a test can fill to its last block: a tmpfs in a mount namespace of the test's own. */
#pragma once
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

static char full_disk_dir[] = "/tmp/sandglass-full-XXXXXX";
static char full_disk_filler[64];

/* An unprivileged user may mount a tmpfs where all namespaces are its own.  false: not here. */
static bool full_disk_mount(const char *options)
{
        if (!mkdtemp(full_disk_dir))
                return false;
        (void)snprintf(full_disk_filler, sizeof(full_disk_filler), "%s/filler", full_disk_dir);
        if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return false;
        (void)mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
        return mount("sandglass-test", full_disk_dir, "tmpfs", 0, options) == 0;
}

static void full_disk_remove(void)
{
        (void)umount(full_disk_dir);
        (void)rmdir(full_disk_dir);
}

static void full_disk_fill(void)
{
        static const char zeros[4096];
        int fd = open(full_disk_filler, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

        while (write(fd, zeros, sizeof(zeros)) > 0)
                ;
        (void)close(fd);
}

static void full_disk_make_room(void)
{
        (void)unlink(full_disk_filler);
}
