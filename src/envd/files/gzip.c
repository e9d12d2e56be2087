#include "envd/files/gzip.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_FORMAT (16 + MAX_WBITS) /* as deflateInit2 wants to be told */
#define MEMORY 8                     /* zlib's default */
#define LEVEL 1                      /* the connection is fast, the sandbox's processor shared */

struct gzip {
        z_stream z;
        bool is_done;
        unsigned char out[GZIP_PIECE];
};

struct gzip *gzip_create(void)
{
        struct gzip *g = calloc(1, sizeof(*g));

        if (g && deflateInit2(&g->z, LEVEL, Z_DEFLATED, GZIP_FORMAT, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
                free(g);
                return NULL;
        }
        return g;
}

void gzip_free(struct gzip *g)
{
        if (g)
                (void)deflateEnd(&g->z);
        free(g);
}

int gzip_next(struct gzip *g, struct str *in, bool is_last, struct str *ret)
{
        unsigned given = in->n > INT_MAX ? INT_MAX : (unsigned)in->n;

        if (g->is_done)
                return 0;
        g->z.next_in = (unsigned char *)in->p;
        g->z.avail_in = given;
        g->z.next_out = g->out;
        g->z.avail_out = sizeof(g->out);
        /* With room for output deflate() cannot fail; Z_BUF_ERROR only says that there was nothing to do. */
        g->is_done = deflate(&g->z, is_last && given == in->n ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_END;
        *in = (struct str){in->p + (given - g->z.avail_in), in->n - (given - g->z.avail_in)};
        *ret = (struct str){(const char *)g->out, sizeof(g->out) - g->z.avail_out};
        return ret->n > 0;
}
