/* scm.h - bytes with fds over a Unix socket.  Negative errno on failure. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#define SCM_FDS_MAX 16

/* One sendmsg: bytes taken.  The fds go with the first byte.  Never raises SIGPIPE. */
ssize_t scm_send(int sock, const void *p, size_t n, const int *fds, size_t nfds);
/* One recvmsg: bytes read (0: the peer is gone).  Received fds are close-on-exec and the caller's; more than `max` of
 * them, or a cut message, gives -EBADMSG with all of them closed. */
ssize_t scm_recv(int sock, void *p, size_t n, int *fds, size_t max, size_t *ret_nfds);
