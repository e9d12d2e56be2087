#include "control/catalogue/build_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "model/build/build_names.h"
#include "model/ids.h"
#include "model/json_field.h"

#define OPEN_MAX 64                                        /* files at once */
#define EVERY 128                                          /* lines between two places of the index */
#define LINE_MAX_BYTES (6u * BUILD_LOG_MESSAGE_MAX + 1024) /* every byte escaped */
#define PIECE (64u << 10)
#define NAME_MAX_LEN (UUID_MAX + 4)

struct log_place {
        uint64_t offset;
        uint64_t before[BUILD_LOG_LEVELS]; /* how many entries of at least that level are before it */
};

struct build_log {
        struct list node;
        char id[UUID_MAX];
        int fd; /* owned; for reading and adding */
        uint64_t bytes;
        struct log_place end;
        struct log_place *places; /* owned: one for each EVERY lines */
        size_t place_count, place_cap;
        bool is_full;
};

const char *build_log_level_name(enum build_log_level level)
{
        static const char *const names[] = {"debug", "info", "warn", "error"};

        return names[level];
}

int build_log_level_of(const char *name, enum build_log_level *ret)
{
        for (int i = 0; i < BUILD_LOG_LEVELS; i++)
                if (name && strcmp(name, build_log_level_name((enum build_log_level)i)) == 0) {
                        *ret = (enum build_log_level)i;
                        return 0;
                }
        return -EINVAL;
}

/* ---- open files ---- */

static void build_log_close(struct build_logs *ls, struct build_log *l)
{
        list_remove(&l->node);
        (void)map_remove(&ls->by_build, str_of(l->id));
        close_fd(&l->fd);
        free(l->places);
        free(l);
        ls->count--;
}

int build_logs_init(struct build_logs *ls, const char *dir, struct err *err)
{
        *ls = (struct build_logs){.dir = -1};
        list_init(&ls->open);
        if (mkdir(dir, 0700) < 0 && errno != EEXIST)
                return err_sys(err, -errno, "create '%s'", dir);
        ls->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return ls->dir < 0 ? err_sys(err, -errno, "open '%s'", dir) : 0;
}

void build_logs_done(struct build_logs *ls)
{
        if (!ls->open.next)
                return;
        while (!list_is_empty(&ls->open))
                build_log_close(ls, LIST_ENTRY(ls->open.next, struct build_log, node));
        map_done(&ls->by_build);
        close_fd(&ls->dir);
}

/* One more line, of that level, which ends at `end`. */
static void build_log_count(struct build_log *l, enum build_log_level level, uint64_t end)
{
        if (l->end.before[0] % EVERY == 0) {
                if (l->place_count == l->place_cap) {
                        size_t cap = l->place_cap ? l->place_cap * 2 : 8;
                        struct log_place *more = reallocarray(l->places, cap, sizeof(*more));

                        if (more) {
                                l->places = more;
                                l->place_cap = cap;
                        }
                }
                if (l->place_count < l->place_cap) /* else the index has a gap, and reading takes longer */
                        l->places[l->place_count++] = l->end;
        }
        for (int i = 0; i <= (int)level; i++)
                l->end.before[i]++;
        l->end.offset = end;
}

/* The level of a line without decoding it: our own lines have it at a known place. */
static enum build_log_level line_level(const char *line, size_t n)
{
        const char *at = memmem(line, n < 64 ? n : 64, "\"l\":\"", 5);
        char name[8] = "";
        enum build_log_level level = BUILD_LOG_INFO;

        if (at && (size_t)(at - line) + 5 < n) {
                size_t left = n - (size_t)(at - line) - 5;

                for (size_t i = 0; i < sizeof(name) - 1 && i < left && at[5 + i] != '"'; i++)
                        name[i] = at[5 + i];
        }
        (void)build_log_level_of(name, &level);
        return level;
}

/* Calls each() for every whole line from `offset` on, until it returns false.  Returns where the first line that was not given
 * begins. */
static uint64_t lines_each(int fd, uint64_t offset, uint64_t end, bool (*each)(const char *line, size_t n, void *arg),
                           void *arg)
{
        AUTO_BUF struct buf in = BUF_INIT(LINE_MAX_BYTES + PIECE);

        for (uint64_t at = offset; at < end || in.len;) {
                const uint8_t *nl = in.len ? memchr(buf_at(&in), '\n', in.len) : NULL;
                uint8_t *room;
                ssize_t n;

                if (nl) {
                        size_t line = (size_t)(nl - buf_at(&in));

                        if (!each((const char *)buf_at(&in), line, arg))
                                return offset;
                        offset += line + 1;
                        buf_consume(&in, line + 1);
                        continue;
                }
                if (at >= end || buf_reserve(&in, PIECE, &room) < 0)
                        return offset;
                n = pread(fd, room, end - at < PIECE ? (size_t)(end - at) : PIECE, (off_t)at);
                if (n <= 0)
                        return offset;
                buf_commit(&in, (size_t)n);
                at += (uint64_t)n;
        }
        return offset;
}

