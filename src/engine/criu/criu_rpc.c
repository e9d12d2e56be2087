#include "engine/criu/criu_rpc.h"

#include <errno.h>
#include <limits.h>

#include "engine/criu/criu.h"
#include "wire/protobuf.h"

#define UIDS 65536u

/* criu_req */
enum { REQ_TYPE = 1, REQ_OPTS = 2, REQ_NOTIFY_SUCCESS = 3 };

int criu_rpc_request(struct buf *out, enum criu_rpc_type type, const struct buf *options)
{
        int r = protobuf_add_number(out, REQ_TYPE, type);

        if (r < 0 || options->len == 0)
                return r;
        return protobuf_add_bytes(out, REQ_OPTS, (struct str){(const char *)buf_at(options), options->len});
}

int criu_rpc_notified(struct buf *out, bool is_success)
{
        int r = protobuf_add_number(out, REQ_TYPE, CRIU_RPC_NOTIFY);

        return r < 0 ? r : protobuf_add_number(out, REQ_NOTIFY_SUCCESS, is_success);
}

/* A message inside: the numbers and the bytes of its fields 1..max, the last one of each; the rest is skipped. */
static int read_fields(struct str message, uint64_t *numbers, struct str *bytes, uint32_t max)
{
        struct protobuf_field f;
        int r;

        while ((r = protobuf_next(&message, &f)) > 0) {
                if (f.number > max)
                        continue;
                if (f.type == PROTOBUF_BYTES && bytes)
                        bytes[f.number] = f.bytes;
                else if (f.type == PROTOBUF_NUMBER && numbers)
                        numbers[f.number] = f.value;
                else
                        return -EBADMSG;
        }
        return r;
}

static int read_pid(uint64_t value, pid_t *ret)
{
        if (value > INT_MAX)
                return -EBADMSG;
        *ret = (pid_t)value;
        return 0;
}

static int read_restored(struct str message, struct criu_rpc_answer *a)
{
        uint64_t numbers[2] = {0};
        int r = read_fields(message, numbers, NULL, 1);

        if (r < 0)
                return r;
        return numbers[1] == CRIU_FD_NONE ? 0 : read_pid(numbers[1], &a->pid); /* -1: it failed before there was one */
}

static int read_notify(struct str message, struct criu_rpc_answer *a)
{
        uint64_t numbers[3] = {0};
        struct str bytes[3] = {0};
        int r = read_fields(message, numbers, bytes, 2);

        if (r == 0)
                r = read_pid(numbers[2], &a->pid);
        a->script = bytes[1];
        return r;
}

static int read_version(struct str message, struct criu_rpc_answer *a)
{
        uint64_t numbers[7] = {0};
        struct str bytes[7] = {0};
        int r = read_fields(message, numbers, bytes, 6);

        if (r < 0 || numbers[1] > UINT32_MAX || numbers[2] > UINT32_MAX || numbers[4] > UINT32_MAX)
                return -EBADMSG;
        a->version[0] = (uint32_t)numbers[1];
        a->version[1] = (uint32_t)numbers[2];
        a->version[2] = (uint32_t)numbers[4];
        return 0;
}

int criu_rpc_decode(struct str message, struct criu_rpc_answer *ret)
{
        enum { TYPE = 1, SUCCESS = 2, RESTORE = 4, NOTIFY = 5, ERRNO = 7, ERRMSG = 9, VERSION = 10, FIELDS };
        struct criu_rpc_answer a = {0};
        uint64_t numbers[FIELDS] = {0};
        struct str bytes[FIELDS] = {0};
        int r = read_fields(message, numbers, bytes, FIELDS - 1);

        if (r < 0)
                return r;
        a.type = numbers[TYPE];
        a.is_success = numbers[SUCCESS] != 0;
        a.error_errno = numbers[ERRNO] <= INT_MAX ? numbers[ERRNO] : 0;
        a.error = bytes[ERRMSG];
        if (bytes[RESTORE].p)
                r = read_restored(bytes[RESTORE], &a);
        if (r == 0 && bytes[NOTIFY].p)
                r = read_notify(bytes[NOTIFY], &a);
        if (r == 0 && bytes[VERSION].p)
                r = read_version(bytes[VERSION], &a);
        if (r == 0)
                *ret = a;
        return r;
}

/* ------------------------------------------------------------- image files */

