#include "engine/storage/trash_remover.h"

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "sys/fs.h"

#define OTHERS_FIRST_MS 50
#define NICE 10

static void remove_all(int trash)
{
        AUTO_DIR DIR *d = sys_list(trash);
        struct dirent *e;
        int r;

        while (d && (e = sys_list_next(d))) {
                r = sys_remove_tree(trash, e->d_name);
                if (r < 0)
                        log_warn("trash.stuck", "name=%s error=\"%s\", trying again with the next one", e->d_name,
                                 strerror(-r));
        }
}

/* The process that threw something away has more to do, most often for a request that waits. */
static void let_others_go_first(int sock)
{
        struct pollfd p = {.fd = sock}; /* unless the engine is gone */

        (void)poll(&p, 1, OTHERS_FIRST_MS);
}

static _Noreturn void run_trash_remover(int trash, int sock)
{
        const struct sched_param any = {0};
        char more[HELPER_MESSAGE_MAX];
        ssize_t n;

        (void)sched_setscheduler(0, SCHED_BATCH, &any);
        (void)setpriority(PRIO_PROCESS, 0, NICE);
        do {
                remove_all(trash);
                n = recv(sock, more, sizeof(more), 0);
                if (n > 0)
                        let_others_go_first(sock);
                while (n > 0 && recv(sock, more, sizeof(more), MSG_DONTWAIT) > 0)
                        ; /* one round serves all of them */
        } while (n > 0);
        _exit(0);
}

int trash_remover_fork(int trash_dir, int *ret_sock, struct err *err)
{
        int sock = -1;
        pid_t pid = helper_fork("sg-trash", &trash_dir, 1, &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork the trash remover");
        if (pid == 0)
                run_trash_remover(trash_dir, sock);
        *ret_sock = sock;
        return 0;
}