static bool build_log_index_line(const char *line, size_t n, void *arg)
{
        struct build_log *l = arg;

        build_log_count(l, line_level(line, n), l->end.offset + n + 1);
        return true;
}

static int log_name(const char *build_id, char out[NAME_MAX_LEN])
{
        if (!uuid_is_valid(build_id))
                return -EINVAL;
        (void)snprintf(out, NAME_MAX_LEN, "%s.log", build_id);
        return 0;
}

/* A crash may have left half a line at the end, which nobody has read. */
static int build_log_scan(struct build_log *l)
{
        struct stat st;

        if (fstat(l->fd, &st) < 0)
                return -errno;
        l->bytes = lines_each(l->fd, 0, (uint64_t)st.st_size, build_log_index_line, l);
        if (l->bytes < (uint64_t)st.st_size && ftruncate(l->fd, (off_t)l->bytes) < 0)
                return -errno;
        l->is_full = l->bytes >= BUILD_LOG_BYTES_MAX;
        return 0;
}

/* NULL: it is not there (and is not to be made), or cannot be opened. */
static struct build_log *build_log_open(struct build_logs *ls, const char *build_id, bool make)
{
        struct build_log *l = map_get(&ls->by_build, str_of(build_id));
        char name[NAME_MAX_LEN];

        if (l) {
                list_remove(&l->node);
                list_push_front(&ls->open, &l->node);
                return l;
        }
        if (log_name(build_id, name) < 0 || !(l = calloc(1, sizeof(*l))))
                return NULL;
        memcpy(l->id, build_id, sizeof(l->id));
        l->fd = openat(ls->dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0), 0600);
        if (l->fd < 0 || build_log_scan(l) < 0 || map_put(&ls->by_build, str_of(l->id), l, NULL) < 0) {
                if (make)
                        log_warn("build.log", "build=%s failed=\"%s\"", build_id, strerror(errno));
                close_fd(&l->fd);
                free(l->places);
                free(l);
                return NULL;
        }
        list_push_front(&ls->open, &l->node);
        if (++ls->count > OPEN_MAX)
                build_log_close(ls, LIST_ENTRY(ls->open.prev, struct build_log, node));
        return l;
}

/* ---- adding ---- */

/* The text, cut to its maximum, as valid UTF-8. */
static json_t *message_json(const char *text)
{
        AUTO_FREE char *copy = NULL;
        json_t *v = NULL;
        size_t n = strlen(text);

        if (n <= BUILD_LOG_MESSAGE_MAX && (v = json_string(text)))
                return v;
        copy = str_dup((struct str){text, n < BUILD_LOG_MESSAGE_MAX ? n : BUILD_LOG_MESSAGE_MAX});
        if (!copy)
                return NULL;
        for (size_t i = strlen(copy), back = 0; back < 4 && i > 0 && !(v = json_string(copy)); back++)
                copy[--i] = 0; /* the cut may go through a character */
        for (char *p = copy; *p && !v; p++)
                if ((unsigned char)*p >= 0x80)
                        *p = '?';
        return v ? v : json_string(copy);
}

