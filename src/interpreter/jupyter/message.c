#include "interpreter/jupyter/message.h"

#include <errno.h>

#include "base/clock.h"
#include "interpreter/jupyter/json_text.h"
#include "wire/sha256.h"

#define DELIMITER "<IDS|MSG>"
#define SIGNED_FRAMES 4
#define HEADER_MAX 1024u

static void sign(struct str key, const struct str frames[SIGNED_FRAMES], char out[SHA256_HEX_LEN + 1])
{
        uint8_t pad[SHA256_BLOCK] = {0}, inner[SHA256_LEN];
        struct sha256 s;

        if (key.n > sizeof(pad))
                sha256(key.p, key.n, pad);
        else if (key.n)
                memcpy(pad, key.p, key.n);
        for (size_t i = 0; i < sizeof(pad); i++)
                pad[i] ^= 0x36;
        sha256_init(&s);
        sha256_add(&s, pad, sizeof(pad));
        for (size_t i = 0; i < SIGNED_FRAMES; i++)
                sha256_add(&s, frames[i].p, frames[i].n);
        sha256_end(&s, inner);
        for (size_t i = 0; i < sizeof(pad); i++)
                pad[i] ^= 0x36 ^ 0x5c;
        sha256_init(&s);
        sha256_add(&s, pad, sizeof(pad));
        sha256_add(&s, inner, sizeof(inner));
        sha256_end(&s, inner);
        hex_encode(inner, sizeof(inner), out);
}

/* Which frame is the delimiter; count: none is. */
static size_t find_delimiter(const struct str *frames, size_t count)
{
        size_t i = 0;

        while (i < count && !str_is(frames[i], DELIMITER))
                i++;
        return i;
}

static bool is_object(struct str text)
{
        struct str s = text;

        while (s.n && (*s.p == ' ' || *s.p == '\n' || *s.p == '\t' || *s.p == '\r')) {
                s.p++;
                s.n--;
        }
        return s.n && *s.p == '{' && json_text_is_valid(text);
}

int jupyter_decode(const struct str *frames, size_t count, struct str key, struct jupyter_message *ret)
{
        size_t at = find_delimiter(frames, count);
        char wanted[SHA256_HEX_LEN + 1];
        const struct str *json;

        if (at + 2 + SIGNED_FRAMES > count)
                return -EBADMSG;
        json = frames + at + 2;
        sign(key, json, wanted);
        if (!str_eq_secret(frames[at + 1], str_of(wanted)))
                return -EACCES;
        for (size_t i = 0; i < SIGNED_FRAMES; i++)
                if (!is_object(json[i]))
                        return -EBADMSG;
        *ret = (struct jupyter_message){
                .type = json_text_get_raw(json[0], "msg_type"),
                .date = json_text_get_raw(json[0], "date"),
                .parent_id = json_text_get_raw(json[1], "msg_id"),
                .content = json[3],
        };
        return ret->type.n ? 0 : -EBADMSG;
}

static int write_header(const struct jupyter_request *rq, struct buf *out)
{
        char date[CLOCK_TEXT_MAX];

        clock_format(clock_real_ns(), date);
        return buf_addf(out,
                        "{\"msg_id\":\"%s\",\"session\":\"%s\",\"username\":\"sandglass\",\"date\":\"%s\","
                        "\"msg_type\":\"%s\",\"version\":\"" JUPYTER_PROTOCOL "\"}",
                        rq->id, rq->session, date, rq->type);
}

int jupyter_encode(const struct jupyter_request *rq, struct str key, struct jupyter_frames *ret)
{
        struct str json[SIGNED_FRAMES] = {[1] = STR("{}"), [2] = STR("{}"), [3] = rq->content};
        char signature[SHA256_HEX_LEN + 1];
        AUTO_BUF struct buf mem = BUF_INIT(HEADER_MAX);
        size_t header_len;
        int r;

        r = write_header(rq, &mem);
        if (r < 0)
                return r;
        header_len = mem.len;
        json[0] = (struct str){(const char *)buf_at(&mem), header_len};
        sign(key, json, signature);
        r = buf_add(&mem, signature, SHA256_HEX_LEN);
        if (r < 0)
                return r;
        *ret = (struct jupyter_frames){.mem = mem,
                                       .at = {STR(DELIMITER),
                                              {(const char *)buf_at(&mem) + header_len, SHA256_HEX_LEN},
                                              {(const char *)buf_at(&mem), header_len},
                                              json[1],
                                              json[2],
                                              json[3]}};
        mem = BUF_INIT(0); /* it is ret's now */
        return 0;
}

void jupyter_frames_done(struct jupyter_frames *f)
{
        buf_done(&f->mem);
}

int jupyter_execute_content(struct str code, bool is_silent, struct buf *out)
{
        int r = buf_addc(out, "{\"code\":");

        if (r == 0)
                r = json_text_quote(code, out);
        /* stop_on_error: a kernel that drops what comes after an error would drop our own statements */
        return r < 0 ? r
                     : buf_addf(out,
                                ",\"silent\":%s,\"store_history\":%s,\"user_expressions\":{},\"allow_stdin\":false,"
                                "\"stop_on_error\":false}",
                                is_silent ? "true" : "false", is_silent ? "false" : "true");
}
