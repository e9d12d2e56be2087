/* contexts.h - all contexts of the service: the list, the defaults, finding and making them. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>

#include "base/list.h"
#include "interpreter/kernel/kernel.h"
#include "interpreter/service/body.h"
#include "io/loop.h"

struct context;
struct context_waiter;
struct err;

#define CONTEXTS_MAX 1000
#define WAITING_BYTES_MAX (256u << 20) /* bodies that are read, and code that waits in queues */

struct contexts_options {
        struct loop *loop; /* borrowed, as all the rest */
        struct kernels *kernels;
        const char *const *kernel_dirs; /* NULL-terminated; see kernelspec_find() */
        const char *home;               /* where contexts begin */
        struct sockaddr_in envd;
        const char *identity_file; /* whose text differs in every sandbox */
};

struct contexts {
        struct contexts_options opt;
        struct list all; /* in the order they were made */
        size_t count;
        struct budget waiting; /* of WAITING_BYTES_MAX */
};

void contexts_init(struct contexts *cs, const struct contexts_options *opt);
void contexts_done(struct contexts *cs);

/* A context that a client knows of; NULL: there is none. */
struct context *contexts_find(const struct contexts *cs, struct str id);
/* The default context of a language, which may be starting; NULL: there is none. */
struct context *contexts_find_default(const struct contexts *cs, const char *language);
/* Does a kernel for this language exist? */
bool contexts_have_kernel(const struct contexts *cs, const char *language);
