#include "edge/certificate.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "edge/proxy/edge.h"
#include "io/tls.h"
#include "sys/scm.h"

static int load_pair(struct edge *e, int cert_fd, int key_fd, struct err *err)
{
        static const char *const alpn[] = {"h2", "http/1.1", NULL};
        struct tls_context *new = NULL;
        char cert[64], key[64];
        int r;

        (void)snprintf(cert, sizeof(cert), "/proc/self/fd/%d", cert_fd);
        (void)snprintf(key, sizeof(key), "/proc/self/fd/%d", key_fd);
        r = tls_context_create(&(struct tls_options){.cert_pem_path = cert, .key_pem_path = key, .alpn = alpn}, &new,
                               err);
        if (r < 0)
                return r;
        (void)tls_context_free(e->tls);
        e->tls = new;
        return 0;
}

/* One message for each renewal: a byte, with both files.  When the supervisor is gone, the edge ends, too. */
static void renewal_came(struct io *io, uint32_t events)
{
        struct edge *e = CONTAINER_OF(io, struct edge, renewals);
        int fds[2] = {-1, -1};
        struct err err = {0};
        size_t n = 0;
        char byte;
        ssize_t got;

        (void)events;
        got = scm_recv(io->fd, &byte, 1, fds, 2, &n);
        if (got == -EAGAIN)
                return;
        if (got <= 0) {
                loop_del(io);
                return;
        }
        if (n == 2 && load_pair(e, fds[0], fds[1], &err) == 0)
                log_info("edge.certificate", "renewed=1");
        else
                log_error("edge.certificate", "error=\"%s\", the one before stays in use",
                          n == 2 ? err.msg : "a pair is not complete");
        close_fd(&fds[0]);
        close_fd(&fds[1]);
}

int edge_certificate_start(struct edge *e, struct err *err)
{
        const struct conf_fds *fds = &e->conf->fds;
        int r = load_pair(e, fds->tls_cert, fds->tls_key, err);

        if (r < 0 || fds->tls_renewals < 0)
                return r;
        e->renewals.fd = fds->tls_renewals;
        e->renewals.on = renewal_came;
        r = loop_add(e->loop, &e->renewals, EPOLLIN);
        return r < 0 ? err_sys(err, r, "wait for certificates") : 0;
}

void edge_certificate_done(struct edge *e)
{
        loop_del(&e->renewals);
        e->tls = tls_context_free(e->tls);
}
