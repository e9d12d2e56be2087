/* upload_stream.h - one archive on its way to the disk (uploads.h).
 *
 * A thread, started at the first upload, does what may wait for the disk, one piece after the other for all uploads; the loop only
 * copies bytes.  While a piece is being written the next one is filled, so memory is bounded, whatever the client sends. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"

struct uploads;

#define UPLOAD_STREAM_PIECE (256u << 10) /* bytes; an upload holds two pieces */
#define UPLOAD_STREAMS_MAX 256           /* at the same time */

struct upload_writer {
        struct loop *loop; /* NULL: not set up */
        struct list all;   /* struct upload_stream: all there are; the loop's */
        size_t count;
        pthread_mutex_t lock; /* of the two lists below and is_over */
        pthread_cond_t changed;
        struct list asked, done; /* struct upload_stream, by their node */
        bool is_over, has_thread;
        pthread_t thread;
        struct io told; /* eventfd: something is in `done` */
};

int upload_writer_init(struct upload_writer *w, struct loop *loop);
void upload_writer_done(struct upload_writer *w); /* what is under way is dropped; also zeroed */

struct upload_stream {
        struct list node;  /* in `asked` or `done` */
        struct list among; /* in `all` */
        struct upload_writer *writer;
        int fd, dir; /* owned */
        char hash[65];
        char name[40];                                       /* while it is written */
        enum { UPLOAD_WRITE, UPLOAD_END, UPLOAD_DROP } task; /* what the thread is to do */
        bool is_asked;                                       /* the thread has it */
        bool is_finishing, is_dropped, is_there;
        uint8_t *pieces[2]; /* owned; [0] is with the thread, [1] is being filled */
        size_t used[2];
        int result; /* negative errno: it has failed */
        /* There is room again, or it has failed; after upload_stream_finish(): it is over.  From the loop. */
        void (*on)(struct upload_stream *up);
        void *arg;
};

/* A new archive of the team.  The upload is the caller's until upload_stream_drop().  ERR_UNAVAILABLE: there are
 * UPLOAD_STREAMS_MAX. */
int upload_stream_begin(struct uploads *u, int64_t team, const char *hash, void (*on)(struct upload_stream *up),
                        void *arg, struct upload_stream **ret, struct err *err);
/* How many of the bytes were taken; fewer than n: on() is called when there is room. */
size_t upload_stream_take(struct upload_stream *up, const void *p, size_t n);
/* All bytes were taken: on() is called when the archive is there, or has failed. */
void upload_stream_finish(struct upload_stream *up);
bool upload_stream_is_there(const struct upload_stream *up);
/* Has it failed?  Then *err says why. */
bool upload_stream_has_failed(const struct upload_stream *up, struct err *err);
void upload_stream_drop(
        struct upload_stream *up); /* what is not there yet is removed; the upload is gone, on() is not called */
