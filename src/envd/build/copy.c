/* copy.c - POST /sandglass/copy: files of a build's context, or of another stage, into the sandbox.
 *
 *      the source is                the destination                 gets
 *      a file, or a symbolic link   ends with a slash               the entry in it, under its own name
 *                                   is a directory                  the same
 *                                   else                            the entry as it
 *      a directory                  any                             what is in the directory, merged with what is there
 *
 * Entries are placed as they come; nothing is kept in between. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "envd/build/build_calls.h"
#include "envd/build/build_process.h"
#include "envd/build/copy_request.h"
#include "envd/build/inflate.h"
#include "envd/build/place.h"
#include "envd/rpc/handler_context.h"

struct copy {
        struct copy_request rq;
        struct inflate in;
        struct place place;
        struct tar_reader *tar; /* owned */
        bool is_found;          /* the source was in the archive */
        bool is_placing;        /* the entry at hand is part of it */
};

/* What follows the source in the name of an entry: "" the source itself; NULL: it is another one. */
static const char *below_source(const struct copy *c, const char *name)
{
        size_t n = strlen(c->rq.src);

        if (n == 0)
                return name;
        if (strncmp(name, c->rq.src, n) != 0 || (name[n] != '/' && name[n] != '\0'))
                return NULL;
        return name[n] ? name + n + 1 : name + n;
}

static int join(char out[PATH_MAX], const char *dir, const char *name, struct err *err)
{
        int n = snprintf(out, PATH_MAX, "%s%s%s", dir, dir[0] && name[0] ? "/" : "", name);

        return n >= PATH_MAX ? err_set(err, ERR_INVALID, "the path '%.100s...' is too long", out) : 0;
}

static bool is_directory(const char *path)
{
        char full[PATH_MAX + 1];
        struct stat st;

        (void)snprintf(full, sizeof(full), "/%s", path);
        return stat(full, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Where a source that is no directory goes. */
static int path_of_file(struct copy *c, char out[PATH_MAX], struct err *err)
{
        const char *slash = strrchr(c->rq.src, '/'), *base = slash ? slash + 1 : c->rq.src;

        if (c->rq.is_into || is_directory(c->rq.dest))
                return join(out, c->rq.dest, base, err);
        return join(out, "", c->rq.dest, err);
}

static int copy_place(struct copy *c, const struct tar_entry *e, const char *below, struct err *err)
{
        struct tar_entry entry = *e;
        char path[PATH_MAX], link[PATH_MAX];
        const char *target;
        int r;

        if (!below[0] && e->type != TAR_DIRECTORY && !c->rq.is_directory)
                r = path_of_file(c, path, err);
        else
                r = join(path, c->rq.dest, below, err);
        if (r == 0 && e->type == TAR_HARD_LINK) {
                target = below_source(c, e->link);
                if (!target || !target[0])
                        return err_set(err, ERR_INVALID, "'%.100s' is a hard link to '%.80s', which is not copied",
                                       e->name, e->link);
                r = join(link, c->rq.dest, target, err);
                entry.link = link;
        }
        return r < 0 ? r : place_begin(&c->place, &entry, path, err);
}

static int copy_begin_entry(struct copy *c, struct err *err)
{
        const struct tar_entry *e = tar_reader_entry(c->tar);
        const char *below;

        if (e->is_absolute)
                return err_set(err, ERR_INVALID, "the archive has an absolute name: '/%.200s'", e->name);
        below = below_source(c, e->name);
        c->is_placing = below != NULL;
        if (!below)
                return 0;
        c->is_found = true;
        return copy_place(c, e, below, err);
}

static int copy_piece(struct copy *c, struct str piece, struct err *err)
{
        struct tar_data data;
        int r = 0;

        while (r >= 0)
                switch (tar_reader_next(c->tar, &piece, &data)) {
                case TAR_MORE:
                case TAR_END: return 0;
                case TAR_ENTRY: r = copy_begin_entry(c, err); break;
                case TAR_DATA: r = c->is_placing ? place_write(&c->place, &data, err) : 0; break;
                case TAR_ENTRY_END: r = place_end(&c->place, tar_reader_entry(c->tar), err); break;
                case TAR_BAD: return err_set(err, ERR_INVALID, "%s", tar_reader_why(c->tar));
                }
        return r;
}

static int copy_all(struct copy *c, struct err *err)
{
        struct str piece;
        int n, r = 0;

        while (r >= 0 && (n = inflate_next(&c->in, &piece)) > 0)
                r = copy_piece(c, piece, err);
        if (r < 0)
                return r;
        if (n < 0)
                return err_set(err, ERR_INVALID, "the archive was cut off");
        r = inflate_finish(&c->in, err);
        if (r < 0)
                return r;
        if (!tar_reader_end(c->tar))
                return err_set(err, ERR_INVALID, "the archive was cut off");
        if (!c->is_found)
                return err_set(err, ERR_NOT_FOUND, "'%.150s' is not in the uploaded files", c->rq.src);
        place_finish(&c->place);
        return 0;
}

static int copy_open(struct copy *c, struct build_process *p, struct err *err)
{
        struct place_rules rules = {.keeps_dirs = true, .refuses_links = true, .has_owner = true, .keeps_times = true};
        int r = copy_request_decode(p->url->query, p->context->settings.default_user, &c->rq, err);

        if (r < 0)
                return r;
        rules.uid = c->rq.uid;
        rules.gid = c->rq.gid;
        rules.has_mode = c->rq.has_mode;
        rules.mode = c->rq.mode;
        r = place_open(&c->place, &rules, err);
        if (r == 0 && !c->tar)
                r = err_set(err, ERR_LIMIT, "out of memory");
        return r < 0 ? r : inflate_open(&c->in, &p->body, err);
}

static void copy_work(struct build_process *p)
{
        struct copy c = {
                .tar = tar_reader_create(), .in = {.pipe = -1}, .place = {.root = -1, .parent = -1, .file = -1}};
        struct err err = {0};
        int r;

        (void)umask(0);
        r = copy_open(&c, p, &err);
        if (r == 0)
                r = copy_all(&c, &err);
        if (r < 0)
                build_answer_error(p, &err);
        else
                build_answer(p, 200,
                             json_pack("{s:I, s:I, s:O}", "entries", (json_int_t)c.place.entries, "bytes",
                                       (json_int_t)c.place.bytes, "notes", c.place.notes));
        inflate_done(&c.in);
        place_done(&c.place);
        c.tar = tar_reader_free(c.tar);
}

void build_call_copy(const struct handler_context *context, struct http_request *rq)
{
        build_process_start(context, rq, copy_work);
}
