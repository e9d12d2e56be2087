/* splice.h - the middle of a long body goes from one plain socket to another without a copy into this process.
 *
 * The bytes pass through a pipe.  Bytes that the sink does not take stay in the pipe, and the pipe stays with the flow until they
 * are gone: as with a flow's `out`, nothing more is taken from the source meanwhile.  The last bytes of a body take the ordinary
 * way (flow_pump), which knows what follows; so do bodies for which there is no pipe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct flow;

#define PIPE_BYTES (256u << 10) /* asked for; the kernel gives users with many pipes less */
#define PIPES_MAX 32u           /* lent and spare ones together */
#define PIPES_SPARE_MAX 4u

struct splice_pipe {
        struct splice_pool *home; /* borrowed */
        int fd[2];
        size_t size;
        size_t held; /* bytes in it */
};

struct splice_pool {                                /* zeroed: no pipes yet */
        struct splice_pipe *spare[PIPES_SPARE_MAX]; /* owned, empty */
        unsigned spare_count, lent_count;
};

void splice_pool_done(struct splice_pool *s); /* all pipes were given back */
/* Is there enough left of the body to be spliced? */
bool splice_fits(const struct flow *f);
/* true: bytes were passed on (or wait in f->pipe).  false: nothing was taken; go the ordinary way. */
bool splice_take(struct splice_pool *s, struct flow *f, int source, int sink);
/* Write the bytes in f->pipe.  0: none are left (the pipe is given back); -EAGAIN: the sink is full; -EPIPE: the sink is dead. */
int splice_flush(struct flow *f, int sink);
void splice_drop(struct flow *f); /* gives the pipe back, whatever is in it */
