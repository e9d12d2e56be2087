#include "wire/multipart_head.h"

#include <errno.h>

#include "wire/http1_chars.h"
#include "wire/mime_param.h"

struct seen {
        bool disposition, name, filename, filename_ext;
};

static int bad(struct multipart *m, const char *why)
{
        m->why = why;
        return -EINVAL;
}

static int keep(struct buf *to, const struct buf *value)
{
        buf_reset(to);
        return buf_add(to, buf_at(value), value->len);
}

static int see_filename_ext(struct multipart *m, struct seen *seen, struct buf *value)
{
        int r;

        if (seen->filename_ext)
                return bad(m, "repeated file name");
        seen->filename_ext = true;
        r = mime_param_decode_ext(value);
        if (r == 0)
                return 0; /* a charset we do not know: the plain one counts */
        if (r < 0 || str_has_nul((struct str){(const char *)buf_at(value), value->len}))
                return r == -ENOMEM ? r : bad(m, "malformed file name");
        m->has_filename = true;
        return keep(&m->filename, value);
}

static int see_param(struct multipart *m, struct seen *seen, struct str name, struct buf *value)
{
        if (str_iis(name, "name")) {
                if (seen->name)
                        return bad(m, "repeated name");
                seen->name = true;
                return keep(&m->name, value);
        }
        if (str_iis(name, "filename*"))
                return see_filename_ext(m, seen, value);
        if (!str_iis(name, "filename"))
                return 0;
        if (seen->filename)
                return bad(m, "repeated file name");
        seen->filename = true;
        if (seen->filename_ext && m->has_filename)
                return 0; /* RFC 6266 4.3: the extended one counts */
        m->has_filename = true;
        return keep(&m->filename, value);
}

static int read_disposition(struct multipart *m, struct seen *seen, struct str value)
{
        AUTO_BUF struct buf text = BUF_INIT(MULTIPART_HEAD_MAX);
        struct str kind, name;
        size_t n = 0;
        int r;

        if (seen->disposition)
                return bad(m, "repeated Content-Disposition");
        seen->disposition = true;
        while (n < value.n && value.p[n] != ';')
                n++;
        kind = str_trim((struct str){value.p, n});
        if (!str_iis(kind, "form-data"))
                return bad(m, "not form data");
        value = (struct str){value.p + n, value.n - n};
        while ((r = mime_param_next(&value, &name, &text)) > 0) {
                r = see_param(m, seen, name, &text);
                if (r < 0)
                        return r;
        }
        return r == -EINVAL ? bad(m, "malformed Content-Disposition") : r;
}

static int read_line(struct multipart *m, struct seen *seen, struct str line)
{
        struct str name;

        if (!str_cut(&line, ':', &name) || name.n == 0 || !http1_all(name, HTTP1_CHAR_TOKEN))
                return bad(m, "malformed header of a part");
        if (!http1_is_value(line))
                return bad(m, "control character in the header of a part");
        line = str_trim(line);
        if (str_iis(name, "Content-Disposition"))
                return read_disposition(m, seen, line);
        if (str_iis(name, "Content-Transfer-Encoding") && !str_iis(line, "binary") && !str_iis(line, "8bit") &&
            !str_iis(line, "7bit"))
                return bad(m, "encoded parts are not supported");
        return 0;
}

int multipart_read_head(struct multipart *m)
{
        struct str rest = {(const char *)buf_at(&m->head), m->head.len}, line;
        struct seen seen = {0};
        int r;

        buf_reset(&m->name);
        buf_reset(&m->filename);
        m->has_filename = false;
        while (str_cut(&rest, '\n', &line) && line.n > 1) {
                line.n--; /* the CR */
                r = read_line(m, &seen, line);
                if (r < 0)
                        return r;
        }
        if (!seen.name)
                return bad(m, "part without a name");
        return 0;
}
