/* h2_callbacks.h - what nghttp2 tells about a connection's frames, and how much of it is too much.  Between h2_session.c and
 * h2_stream.c. */
#pragma once
#include <nghttp2/nghttp2.h>

#include "edge/http2/h2_session.h"

struct h2_setup;

int h2_library_session_create(struct h2_setup *s, struct h2_session *h,
                              nghttp2_session **ret); /* 0, or the library's error */

/* h2_session.c's, for the callbacks. */
void h2_session_go(struct h2_session *h, enum h2_session_state next);            /* the only writer of h->state */
void h2_session_terminate(struct h2_session *h, uint32_t code, const char *why); /* say why, then end the connection */
void h2_session_goodbye(struct h2_session *h); /* no new streams; the connection ends with the last one */
