/* unpack.c - POST /sandglass/unpack: a layer of an image, onto the files of the sandbox.
 *
 * Whiteouts (".wh.NAME", ".wh..wh..opq") are about older layers only: what the same layer brings stays, wherever in the
 * archive it is.  The sandbox's overlay turns each removal into its own whiteout.  Answers the sum of the whole archive, by
 * which images name their layers. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "envd/build/build_calls.h"
#include "envd/build/build_process.h"
#include "envd/build/inflate.h"
#include "envd/build/place.h"
#include "wire/sha256.h"

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct unpack {
        struct inflate in;
        struct place place;
        struct tar_reader *tar; /* owned */
        struct sha256 sum;
        uint64_t tar_bytes;
};

/* 1: it was a whiteout. */
static int unpack_whiteout(struct unpack *u, const char *path, struct err *err)
{
        const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *name;
        char target[PATH_MAX];
        size_t dir = (size_t)(base - path);
        int r;

        if (strncmp(base, WHITEOUT, sizeof(WHITEOUT) - 1) != 0)
                return 0;
        name = base + sizeof(WHITEOUT) - 1;
        memcpy(target, path, dir);
        if (strcmp(base, OPAQUE) == 0) {
                target[dir ? dir - 1 : 0] = '\0';
                r = place_empty_older(&u->place, target, err);
                return r < 0 ? r : 1;
        }
        if (strncmp(name, WHITEOUT, sizeof(WHITEOUT) - 1) == 0) {
                place_note(&u->place, "'/%s' is a note of aufs: left out", path);
                return 1;
        }
        if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return err_set(err, ERR_INVALID, "the whiteout '/%.200s' names no file", path);
        (void)snprintf(target + dir, sizeof(target) - dir, "%s", name);
        r = place_remove_older(&u->place, target, err);
        return r < 0 ? r : 1;
}

static int unpack_begin_entry(struct unpack *u, struct err *err)
{
        const struct tar_entry *e = tar_reader_entry(u->tar);
        int r = unpack_whiteout(u, e->name, err);

        return r ? (r < 0 ? r : 0) : place_begin(&u->place, e, e->name, err);
}

static int unpack_piece(struct unpack *u, struct str piece, struct err *err)
{
        struct tar_data data;
        int r = 0;

        sha256_add(&u->sum, piece.p, piece.n);
        u->tar_bytes += piece.n;
        while (r >= 0)
                switch (tar_reader_next(u->tar, &piece, &data)) {
                case TAR_MORE:
                case TAR_END: return 0;
                case TAR_ENTRY: r = unpack_begin_entry(u, err); break;
                case TAR_DATA: r = place_write(&u->place, &data, err); break;
                case TAR_ENTRY_END: r = place_end(&u->place, tar_reader_entry(u->tar), err); break;
                case TAR_BAD: return err_set(err, ERR_INVALID, "%s", tar_reader_why(u->tar));
                }
        return r;
}

static int unpack_all(struct unpack *u, struct err *err)
{
        struct str piece;
        int n, r = 0;

        while (r >= 0 && (n = inflate_next(&u->in, &piece)) > 0)
                r = unpack_piece(u, piece, err);
        if (r < 0)
                return r;
        if (n < 0)
                return err_set(err, ERR_INVALID, "the archive was cut off");
        r = inflate_finish(&u->in, err);
        if (r < 0)
                return r;
        if (!tar_reader_end(u->tar))
                return err_set(err, ERR_INVALID, "the archive was cut off");
        place_finish(&u->place);
        return 0;
}

static json_t *unpack_answer(struct unpack *u)
{
        uint8_t sum[SHA256_LEN];
        char text[SHA256_HEX_LEN + 1];

        sha256_end(&u->sum, sum);
        hex_encode(sum, sizeof(sum), text);
        return json_pack("{s:o, s:I, s:I, s:O}", "diff_id", json_sprintf("sha256:%s", text), "entries",
                         (json_int_t)u->place.entries, "bytes", (json_int_t)u->tar_bytes, "notes", u->place.notes);
}

static void unpack_work(struct build_process *p)
{
        static const struct place_rules rules = {.stays_on_root = true,
                                                 .replaces_dirs = true,
                                                 .keeps_times = true,
                                                 .keeps_xattrs = true,
                                                 .remembers = true};
        struct unpack u = {.tar = tar_reader_create(), .in = {.pipe = -1}};
        struct err err = {0};
        int r;

        (void)umask(0);
        sha256_init(&u.sum);
        r = place_open(&u.place, &rules, &err);
        if (r == 0 && !u.tar)
                r = err_set(&err, ERR_LIMIT, "out of memory");
        if (r == 0)
                r = inflate_open(&u.in, &p->body, &err);
        if (r == 0)
                r = unpack_all(&u, &err);
        if (r < 0)
                build_answer_error(p, &err);
        else
                build_answer(p, 200, unpack_answer(&u));
        inflate_done(&u.in);
        place_done(&u.place);
        u.tar = tar_reader_free(u.tar);
}

void build_call_unpack(const struct handler_context *context, struct http_request *rq)
{
        build_process_start(context, rq, unpack_work);
}
