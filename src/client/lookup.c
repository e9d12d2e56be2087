#include "client/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

struct lookup { /* shared by the thread and the one that waits for it */
        atomic_uint refs;
        char *name; /* owned */
        char port[8];
        int done;               /* owned: an eventfd */
        int code;               /* of getaddrinfo(), once it is done */
        struct addrinfo *found; /* owned */
};

static void lookup_unref(struct lookup *k)
{
        if (atomic_fetch_sub(&k->refs, 1) > 1)
                return;
        if (k->found)
                freeaddrinfo(k->found);
        close_fd(&k->done);
        free(k->name);
        free(k);
}

static int look_up(const char *name, const char *port, int flags, struct addrinfo **ret)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
        int code = getaddrinfo(name, port, &hints, ret);

        if (code != 0)
                *ret = NULL;
        return code;
}

static void *lookup_thread(void *arg)
{
        struct lookup *k = arg;
        const uint64_t one = 1;

        k->code = look_up(k->name, k->port, 0, &k->found);
        (void)!write(k->done, &one, sizeof(one));
        lookup_unref(k);
        return NULL;
}

/* The program's signals are the program's: the thread takes none. */
static int start_thread(struct lookup *k)
{
        pthread_attr_t attr;
        pthread_t thread;
        sigset_t all, before;
        int r = pthread_attr_init(&attr);

        if (r != 0)
                return -r;
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&thread, &attr, lookup_thread, k);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)pthread_attr_destroy(&attr);
        return -r;
}

static int no_such_host(const char *name, int code, struct sg_error *err)
{
        if (code == EAI_MEMORY)
                return error_no_memory(err);
        return error_set(err, SG_UNAVAILABLE, "find '%s': %s", name, gai_strerror(code));
}

static int lookup_far(const char *name, const char *port, struct limit *l, struct addrinfo **ret, struct sg_error *err)
{
        struct lookup *k = calloc(1, sizeof(*k));
        int r;

        if (!k)
                return error_no_memory(err);
        atomic_init(&k->refs, 2);
        k->name = strdup(name);
        (void)snprintf(k->port, sizeof(k->port), "%s", port);
        k->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = k->done < 0 ? -errno : !k->name ? -ENOMEM : start_thread(k);
        if (r < 0) {
                atomic_store(&k->refs, 1);
                lookup_unref(k);
                return error_sys(err, r, "find '%s'", name);
        }
        r = limit_wait_fd(l, k->done, err);
        if (r < 0)
                (void)error_wrap(err, "find '%s'", name);
        else if (k->code != 0)
                r = no_such_host(name, k->code, err);
        else
                *ret = TAKE_PTR(k->found);
        lookup_unref(k);
        return r;
}

int lookup(const char *name, uint16_t port, struct limit *l, struct addrinfo **ret, struct sg_error *err)
{
        char text[8];
        int code;

        (void)snprintf(text, sizeof(text), "%u", port);
        /* Names below localhost are this machine's (RFC 6761, 6.3), whether or not a server of names knows them. */
        if (strcmp(name, "localhost") == 0 || str_ends(str_of(name), ".localhost")) {
                code = look_up("localhost", text, 0, ret);
                return code == 0 ? 0 : no_such_host(name, code, err);
        }
        if (look_up(name, text, AI_NUMERICHOST, ret) == 0)
                return 0;
        return lookup_far(name, text, l, ret, err);
}
