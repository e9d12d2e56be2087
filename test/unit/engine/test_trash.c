#include "engine/storage/trash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/fs.h"

static int home, trash;

static unsigned count_trash(void)
{
        AUTO_DIR DIR *d = sys_list(trash);
        unsigned n = 0;

        while (d && sys_list_next(d))
                n++;
        return n;
}

static void what_is_moved_is_gone_and_lies_in_the_trash(void)
{
        CHECK_INT(mkdirat(home, "u", 0700), ==, 0);
        CHECK_INT(trash_move(trash, home, "u"), ==, 0);
        CHECK_INT(faccessat(home, "u", F_OK, 0), <, 0);
        CHECK_INT(count_trash(), ==, 1);
}

static void one_name_can_be_moved_many_times(void)
{
        unsigned before = count_trash();

        for (unsigned i = 0; i < 50; i++) {
                CHECK_INT(mkdirat(home, "u", 0700), ==, 0);
                CHECK_INT(mkdirat(home, "u/file", 0700), ==, 0); /* an empty one could be replaced */
                CHECK_INT(trash_move(trash, home, "u"), ==, 0);
        }
        CHECK_INT(count_trash(), ==, before + 50);
}

static void what_is_not_there_is_told(void)
{
        unsigned before = count_trash();

        CHECK_INT(trash_move(trash, home, "nothing"), ==, -ENOENT);
        trash_discard(trash, home, "nothing");
        CHECK_INT(count_trash(), ==, before);
}

static void a_long_name_is_moved_too(void)
{
        char name[201];

        memset(name, 'x', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        CHECK_INT(mkdirat(home, name, 0700), ==, 0);
        CHECK_INT(trash_move(trash, home, name), ==, 0);
        CHECK_INT(faccessat(home, name, F_OK, 0), <, 0);
}

static void what_cannot_be_moved_stays(void)
{
        CHECK_INT(mkdirat(home, "stays", 0700), ==, 0);
        CHECK_INT(trash_move(-1, home, "stays"), ==, -EBADF);
        trash_discard(-1, home, "stays"); /* is logged */
        CHECK_INT(faccessat(home, "stays", F_OK, 0), ==, 0);
}

int main(void)
{
        char dir[] = "/tmp/sandglass-trash-XXXXXX";
        AUTO_CLOSE int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (!mkdtemp(dir) || (home = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
            mkdirat(home, "trash", 0700) < 0 || (trash = sys_open_dir(home, "trash")) < 0)
                return 1;
        RUN(what_is_moved_is_gone_and_lies_in_the_trash);
        RUN(one_name_can_be_moved_many_times);
        RUN(what_is_not_there_is_told);
        RUN(a_long_name_is_moved_too);
        RUN(what_cannot_be_moved_stays);
        (void)sys_remove_tree(tmp, dir + sizeof("/tmp/") - 1);
        return tap_done();
}
