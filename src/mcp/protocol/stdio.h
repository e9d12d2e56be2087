/* stdio.h - the transport of desktop assistants: one client, a message in each line of stdin, and of stdout.
 *
 * Nothing but messages is written.  The client of a revision with sessions begins with initialize; requests of a revision without
 * sessions say so, each for itself, and both may be mixed.  While more than STDIO_HIGH_BYTES wait for a client that does not read,
 * nothing is read, and notifications are left out. */
#pragma once

struct err;
struct mcp;
struct stdio;

#define STDIO_HIGH_BYTES (1u << 20)
#define STDIO_QUEUED_BYTES_MAX (256u << 20) /* more, and the client counts as gone */

/* m has its loop, backend and options.  The fds are borrowed, of any kind and blocking mode, which stays.
 * on_end: the client has closed its side, or is gone.  Calls go on until stdio_free(). */
int stdio_start(struct mcp *m, int in_fd, int out_fd, void (*on_end)(void *arg), void *arg, struct stdio **ret,
                struct err *err);
struct stdio *stdio_free(struct stdio *s); /* cancels what is under way; always NULL; NULL is fine */
