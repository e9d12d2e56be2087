#include "engine/net/dns_forwarder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/net/slot_network.h"
#include "model/conf.h"
#include "sys/netlink.h"
#include "sys/proc.h"
#include "sys/scm.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define WHY_MAX 200
#define BACKLOG 64

static int make_socket(int type, uint32_t address)
{
        const struct sockaddr_in at = {
                .sin_family = AF_INET, .sin_port = htons(DNS_FORWARDER_PORT), .sin_addr = {htonl(address)}};
        AUTO_CLOSE int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0 || bind(fd, (const struct sockaddr *)(const void *)&at, sizeof(at)) < 0 ||
            (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
                return -errno;
        return TAKE_FD(fd);
}

/* In the namespace made for it; back in the host's when it returns.  The sockets keep that namespace. */
static int make_sockets(const struct dns_forwarder *f, struct dns_service_conf *c, struct err *err)
{
        AUTO_CLOSE int host = sys_ns_open(f->proc_dir, 0, "net"), nl = netlink_open(), netns = -1;
        int r;

        if (host < 0 || nl < 0)
                return err_sys(err, host < 0 ? host : nl, "open own network namespace");
        if (unshare(CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "make network namespace");
        netns = sys_ns_open(f->proc_dir, 0, "net");
        r = netns < 0 ? err_sys(err, netns, "open network namespace")
                      : slot_network_furnish(f->instance, DNS_FORWARDER_SLOT, true, nl, netns, 0, err);
        if (r == 0) {
                c->udp = make_socket(SOCK_DGRAM, instance_address(f->instance, DNS_FORWARDER_SLOT));
                c->tcp = make_socket(SOCK_STREAM, instance_address(f->instance, DNS_FORWARDER_SLOT));
                if (c->udp < 0 || c->tcp < 0)
                        r = err_sys(err, c->udp < 0 ? c->udp : c->tcp, "listen for queries");
        }
        if (setns(host, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "return to the host's network namespace");
        return r;
}

static int give_up_rights(struct err *err)
{
        int r;

        (void)sys_raise_nofile();
        r = sys_keep_caps(false); /* they go with the user */
        if (r < 0)
                return err_sys(err, r, "drop capabilities");
        if (setgroups(0, NULL) < 0 || setresgid(CONF_DNS_UID, CONF_DNS_UID, CONF_DNS_UID) < 0)
                return err_sys(err, -errno, "change group");
        if (setresuid(CONF_DNS_UID, CONF_DNS_UID, CONF_DNS_UID) < 0)
                return err_sys(err, -errno, "change user");
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with the credentials */
        r = sys_keep_only_caps(0);
        if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                r = -errno;
        return r < 0 ? err_sys(err, r, "drop capabilities") : 0;
}

static _Noreturn void run_dns_forwarder(const struct dns_forwarder *f, int sock)
{
        struct dns_service_conf c = {.udp = -1,
                                     .tcp = -1,
                                     .first_address = instance_address(f->instance, 0),
                                     .resolv_conf = RESOLV_CONF,
                                     .servers = f->servers,
                                     .server_port = DNS_FORWARDER_PORT,
                                     .engine = sock};
        struct err err = {0};
        int r = make_sockets(f, &c, &err);

        if (r == 0)
                r = give_up_rights(&err);
        if (r == 0 && (r = dns_forwarder_serve(&c)) < 0)
                (void)err_sys(&err, r, "serve");
        if (r < 0)
                (void)scm_send(sock, err.msg, strnlen(err.msg, WHY_MAX), NULL, 0);
        _exit(r < 0 ? 1 : 0);
}

/* ------------------------------------------------------------- the engine's end */

/* It only speaks to say why it cannot serve. */
static void on_dns_message(struct helper *h, const void *msg, size_t n, int *fds, size_t nfds)
{
        char clean[LOG_ESCAPED_MAX];

        (void)h;
        for (size_t i = 0; i < nfds; i++)
                close_fd(&fds[i]);
        log_error("dns.failed", "error=\"%s\", sandboxes resolve no names where the host's servers are closed to them",
                  log_escape((struct str){msg, n}, clean));
}

static int dns_forwarder_fork(struct helper *h, struct err *err)
{
        struct dns_forwarder *f = CONTAINER_OF(h, struct dns_forwarder, helper);
        int sock = -1, r;
        pid_t pid = helper_fork("sg-dns", &f->proc_dir, 1, &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork the DNS forwarder");
        if (pid == 0)
                run_dns_forwarder(f, sock);
        r = helper_start(h, h->home, sock);
        return r < 0 ? err_sys(err, r, "watch the DNS forwarder") : 0;
}

int dns_forwarder_start(struct dns_forwarder *f, struct loop *l, const struct instance *in, const json_t *servers,
                        int proc_dir, struct err *err)
{
        *f = (struct dns_forwarder){.instance = in, .servers = servers, .proc_dir = proc_dir};
        f->helper.name = "dns";
        f->helper.on_message = on_dns_message;
        f->helper.again = dns_forwarder_fork;
        f->helper.home = l;
        return dns_forwarder_fork(&f->helper, err);
}

void dns_forwarder_stop(struct dns_forwarder *f)
{
        helper_stop(&f->helper);
}
