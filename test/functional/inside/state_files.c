/* Open files: deleted, of a lower layer, shared offsets, locks, watches, pipes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "state.h"

#define DIR "/tmp/state"

static bool holds(int fd, const char *text, off_t offset)
{
        char got[64] = "";
        size_t n = strlen(text);

        return pread(fd, got, sizeof(got), 0) == (ssize_t)n && memcmp(got, text, n) == 0 &&
               lseek(fd, 0, SEEK_CUR) == offset;
}

static int deleted_fd;
static const char *deleted_make(void)
{
        NEED((deleted_fd = open(DIR "-deleted", O_RDWR | O_CREAT, 0640)) >= 0);
        NEED(write(deleted_fd, "no name any more", 16) == 16 && unlink(DIR "-deleted") == 0);
        NEED(lseek(deleted_fd, 3, SEEK_SET) == 3);
        return NULL;
}
static const char *deleted_check(void)
{
        struct stat st;

        NEED(holds(deleted_fd, "no name any more", 3));
        NEED(fstat(deleted_fd, &st) == 0 && st.st_nlink == 0 && (st.st_mode & 07777) == 0640);
        return NULL;
}

static int lower_fd;
static off_t lower_size;
static const char *lower_make(void) /* of the template, never written: in no upper directory */
{
        const char *path = getenv("STATE_LOWER");

        NEED(path && (lower_fd = open(path, O_RDONLY)) >= 0);
        NEED((lower_size = lseek(lower_fd, 0, SEEK_END)) > 10 && lseek(lower_fd, 7, SEEK_SET) == 7 &&
             unlink(path) == 0);
        return NULL;
}
static const char *lower_check(void)
{
        char text[10];

        NEED(lseek(lower_fd, 0, SEEK_CUR) == 7 && lseek(lower_fd, 0, SEEK_END) == lower_size);
        NEED(pread(lower_fd, text, 10, 0) == 10 && lseek(lower_fd, 7, SEEK_SET) == 7);
        return NULL;
}

static int tmpfile_fd;
static const char *tmpfile_make(void)
{
        NEED((tmpfile_fd = open("/tmp", O_TMPFILE | O_RDWR, 0600)) >= 0 && write(tmpfile_fd, "unnamed", 7) == 7);
        return NULL;
}
static const char *tmpfile_check(void)
{
        NEED(holds(tmpfile_fd, "unnamed", 7));
        return NULL;
}

