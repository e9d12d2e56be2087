#include "engine/namespace/firewall_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/namespace/namespaces.h"
#include "engine/net/firewall.h"
#include "sys/fs.h"
#include "sys/netlink.h"

static struct firewall_entry *collect(struct namespaces *ns, size_t *ret_count)
{
        struct engine *e = ns->engine;
        struct firewall_entry *entries = calloc(e->sandboxes.used + 1, sizeof(*entries));
        size_t n = 0;

        MAP_EACH (slot, &e->sandboxes) {
                struct guest *s = slot->value;

                if (entries && s->ops == &namespace_ops && namespace_of(s)->has_rules)
                        entries[n++] = (struct firewall_entry){guest_slot(s), &s->record.net};
        }
        *ret_count = n;
        return entries;
}

static void put_back(struct namespaces *ns)
{
        size_t n;
        AUTO_FREE struct firewall_entry *entries = collect(ns, &n);
        struct err err = {0};

        if (!entries)
                (void)err_sys(&err, -ENOMEM, "firewall");
        if (!entries || firewall_load(ns->firewall, entries, n, &err) < 0)
                log_error("firewall.lost", "error=\"%s\", sandboxes can reach the host", err.msg);
        else
                log_warn("firewall.restored", "somebody removed the table");
}

/* Our own changes arrive here, too: the table is there then. */
static void on_change(struct io *io, uint32_t events)
{
        struct namespaces *ns = CONTAINER_OF(io, struct namespaces, table_events);
        char text[4096];
        ssize_t n;

        (void)events;
        do
                n = recv(io->fd, text, sizeof(text), MSG_TRUNC);
        while (n > 0 || (n < 0 && (errno == ENOBUFS || errno == EINTR)));
        if (netlink_table_exists(ns->instance.name) == 0)
                put_back(ns);
}

static int watch(struct namespaces *ns)
{
        int fd = netlink_open_table_events(), r;

        if (fd < 0)
                return fd;
        ns->table_events = (struct io){.fd = fd, .on = on_change};
        r = loop_add(ns->engine->loop, &ns->table_events, EPOLLIN);
        if (r < 0)
                close_fd(&ns->table_events.fd);
        return r;
}

void firewall_watch_start(struct namespaces *ns)
{
        size_t n;
        AUTO_FREE struct firewall_entry *entries = NULL;
        struct passage_report first;
        struct err err = {0};
        int r;

        MAP_EACH (slot, &ns->engine->sandboxes) {
                struct guest *s = slot->value;
                const struct plan_net *net = &s->record.net;

                if (s->ops == &namespace_ops)
                        namespace_of(s)->has_rules =
                                guest_slot(s) && (!net->internet || net->allow_count > 0 || net->deny_count > 0);
        }
        entries = collect(ns, &n);
        if (!entries)
                (void)err_sys(&err, -ENOMEM, "firewall");
        else if (sys_write_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", "1") < 0)
                (void)err_set(&err, ERR_UNAVAILABLE, "IP forwarding cannot be switched on");
        else if (firewall_create(&ns->instance, entries, n, &ns->firewall, &err) == 0) {
                r = watch(ns);
                if (r < 0)
                        log_warn("firewall.unwatched", "error=\"%s\"", strerror(-r));
                passage_open(&ns->instance, &first); /* before the first sandbox; the keeper reports the same */
                if (passage_keeper_start(&ns->passage_keeper, ns->engine->loop, &ns->instance, &err) < 0)
                        log_error("helper.failed", "name=passage error=\"%s\"", err.msg);
                if (dns_forwarder_start(&ns->dns_forwarder, ns->engine->loop, &ns->instance,
                                        ns->engine->conf->sandbox_dns, ns->engine->proc_dir, &err) < 0)
                        log_error("helper.failed", "name=dns error=\"%s\"", err.msg);
                return;
        }
        (void)snprintf(ns->firewall_why, sizeof(ns->firewall_why), "%.199s", err.msg);
        log_warn("engine.offline", "reason=\"%s\", sandboxes have loopback only", ns->firewall_why);
}

void firewall_watch_stop(struct namespaces *ns)
{
        passage_keeper_stop(&ns->passage_keeper);
        dns_forwarder_stop(&ns->dns_forwarder);
        if (!ns->table_events.loop)
                return;
        loop_del(&ns->table_events);
        close_fd(&ns->table_events.fd);
}
