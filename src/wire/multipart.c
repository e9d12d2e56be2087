#include "wire/multipart.h"

#include <errno.h>
#include <string.h>

#include "wire/mime_param.h"
#include "wire/multipart_head.h"

enum state {
        START,    /* the first delimiter may stand here without its CRLF */
        PREAMBLE, /* ignored text before the first delimiter */
        DELIM,    /* behind a delimiter: "--", or blanks and a line end */
        PADDING,
        HEAD,
        DATA,
        CLOSED,
        REFUSED_BAD,
        REFUSED_TOO_BIG,
};

static bool is_boundary(struct str s) /* RFC 2046 5.1.1, but for the length */
{
        if (s.n == 0 || s.n > MULTIPART_BOUNDARY_MAX || s.p[s.n - 1] == ' ')
                return false;
        for (size_t i = 0; i < s.n; i++) {
                char c = s.p[i];

                if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
                    (c == 0 || !strchr("'()+_,-./:=? ", c)))
                        return false;
        }
        return true;
}

static int find_boundary(struct str content_type, struct buf *ret)
{
        AUTO_BUF struct buf text = BUF_INIT(1024);
        struct str name;
        size_t n = 0;
        int r;

        while (n < content_type.n && content_type.p[n] != ';')
                n++;
        if (!str_iis(str_trim((struct str){content_type.p, n}), "multipart/form-data"))
                return -EINVAL;
        content_type = (struct str){content_type.p + n, content_type.n - n};
        while ((r = mime_param_next(&content_type, &name, &text)) > 0) {
                if (!str_iis(name, "boundary"))
                        continue;
                if (ret->len || !is_boundary((struct str){(const char *)buf_at(&text), text.len}))
                        return -EINVAL;
                r = buf_add(ret, buf_at(&text), text.len);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        return ret->len ? 0 : -EINVAL;
}

int multipart_init(struct multipart *m, struct str content_type)
{
        AUTO_BUF struct buf boundary = BUF_INIT(MULTIPART_BOUNDARY_MAX), delim = BUF_INIT(MULTIPART_BOUNDARY_MAX + 4);
        int r;

        r = find_boundary(content_type, &boundary);
        if (r < 0)
                return r;
        r = buf_addc(&delim, "\r\n--");
        if (r == 0)
                r = buf_add(&delim, buf_at(&boundary), boundary.len);
        if (r < 0)
                return r;
        *m = (struct multipart){.state = START,
                                .delim = delim,
                                .head = BUF_INIT(MULTIPART_HEAD_MAX),
                                .name = BUF_INIT(MULTIPART_HEAD_MAX),
                                .filename = BUF_INIT(MULTIPART_HEAD_MAX)};
        delim = BUF_INIT(0); /* given away */
        return 0;
}

void multipart_done(struct multipart *m)
{
        buf_done(&m->delim);
        buf_done(&m->head);
        buf_done(&m->name);
        buf_done(&m->filename);
}

static enum multipart_step refuse(struct multipart *m, const char *why)
{
        m->state = REFUSED_BAD;
        m->why = why;
        return MULTIPART_BAD;
}

/* How many bytes at the end of p[0..n) may be the beginning of a delimiter.  A boundary holds no CR, so only the last
 * CR can start one. */
static size_t undecided(const struct multipart *m, const char *p, size_t n)
{
        size_t most = n < m->delim.len - 1 ? n : m->delim.len - 1, len;
        const char *cr = memrchr(p + n - most, '\r', most);

        if (!cr)
                return 0;
        len = (size_t)(p + n - cr);
        return memcmp(cr, buf_at(&m->delim), len) == 0 ? len : 0;
}

/* Bytes of p[0..n) before the delimiter, or before what may become one. */
static size_t before_delim(const struct multipart *m, const char *p, size_t n, bool *ret_found)
{
        const char *at = memmem(p, n, buf_at(&m->delim), m->delim.len);

        *ret_found = at;
        return at ? (size_t)(at - p) : n - undecided(m, p, n);
}

/* The steps below work on s, cut off what they used, and say MORE either when more bytes are needed or, having changed
 * the state, to go on. */

static enum multipart_step step_start(struct multipart *m, struct str *s)
{
        size_t len = m->delim.len - 2, most = s->n < len ? s->n : len;

        if (memcmp(s->p, buf_at(&m->delim) + 2, most) != 0) {
                m->state = PREAMBLE;
        } else if (most == len) {
                m->state = DELIM;
                *s = (struct str){s->p + len, s->n - len};
        }
        return MULTIPART_MORE;
}

static enum multipart_step step_preamble(struct multipart *m, struct str *s)
{
        bool is_found;
        size_t n = before_delim(m, s->p, s->n, &is_found);

        if (is_found) {
                n += m->delim.len;
                m->state = DELIM;
        }
        *s = (struct str){s->p + n, s->n - n};
        return MULTIPART_MORE;
}

static enum multipart_step step_delim(struct multipart *m, struct str *s)
{
        if (s->p[0] != '-') {
                m->state = PADDING;
                return MULTIPART_MORE;
        }
        if (s->n < 2)
                return MULTIPART_MORE;
        if (s->p[1] != '-')
                return refuse(m, "text after a boundary");
        m->state = CLOSED;
        return MULTIPART_MORE;
}

static enum multipart_step step_padding(struct multipart *m, struct str *s)
{
        while (s->n && (s->p[0] == ' ' || s->p[0] == '\t'))
                *s = (struct str){s->p + 1, s->n - 1};
        if (s->n && s->p[0] != '\r')
                return refuse(m, "text after a boundary");
        if (s->n < 2)
                return MULTIPART_MORE;
        if (s->p[1] != '\n')
                return refuse(m, "text after a boundary");
        *s = (struct str){s->p + 2, s->n - 2};
        buf_reset(&m->head);
        m->state = HEAD;
        return MULTIPART_MORE;
}

static enum multipart_step add_to_head(struct multipart *m, struct str piece)
{
        int r = buf_add(&m->head, piece.p, piece.n);

        if (r == -E2BIG) {
                m->state = REFUSED_TOO_BIG;
                m->why = "head of a part too big";
                return MULTIPART_TOO_BIG;
        }
        return r < 0 ? refuse(m, "out of memory") : MULTIPART_MORE;
}

static enum multipart_step step_head(struct multipart *m, struct str *s)
{
        const char *lf = memchr(s->p, '\n', s->n);
        size_t n = lf ? (size_t)(lf - s->p) + 1 : s->n;
        enum multipart_step step = add_to_head(m, (struct str){s->p, n});
        struct str head = {(const char *)buf_at(&m->head), m->head.len};
        int r;

        if (step != MULTIPART_MORE)
                return step;
        *s = (struct str){s->p + n, s->n - n};
        if (!lf)
                return MULTIPART_MORE;
        if (!str_ends(head, "\r\n"))
                return refuse(m, "bare LF in the head of a part");
        if (head.n > 2 && !str_ends(head, "\r\n\r\n"))
                return MULTIPART_MORE;
        r = multipart_read_head(m);
        if (r < 0)
                return refuse(m, r == -EINVAL ? m->why : "out of memory");
        m->state = DATA;
        return MULTIPART_PART;
}

static enum multipart_step step_data(struct multipart *m, struct str *s, struct str *ret_data)
{
        bool is_found;
        size_t n = before_delim(m, s->p, s->n, &is_found);

        if (n > 0) {
                *ret_data = (struct str){s->p, n};
                *s = (struct str){s->p + n, s->n - n};
                return MULTIPART_DATA;
        }
        if (!is_found)
                return MULTIPART_MORE;
        *s = (struct str){s->p + m->delim.len, s->n - m->delim.len};
        m->state = DELIM;
        return MULTIPART_END;
}

static enum multipart_step step(struct multipart *m, struct str *s, struct str *ret_data)
{
        switch ((enum state)m->state) {
        case START: return step_start(m, s);
        case PREAMBLE: return step_preamble(m, s);
        case DELIM: return step_delim(m, s);
        case PADDING: return step_padding(m, s);
        case HEAD: return step_head(m, s);
        case DATA: return step_data(m, s, ret_data);
        case CLOSED: *s = (struct str){s->p + s->n, 0}; return MULTIPART_DONE; /* whatever follows */
        case REFUSED_TOO_BIG: return MULTIPART_TOO_BIG;
        case REFUSED_BAD: break;
        }
        return MULTIPART_BAD;
}

enum multipart_step multipart_feed(struct multipart *m, const void *p, size_t n, size_t *ret_used, struct str *ret_data)
{
        enum multipart_step result = MULTIPART_MORE;
        struct str s = {p, n};

        while (s.n && result == MULTIPART_MORE) {
                unsigned state = m->state;
                size_t left = s.n;

                result = step(m, &s, ret_data);
                if (m->state == state && s.n == left)
                        break; /* stuck until more bytes come */
        }
        if (m->state == CLOSED)
                result = MULTIPART_DONE;
        *ret_used = n - s.n;
        return result;
}