static int offset_fd, offset_dup, append_fd;
static const char *offset_make(void)
{
        NEED((offset_fd = open(DIR "-offset", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) >= 0);
        NEED(write(offset_fd, "0123456789", 10) == 10 && (offset_dup = dup(offset_fd)) >= 0);
        NEED(lseek(offset_fd, 4, SEEK_SET) == 4);
        NEED((append_fd = open(DIR "-append", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600)) >= 0);
        return NULL;
}
static const char *offset_check(void)
{
        struct stat before, after;

        NEED(holds(offset_dup, "0123456789", 4));
        NEED(lseek(offset_dup, 6, SEEK_SET) == 6 && lseek(offset_fd, 0, SEEK_CUR) == 6); /* one offset for both */
        NEED(lseek(offset_fd, 4, SEEK_SET) == 4);
        NEED((fcntl(offset_fd, F_GETFD) & FD_CLOEXEC) && !(fcntl(offset_dup, F_GETFD) & FD_CLOEXEC));
        NEED(fcntl(append_fd, F_GETFL) & O_APPEND);
        NEED(fstat(append_fd, &before) == 0 && write(append_fd, "x", 1) == 1 && fstat(append_fd, &after) == 0);
        NEED(after.st_size == before.st_size + 1);
        return NULL;
}

static char *map_shared, *map_private, *map_deleted;
static int map_fd;
static const char *maps_make(void)
{
        int fd;

        NEED((map_fd = open(DIR "-map", O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0 &&
             ftruncate(map_fd, (off_t)(2 * PAGE)) == 0);
        NEED((map_shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0)) != MAP_FAILED);
        NEED((map_private = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, map_fd, 0)) != MAP_FAILED);
        strcpy(map_shared, "shared");
        strcpy(map_private + PAGE, "mine");
        NEED((fd = open(DIR "-gone", O_RDWR | O_CREAT, 0600)) >= 0 && ftruncate(fd, 4096) == 0);
        NEED((map_deleted = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) != MAP_FAILED);
        strcpy(map_deleted, "gone");
        NEED(close(fd) == 0 && unlink(DIR "-gone") == 0);
        return NULL;
}
static const char *maps_check(void)
{
        char text[8] = "";

        NEED(strcmp(map_shared, "shared") == 0 && strcmp(map_private + PAGE, "mine") == 0);
        NEED(map_shared[PAGE] == '\0' && strcmp(map_deleted, "gone") == 0);
        map_shared[0] = 'S';
        NEED(pread(map_fd, text, 6, 0) == 6 && text[0] == 'S' && map_private[0] == 'S'); /* still the same page */
        map_shared[0] = 's';
        return NULL;
}

static int fifo_fd, pipe_fds[2];
static const char *pipes_make(void)
{
        NEED(mkfifo(DIR "-fifo", 0600) == 0 && (fifo_fd = open(DIR "-fifo", O_RDWR | O_NONBLOCK)) >= 0);
        NEED(write(fifo_fd, "in the fifo", 11) == 11);
        NEED(pipe2(pipe_fds, O_NONBLOCK) == 0 && fcntl(pipe_fds[1], F_SETPIPE_SZ, 1 << 17) == 1 << 17);
        NEED(write(pipe_fds[1], "in the pipe", 11) == 11);
        return NULL;
}
static const char *pipes_check(void)
{
        char text[32];

        NEED(read(fifo_fd, text, sizeof(text)) == 11 && memcmp(text, "in the fifo", 11) == 0);
        NEED(write(fifo_fd, "in the fifo", 11) == 11);
        NEED(read(pipe_fds[0], text, sizeof(text)) == 11 && memcmp(text, "in the pipe", 11) == 0);
        NEED(read(pipe_fds[0], text, 1) < 0 && errno == EAGAIN && fcntl(pipe_fds[1], F_GETPIPE_SZ) == 1 << 17);
        NEED(write(pipe_fds[1], "in the pipe", 11) == 11);
        return NULL;
}

static int flock_fd, posix_fd;
static const char *locks_make(void)
{
        struct flock l = {.l_type = F_WRLCK, .l_start = 10, .l_len = 20};

        NEED((flock_fd = open(DIR "-flock", O_RDWR | O_CREAT, 0600)) >= 0 && flock(flock_fd, LOCK_EX) == 0);
        NEED((posix_fd = open(DIR "-posix", O_RDWR | O_CREAT, 0600)) >= 0 && fcntl(posix_fd, F_SETLK, &l) == 0);
        return NULL;
}
static int other_process_finds_locks(void)
{
        struct flock l = {.l_type = F_WRLCK, .l_start = 15, .l_len = 1},
                     beside = {.l_type = F_WRLCK, .l_start = 40, .l_len = 1};
        int a = open(DIR "-flock", O_RDWR), b = open(DIR "-posix", O_RDWR);

        return flock(a, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK && fcntl(b, F_GETLK, &l) == 0 &&
               l.l_type == F_WRLCK && l.l_start == 10 && l.l_pid == getppid() && fcntl(b, F_SETLK, &beside) == 0;
}
static const char *locks_check(void)
{
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(other_process_finds_locks() ? 0 : 1);
        NEED(waitpid(pid, &status, 0) == pid && status == 0);
        return NULL;
}

static int watch_fd;
static const char *inotify_make(void)
{
        NEED(mkdir(DIR "-watched", 0755) == 0 && (watch_fd = inotify_init1(IN_NONBLOCK)) >= 0);
        NEED(inotify_add_watch(watch_fd, DIR "-watched", IN_CREATE | IN_DELETE) > 0);
        return NULL;
}
static const char *inotify_check(void)
{
        char events[512];
        int fd;
        ssize_t n;

        NEED((fd = open(DIR "-watched/new", O_CREAT | O_WRONLY, 0600)) >= 0 && close(fd) == 0);
        NEED(unlink(DIR "-watched/new") == 0);
        n = read(watch_fd, events, sizeof(events));
        NEED(n > 0 && ((struct inotify_event *)(void *)events)->mask == IN_CREATE);
        NEED(strcmp(((struct inotify_event *)(void *)events)->name, "new") == 0);
        NEED(read(watch_fd, events, sizeof(events)) < 0 && errno == EAGAIN);
        return NULL;
}

static int dir_fd;
static const char *cwd_make(void) /* of the whole program: everything else uses absolute names */
{
        NEED(mkdir(DIR "-cwd", 0755) == 0 && chdir(DIR "-cwd") == 0 && rmdir(DIR "-cwd") == 0);
        NEED((dir_fd = open("/usr/share", O_RDONLY | O_DIRECTORY)) >= 0);
        return NULL;
}
static const char *cwd_check(void)
{
        char path[200], real[200] = "";

        errno = 0;
        NEED(!getcwd(path, sizeof(path)) && errno == ENOENT);
        NEED(open("here", O_CREAT | O_WRONLY, 0600) < 0 && errno == ENOENT);
        NEED(readlink("/proc/self/cwd", real, sizeof(real) - 1) > 0 && strstr(real, " (deleted)"));
        NEED(faccessat(dir_fd, "doc", F_OK, 0) == 0);
        return NULL;
}

const struct item file_items[] = {
        {"deleted file", deleted_make, deleted_check},
        {"deleted file of a lower layer", lower_make, lower_check},
        {"file that never had a name", tmpfile_make, tmpfile_check},
        {"offsets, append, close-on-exec", offset_make, offset_check},
        {"mapped files", maps_make, maps_check},
        {"fifo and pipe with data", pipes_make, pipes_check},
        {"locks", locks_make, locks_check},
        {"inotify", inotify_make, inotify_check},
        {"working directory that was deleted", cwd_make, cwd_check},
        {0},
};