#define HEAD_BYTES 12u /* two magic numbers and the length of what follows */

static uint32_t le32(const char *p)
{
        const unsigned char *b = (const unsigned char *)p;

        return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static int open_image(struct str file, struct str *ret)
{
        if (file.n < HEAD_BYTES || le32(file.p + 8) != file.n - HEAD_BYTES)
                return -EBADMSG;
        *ret = (struct str){file.p + HEAD_BYTES, file.n - HEAD_BYTES};
        return 0;
}

/* The bytes of one field of a message, the last of them: 1; 0: it has none. */
static int find_bytes(struct str message, uint32_t number, struct str *ret)
{
        struct protobuf_field f;
        int r, found = 0;

        while ((r = protobuf_next(&message, &f)) > 0)
                if (f.number == number && f.type == PROTOBUF_BYTES) {
                        *ret = f.bytes;
                        found = 1;
                }
        return r < 0 ? r : found;
}

int criu_rpc_file_name(struct str entry, struct str *ret)
{
        enum { REG = 3, NAME = 6 };
        struct str file;
        int r = find_bytes(entry, REG, &file);

        return r == 1 ? find_bytes(file, NAME, ret) : r;
}

int criu_rpc_stats(struct str file, struct criu_stats *ret)
{
        enum { DUMP = 1, FROZEN = 2, PAGES = 7, FIELDS = 15 };
        uint64_t numbers[FIELDS] = {0};
        struct str body, bytes[3] = {0};
        int r = open_image(file, &body);

        if (r == 0)
                r = read_fields(body, NULL, bytes, 2);
        if (r == 0)
                r = bytes[DUMP].p ? read_fields(bytes[DUMP], numbers, NULL, FIELDS - 1) : -EBADMSG;
        if (r == 0)
                *ret = (struct criu_stats){.frozen_us = numbers[FROZEN], .pages_written = numbers[PAGES]};
        return r;
}

/* A uid_gid_extent {first, lower_first, count}. */
static int read_range(struct str message, uint32_t *ret_base)
{
        uint64_t numbers[4] = {0};
        int r = read_fields(message, numbers, NULL, 3);

        if (r < 0 || numbers[1] != 0 || numbers[2] > UINT32_MAX - UIDS || numbers[3] != UIDS)
                return -EBADMSG;
        *ret_base = (uint32_t)numbers[2];
        return 0;
}

int criu_rpc_userns_base(struct str file, uint32_t *ret_base)
{
        struct protobuf_field f;
        uint32_t base[3] = {0};
        unsigned seen = 0;
        struct str body;
        int r = open_image(file, &body);

        while (r == 0 && (r = protobuf_next(&body, &f)) > 0) {
                if (f.type != PROTOBUF_BYTES || f.number > 2 || (seen & 1u << f.number))
                        return -EBADMSG; /* several ranges, or what we do not know */
                seen |= 1u << f.number;
                r = read_range(f.bytes, &base[f.number]);
        }
        if (r < 0 || seen != (1u << 1 | 1u << 2) || base[1] != base[2])
                return -EBADMSG;
        *ret_base = base[1];
        return 0;
}

static int add_range(struct buf *out, uint32_t field, uint32_t base)
{
        AUTO_BUF struct buf range = BUF_INIT(64);
        int r = protobuf_add_number(&range, 1, 0);

        if (r == 0)
                r = protobuf_add_number(&range, 2, base);
        if (r == 0)
                r = protobuf_add_number(&range, 3, UIDS);
        return r < 0 ? r : protobuf_add_bytes(out, field, (struct str){(const char *)buf_at(&range), range.len});
}

int criu_rpc_userns_rebase(struct str file, uint32_t base, struct buf *out)
{
        AUTO_BUF struct buf body = BUF_INIT(CRIU_USERNS_BYTES_MAX);
        uint32_t old;
        int r = criu_rpc_userns_base(file, &old);

        if (r == 0)
                r = add_range(&body, 1, base);
        if (r == 0)
                r = add_range(&body, 2, base);
        if (r == 0)
                r = buf_add(out, file.p, 8);
        for (unsigned i = 0; i < 4 && r == 0; i++)
                r = buf_add(out, &(uint8_t){(uint8_t)(body.len >> (8 * i))}, 1);
        return r < 0 ? r : buf_add(out, buf_at(&body), body.len);
}
