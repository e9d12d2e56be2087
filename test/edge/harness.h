/* harness.h - an edge process on loopback, with the test as its control, engine, sandboxes and clients.
 *
 * Everything in the test blocks, with a time limit on each read, and happens in the order it is written down. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "edge/limits/limits.h"

#define WORLD                                                                                                          \
        __attribute__((cleanup(world_end))) struct world w;                                                            \
        world_init(&w)
#define START CHECK_INT(world_start(&w), ==, 0)

/* A limit that a test waits for.  Whatever it does within it has to be done by then on a busy machine, too. */
#define SHORT_MS 600

#define BOX_A "iaaaaaaaaaaaaaaaaaaaa"
#define BOX_B "ibbbbbbbbbbbbbbbbbbbb"
#define DOMAIN "box.test:3443"

struct world {
        char dir[64];
        pid_t edge;
        int api, routes, dial;  /* listening */
        int routes_ch, dial_ch; /* the edge's channels; -1: not accepted yet */
        int http;               /* listening; the edge's */
        int https;
        uint16_t port, tls_port;
        struct edge_limits limits; /* change before world_start(), like the following */
        uint32_t connections_max;  /* into a sandbox */
        bool access_log;
        int send_buffer;       /* bytes the kernel holds for a client; 0: as many as it likes */
        void (*in_edge)(void); /* called in the edge's process before it starts */
};

void world_init(struct world *w);
int world_start(struct world *w);  /* 0, or negative when something failed (said on stdout) */
int world_launch(struct world *w); /* only the process: its channels are taken by serve_until_heard() */
void world_end(struct world *w);   /* also checks nothing: use world_stop() to see how the edge ends */
int world_stop(struct world *w);   /* SIGTERM; the exit status, -1 when it had to be killed */
int world_signal(struct world *w); /* SIGTERM only */
void world_lose_control(struct world *w);
long world_rss_kb(const struct world *w);

/* Bytes.  Reads give up after five seconds. */
int say(int fd, const char *text);
int say_bytes(int fd, const void *p, size_t n);
/* Up to the end of a head: its length, the rest of what came stays unread.  -1. */
ssize_t hear_head(int fd, char *out, size_t size);
ssize_t hear_bytes(int fd, void *out, size_t n);   /* exactly n; fewer when the peer ends; -1 */
bool has_line(const char *head, const char *line); /* one whole line of a head, in any case */
bool hears(int fd, const char *text);              /* exactly these bytes come next */
enum end { END_CLEAN, END_RESET, END_NONE };       /* NONE: it is still open and silent */
enum end hear_end(int fd);                         /* skips what is sent before */
bool is_silent(int fd, int ms);

/* Clients. */
int dial_client(const struct world *w); /* plain */
int dial_port(uint16_t port);
/* A whole answer to what was said: status, head in out, body behind it (length or chunked, decoded); -1. */
int hear_answer(int fd, char *out, size_t size, const char **ret_body);
#define WEBSOCKET "Connection: Upgrade\r\nUpgrade: websocket\r\n" /* more of a request */
#define SWITCH "HTTP/1.1 101 Switching Protocols\r\n" WEBSOCKET "\r\n"
#define OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define REQUEST(method, path, host, more) method " " path " HTTP/1.1\r\nHost: " host "\r\n" more "\r\n"
#define HOST_A(port) port "-" BOX_A ".box.test"
#define HOST_B(port) port "-" BOX_B ".box.test"
#define NOT_FOUND_A "{\"sandboxId\":\"" BOX_A "\",\"message\":\"The sandbox was not found\",\"code\":502}"

/* Control's side.  Each takes the next message and answers it; false: another message, or none, came. */
bool give_route(struct world *w, const char *id, const char *token, const char *mask);
bool give_no_route(struct world *w, const char *id);
bool tell_gone(struct world *w, const char *id);
/* The next question must be for the route of id: the sandbox is paused. */
bool give_paused(struct world *w, const char *id, const char *token, bool resumes);
bool tell_state(struct world *w, const char *id, const char *state, bool resumes); /* unasked */
bool tell_stopped(struct world *w, const char *id, long at_us); /* unasked; paused, and requests may resume it */
/* The next message must ask to resume id for that port, with this access token (NULL: none).  Its number; -1. */
long hear_resume(struct world *w, const char *id, int port, const char *token);
bool grant_resume(struct world *w, long req, const char *id);
bool refuse_resume(struct world *w, long req, const char *kind, const char *message);
/* The next message must ask whose URL with this query it is.  Its number; -1. */
long hear_signed(struct world *w, const char *query, const char *operation);
/* The same for whose access token it is. */
long hear_token(struct world *w, const char *token);
bool answer_signed(struct world *w, long req, const char *id); /* either; NULL: nobody's */
int accept_api(const struct world *w);                         /* the edge's next connection to the API */
bool accept_routes(struct world *w);                           /* the edge's channel (first question answered) */

bool accept_dial(struct world *w);
/* Engine's side: the next dial must be for id:port; answers with a socket and returns its other end. */
int give_socket(struct world *w, const char *id, int port);
int give_socket_made(struct world *w, const char *id, int port, long at_us); /* at that time */
bool give_error(struct world *w, const char *kind);
/* Play control, engine and one sandbox, whatever is asked and however often, until c has something to read (true), or
 * the edge or c is gone, or nothing happens for five seconds. */
bool serve_until_heard(struct world *w, int c);
/* The usual beginning: client said a request to a sandbox nobody knows yet. */
int give_both(struct world *w, const char *id, int port);
/* A WebSocket of client c to port 6080 of BOX_A, which nobody knows yet; the other end, or -1. */
int open_tunnel(struct world *w, int c);