static void build_log_write(struct build_log *l, enum build_log_level level, json_t *entry)
{
        AUTO_FREE char *text = entry ? json_dumps(entry, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
        AUTO_FREE char *line = NULL;
        ssize_t n;
        int len;

        json_decref(entry);
        len = text ? asprintf(&line, "%s\n", text) : -1;
        if (len < 0) {
                line = NULL;
                return;
        }
        n = pwrite(l->fd, line, (size_t)len, (off_t)l->bytes);
        if (n != len) {
                log_warn("build.log", "build=%s failed=\"%s\", losing a line", l->id,
                         n < 0 ? strerror(errno) : "short write");
                (void)!ftruncate(l->fd, (off_t)l->bytes);
                return;
        }
        l->bytes += (uint64_t)len;
        build_log_count(l, level, l->bytes);
}

void build_log_add(struct build_logs *ls, const char *build_id, int64_t t_ns, enum build_log_level level,
                   const char *step, const char *message)
{
        struct build_log *l = build_log_open(ls, build_id, true);

        if (!l || l->is_full)
                return;
        if (l->bytes > BUILD_LOG_BYTES_MAX) {
                l->is_full = true;
                level = BUILD_LOG_WARN;
                message = "the log is full, and what follows is left out";
        }
        build_log_write(l, level,
                        json_pack("{s:I,s:s,s:o,s:s*}", "t", (json_int_t)t_ns, "l", build_log_level_name(level), "m",
                                  message_json(message), "s", step));
}

void build_log_add_all(struct build_logs *ls, const char *build_id, const char *step, const char *before,
                       const json_t *entries)
{
        json_t *v;
        size_t i;

        json_array_foreach (entries, i, v) {
                const char *m = json_string_value(json_object_get(v, "m"));
                enum build_log_level level = BUILD_LOG_INFO;
                AUTO_FREE char *text = NULL;

                (void)build_log_level_of(json_string_value(json_object_get(v, "l")), &level);
                if (!m || asprintf(&text, "%s%s", before, m) < 0) {
                        text = NULL;
                        continue;
                }
                build_log_add(ls, build_id, json_integer_value(json_object_get(v, "t")), level, step, text);
        }
}

/* ---- reading ---- */

struct log_reading {
        enum build_log_level level;
        uint64_t skip;
        size_t limit;
        int64_t after_ns, before_ns; /* both excluded */
        bool is_backward;            /* the last `limit` of them */
        json_t *found;
};

static json_t *entry_shown(const json_t *line)
{
        const char *m = json_string_value(json_object_get(line, "m"));
        const char *level = json_string_value(json_object_get(line, "l"));
        char time[CLOCK_TEXT_MAX];

        clock_format(json_integer_value(json_object_get(line, "t")), time);
        return json_with_text(json_pack("{s:s,s:s,s:s}", "timestamp", time, "level", level ? level : "info", "message",
                                        m ? m : "(this line of the log is damaged)"),
                              "step", json_string_value(json_object_get(line, "s")));
}

static bool log_reading_take(const char *text, size_t n, void *arg)
{
        struct log_reading *rd = arg;
        json_t *line;
        int64_t t;

        if (line_level(text, n) < rd->level)
                return true;
        if (rd->skip > 0) {
                rd->skip--;
                return true;
        }
        if (!rd->is_backward && json_array_size(rd->found) >= rd->limit)
                return false;
        line = json_loadb(text, n, 0, NULL);
        t = json_integer_value(json_object_get(line, "t"));
        if (t > rd->after_ns && t < rd->before_ns) {
                (void)json_array_append_new(rd->found, entry_shown(line));
                if (rd->is_backward && json_array_size(rd->found) > rd->limit)
                        (void)json_array_remove(rd->found, 0);
        }
        json_decref(line);
        return true;
}

/* The last place of the index that has at most `skip` entries before it. */
static uint64_t build_log_seek(const struct build_log *l, struct log_reading *rd)
{
        size_t low = 0, high = l->place_count;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (l->places[mid].before[rd->level] <= rd->skip)
                        low = mid + 1;
                else
                        high = mid;
        }
        if (low == 0)
                return 0;
        rd->skip -= l->places[low - 1].before[rd->level];
        return l->places[low - 1].offset;
}

static json_t *build_log_take(struct build_logs *ls, const char *build_id, struct log_reading *rd)
{
        struct build_log *l = build_log_open(ls, build_id, false);

        rd->found = json_array();
        rd->limit = rd->limit < BUILD_LOG_PAGE_MAX ? rd->limit : BUILD_LOG_PAGE_MAX;
        if (!l || !rd->found || rd->skip >= l->end.before[rd->level])
                return rd->found;
        (void)lines_each(l->fd, build_log_seek(l, rd), l->bytes, log_reading_take, rd);
        return rd->found;
}

json_t *build_log_read(struct build_logs *ls, const char *build_id, enum build_log_level level, uint64_t from,
                       size_t limit)
{
        struct log_reading rd = {
                .level = level, .skip = from, .limit = limit, .after_ns = INT64_MIN, .before_ns = INT64_MAX};

        return build_log_take(ls, build_id, &rd);
}

json_t *build_log_read_time(struct build_logs *ls, const char *build_id, enum build_log_level level, int64_t at_ns,
                            bool is_backward, size_t limit)
{
        struct log_reading rd = {.level = level,
                                 .limit = limit,
                                 .after_ns = is_backward ? INT64_MIN : at_ns,
                                 .before_ns = is_backward ? at_ns : INT64_MAX,
                                 .is_backward = is_backward};
        json_t *list = build_log_take(ls, build_id, &rd), *turned = is_backward ? json_array() : NULL, *v;
        size_t i;

        if (!turned)
                return list;
        json_array_foreach (list, i, v)
                (void)json_array_insert(turned, 0, v);
        json_decref(list);
        return turned;
}

/* ---- removing ---- */

void build_log_remove(struct build_logs *ls, const char *build_id)
{
        struct build_log *l = map_get(&ls->by_build, str_of(build_id));
        char name[NAME_MAX_LEN];

        if (l)
                build_log_close(ls, l);
        if (log_name(build_id, name) == 0 && unlinkat(ls->dir, name, 0) < 0 && errno != ENOENT)
                log_warn("build.log", "build=%s remove failed=\"%s\"", build_id, strerror(errno));
}

void build_logs_collect(struct build_logs *ls, bool (*is_known)(const char *build_id, void *arg), void *arg)
{
        int fd = openat(ls->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;

        if (!d) {
                close_fd(&fd);
                return;
        }
        while ((e = readdir(d))) {
                char id[UUID_MAX] = "";

                if (strlen(e->d_name) != UUID_MAX - 1 + 4 || !str_ends(str_of(e->d_name), ".log"))
                        continue;
                memcpy(id, e->d_name, UUID_MAX - 1);
                if (uuid_is_valid(id) && !is_known(id, arg))
                        build_log_remove(ls, id);
        }
        (void)closedir(d);
}
