/* Lists of processes that are longer than what is read at a time: every number is whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/host/cgroup_processes.h"

#define MANY 5000 /* from 1000 on, a line of 5 bytes each: a piece ends in the middle of a number */

struct seen {
        pid_t next;
        int wrong, left;
};

static int see(pid_t pid, void *arg)
{
        struct seen *s = arg;

        s->wrong += pid != s->next++;
        return --s->left == 0 ? -ECANCELED : 0;
}

/* A file in a directory of its own; the directory, to be closed; the name of the file is "procs". */
static int write_list(char dir[], pid_t count)
{
        int at, fd;

        if (!mkdtemp(dir))
                return -errno;
        at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd = at < 0 ? -1 : openat(at, "procs", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        for (pid_t i = 0; fd >= 0 && i < count; i++)
                (void)dprintf(fd, "%d\n", (int)(1000 + i));
        if (fd >= 0)
                (void)close(fd);
        return at;
}

static void remove_list(int at, const char *dir)
{
        (void)unlinkat(at, "procs", 0);
        (void)rmdir(dir);
}

static void sees_each_of_many(void)
{
        char dir[] = "/tmp/test_cgroup_processes.XXXXXX";
        AUTO_CLOSE int at = write_list(dir, MANY);
        struct seen s = {.next = 1000, .left = MANY + 1};

        CHECK_INT(at, >=, 0);
        CHECK_INT(cgroup_each_process(at, "procs", see, &s), ==, 0);
        remove_list(at, dir);
        CHECK_INT(s.wrong, ==, 0);
        CHECK_INT(s.left, ==, 1);
}

static void stops_when_it_is_told_to(void)
{
        char dir[] = "/tmp/test_cgroup_processes.XXXXXX";
        AUTO_CLOSE int at = write_list(dir, MANY);
        struct seen s = {.next = 1000, .left = 7};

        CHECK_INT(at, >=, 0);
        CHECK_INT(cgroup_each_process(at, "procs", see, &s), ==, -ECANCELED);
        remove_list(at, dir);
        CHECK_INT(s.next, ==, 1007);
}

static void an_empty_group_has_none(void)
{
        char dir[] = "/tmp/test_cgroup_processes.XXXXXX";
        AUTO_CLOSE int at = write_list(dir, 0);
        struct seen s = {.left = 1};

        CHECK_INT(at, >=, 0);
        CHECK_INT(cgroup_each_process(at, "procs", see, &s), ==, 0);
        CHECK_INT(cgroup_each_process(at, "nothing", see, &s), ==, -ENOENT);
        remove_list(at, dir);
        CHECK_INT(s.left, ==, 1);
}

int main(void)
{
        RUN(sees_each_of_many);
        RUN(stops_when_it_is_told_to);
        RUN(an_empty_group_has_none);
        return tap_done();
}
