#include "envd/files/gunzip.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_ONLY (16 + MAX_WBITS) /* as inflateInit2 wants to be told */

struct gunzip {
        z_stream z;
        bool is_done; /* at the end of a member: another may follow */
        unsigned char out[GUNZIP_PIECE];
};

struct gunzip *gunzip_create(void)
{
        struct gunzip *g = calloc(1, sizeof(*g));

        if (g && inflateInit2(&g->z, GZIP_ONLY) != Z_OK) {
                free(g);
                return NULL;
        }
        return g;
}

void gunzip_free(struct gunzip *g)
{
        if (g)
                (void)inflateEnd(&g->z);
        free(g);
}

bool gunzip_is_done(const struct gunzip *g)
{
        return g->is_done;
}

int gunzip_next(struct gunzip *g, struct str *in, struct str *ret)
{
        unsigned given = in->n > INT_MAX ? INT_MAX : (unsigned)in->n;
        int r;

        if (g->is_done && given) {
                if (inflateReset(&g->z) != Z_OK)
                        return -EINVAL;
                g->is_done = false;
        }
        if (g->is_done)
                return 0;
        g->z.next_in = (unsigned char *)in->p;
        g->z.avail_in = given;
        g->z.next_out = g->out;
        g->z.avail_out = sizeof(g->out);
        r = inflate(&g->z, Z_NO_FLUSH);
        *in = (struct str){in->p + (given - g->z.avail_in), in->n - (given - g->z.avail_in)};
        if (r == Z_MEM_ERROR)
                return -ENOMEM;
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
                return -EINVAL;
        g->is_done = r == Z_STREAM_END;
        *ret = (struct str){(const char *)g->out, sizeof(g->out) - g->z.avail_out};
        return ret->n || (g->is_done && in->n) ? 1 : 0;
}
