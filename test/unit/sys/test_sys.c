#include "sys/fs.h"
#include "sys/nosync.h"
#include "sys/proc.h"
#include "sys/scm.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"

static int scratch; /* directory fd */

static void replaces_a_file_whole(void)
{
        char text[16];
        struct stat st;

        CHECK_INT(sys_replace_at(scratch, "f", "one", 3, 0600), ==, 0);
        CHECK_INT(sys_replace_at(scratch, "f", "second", 6, 0600), ==, 0);
        CHECK_INT(sys_read_at(scratch, "f", text, sizeof(text)), ==, 6);
        CHECK_STR(text, "second");
        CHECK_INT(sys_read_at(scratch, "f", text, 6), ==, -E2BIG);
        CHECK_INT(faccessat(scratch, "f.new", F_OK, 0), ==, -1);
        (void)umask(077);
        CHECK_INT(sys_replace_at(scratch, "f", "third", 5, 0644), ==, 0);
        CHECK_INT(fstatat(scratch, "f", &st, 0), ==, 0);
        CHECK_INT(st.st_mode & 07777, ==, 0644);
        CHECK_INT(sys_remove_tree(scratch, "f"), ==, 0);
}

static void overwrites_a_file_in_place(void)
{
        char text[16];

        CHECK_INT(sys_overwrite_at(scratch, "f", "one", 3, ' '), ==, -ENOENT);
        CHECK_INT(sys_replace_at(scratch, "f", "second", 6, 0600), ==, 0);
        CHECK_INT(sys_overwrite_at(scratch, "f", "one", 3, ' '), ==, 0);
        CHECK_INT(sys_read_at(scratch, "f", text, sizeof(text)), ==, 6);
        CHECK_STR(text, "one   ");
        CHECK_INT(sys_overwrite_at(scratch, "f", "longer", 7, ' '), ==, 0);
        CHECK_INT(sys_read_at(scratch, "f", text, sizeof(text)), ==, 7);
        CHECK_STR(text, "longer");
        CHECK_INT(sys_remove_tree(scratch, "f"), ==, 0);
        CHECK(sys_is_full(-ENOSPC) && sys_is_full(-EDQUOT) && !sys_is_full(-EIO) && !sys_is_full(0));
}

static void opening_beneath_does_not_leave_or_follow(void)
{
        CHECK_INT(mkdirat(scratch, "in", 0700), ==, 0);
        CHECK_INT(symlinkat("/etc", scratch, "in/link"), ==, 0);
        CHECK_INT(sys_open_dir(scratch, ".."), ==, -EXDEV);
        CHECK_INT(sys_open_dir(scratch, "/etc"), ==, -EXDEV);
        CHECK_INT(sys_open_dir(scratch, "in/link"), ==, -ELOOP);
        CHECK_INT(sys_open_dir(scratch, "in/../../x"), ==, -EXDEV);
        CHECK_INT(sys_open_dir(scratch, "none"), ==, -ENOENT);
        CHECK_INT(sys_remove_tree(scratch, "in"), ==, 0);
        CHECK_INT(access("/etc/passwd", F_OK), ==, 0); /* the link was removed, not what it names */
}

static void removes_deeper_than_it_recurses(void)
{
        AUTO_CLOSE int at = -1;

        CHECK_INT(mkdirat(scratch, "deep", 0700), ==, 0);
        at = sys_open_dir(scratch, "deep");
        for (int i = 0; i < 300; i++) {
                int next;

                CHECK_INT(mkdirat(at, "d", 0700), ==, 0);
                CHECK_INT(sys_replace_at(at, "file", "x", 1, 0600), ==, 0);
                next = sys_open_dir(at, "d");
                CHECK(next >= 0);
                (void)close(at);
                at = next;
        }
        CHECK_INT(sys_remove_tree(scratch, "deep"), ==, 0);
        CHECK_INT(faccessat(scratch, "deep", F_OK, 0), ==, -1);
        CHECK_INT(sys_remove_tree(scratch, "deep"), ==, 0); /* nothing there: fine */
}

static void passes_fds_and_refuses_too_many(void)
{
        int pair[2], fds[2] = {scratch, scratch}, got[2] = {-1, -1};
        struct stat a, b;
        size_t n = 0;
        char c = 0;

        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), ==, 0);
        CHECK_INT(scm_send(pair[0], "x", 1, fds, 2), ==, 1);
        CHECK_INT(scm_recv(pair[1], &c, 1, got, 2, &n), ==, 1);
        CHECK_INT(n, ==, 2);
        CHECK_INT(fstat(scratch, &a), ==, 0);
        CHECK_INT(fstat(got[1], &b), ==, 0);
        CHECK_INT(a.st_ino, ==, b.st_ino);
        CHECK_INT(fcntl(got[0], F_GETFD), ==, FD_CLOEXEC);
        (void)close(got[0]);
        (void)close(got[1]);
        CHECK_INT(scm_send(pair[0], "y", 1, fds, 2), ==, 1);
        CHECK_INT(scm_recv(pair[1], &c, 1, got, 1, &n), ==, -EBADMSG);
        (void)close(pair[1]);
        CHECK_INT(scm_send(pair[0], "z", 1, NULL, 0), ==, -EPIPE);
        (void)close(pair[0]);
}

static void knows_when_a_process_started_and_ended(void)
{
        AUTO_CLOSE int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), pidfd = -1;
        struct sys_clone c = {.cgroup = -1, .ret_pidfd = &pidfd};
        uint64_t ours, again, theirs;
        int hold[2];
        pid_t pid;

        CHECK_INT(sys_start_time(proc, getpid(), &ours), ==, 0);
        CHECK_INT(sys_start_time(proc, getpid(), &again), ==, 0);
        CHECK(ours == again && ours > 0);
        CHECK_INT(pipe(hold), ==, 0);
        pid = sys_clone(&c);
        if (pid == 0) {
                char b;

                (void)close(hold[1]);
                _exit(read(hold[0], &b, 1) == 0 ? 0 : 1);
        }
        CHECK(pid > 0);
        (void)close(hold[0]);
        CHECK_INT(sys_start_time(proc, pid, &theirs), ==, 0);
        CHECK(theirs >= ours);
        CHECK(!sys_pidfd_is_dead(pidfd));
        (void)close(hold[1]);
        CHECK_INT(sys_pidfd_wait(pidfd, 10000), ==, 0);
}

static void skips_flushes_and_nothing_else(void) /* a flush of no file tells whether the kernel saw it */
{
        int status;
        pid_t pid;

        CHECK(fsync(-1) < 0 && errno == EBADF);
        pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
                bool skips = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && sys_skip_flushes() == 0;

                skips = skips && fsync(-1) == 0 && fdatasync(-1) == 0 && syncfs(-1) == 0;
                skips = skips && sync_file_range(-1, 0, 0, 0) == 0;
                _exit(skips && write(-1, "", 1) < 0 && errno == EBADF ? 0 : 1);
        }
        CHECK_INT(waitpid(pid, &status, 0), ==, pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
        char path[] = "/tmp/sandglass-test-XXXXXX";

        if (!mkdtemp(path))
                return 1;
        scratch = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        RUN(replaces_a_file_whole);
        RUN(overwrites_a_file_in_place);
        RUN(opening_beneath_does_not_leave_or_follow);
        RUN(removes_deeper_than_it_recurses);
        RUN(passes_fds_and_refuses_too_many);
        RUN(knows_when_a_process_started_and_ended);
        RUN(skips_flushes_and_nothing_else);
        (void)rmdir(path);
        return tap_done();
}
