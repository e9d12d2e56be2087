/* files_read.c - the tools read_file and list_directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/shorten.h"
#include "mcp/tools/path.h"
#include "mcp/tools/sandbox_tools.h"

#define LINES 2000
#define TEXT_BYTES (100u << 10)
#define SCAN_BYTES_MAX (256u << 20)
#define IMAGE_BYTES_MAX (5u << 20)
#define ENTRIES 500
#define DEPTH_MAX 8

/* ---- read_file ---- */

static void read_image(struct call *c, int fd, const char *path, const char *type, off_t size)
{
        AUTO_BUF struct buf bytes = BUF_INIT(IMAGE_BYTES_MAX + 1);
        char caption[PATH_MAX + 64];
        ssize_t n;

        if (size > IMAGE_BYTES_MAX) {
                tool_failed(c, "%s is a picture of %lld bytes: at most %u can be shown", path, (long long)size,
                            IMAGE_BYTES_MAX);
                return;
        }
        do
                n = buf_fill(&bytes, fd, 1u << 20);
        while (n > 0);
        if (n < 0) {
                tool_failed(c, "%s: %s", path, strerror((int)-n));
                return;
        }
        (void)snprintf(caption, sizeof(caption), "%s, %zu bytes", path, bytes.len);
        tool_image(c, type, (struct str){(const char *)buf_at(&bytes), bytes.len}, caption);
}

struct line_reader {
        uint64_t first, last; /* the lines that are wanted */
        uint64_t at;          /* the line under way */
        uint64_t scanned;
        bool is_full; /* the text has no more room */
        struct buf text;
};

/* Take the lines of this piece; false: nothing more is wanted. */
static bool take_piece(struct line_reader *lr, struct str piece)
{
        while (piece.n) {
                const char *end = memchr(piece.p, '\n', piece.n);
                size_t n = end ? (size_t)(end - piece.p) + 1 : piece.n;

                if (lr->at > lr->last)
                        return false;
                if (lr->at >= lr->first) {
                        size_t room = buf_room(&lr->text);

                        (void)buf_add(&lr->text, piece.p, n < room ? n : room);
                        if (n > room) {
                                lr->is_full = true;
                                return false;
                        }
                }
                lr->at += end != NULL;
                piece = (struct str){piece.p + n, piece.n - n};
        }
        return true;
}

static void answer_lines(struct call *c, const struct line_reader *lr, const char *path, off_t size, bool is_end)
{
        AUTO_BUF struct buf text = BUF_INIT(4 * TEXT_BYTES);
        uint64_t last = lr->at - (lr->text.len && buf_at(&lr->text)[lr->text.len - 1] == '\n' ? 1 : 0);
        json_t *facts;

        (void)text_clean((struct str){lr->text.len ? (const char *)buf_at(&lr->text) : "", lr->text.len}, &text);
        facts = json_pack("{s:s,s:I,s:I,s:I,s:b}", "path", path, "size", (json_int_t)size, "first_line",
                          (json_int_t)lr->first, "last_line", (json_int_t)(lr->text.len ? last : lr->first - 1),
                          "is_complete", is_end && lr->first == 1);
        if (lr->text.len == 0 && lr->first > 1)
                (void)buf_addf(&text, "[%s has no line %" PRIu64 "]", path, lr->first);
        else if (lr->text.len == 0)
                (void)buf_addf(&text, "[%s is empty]", path);
        else if (!is_end)
                (void)buf_addf(&text, "\n[lines %" PRIu64 " to %" PRIu64 "; the file goes on%s]", lr->first, last,
                               lr->is_full ? ": the text was cut in the last of these lines" : "");
        tool_text(c, (struct str){(const char *)buf_at(&text), text.len}, facts);
}

static void read_lines(struct call *c, int fd, const char *path, off_t size, json_t *args)
{
        static char piece[64 << 10];
        struct line_reader lr = {.first = (uint64_t)arg_number(args, "first_line", 1), .at = 1};
        ssize_t n;

        lr.last = lr.first + (uint64_t)arg_number(args, "lines", LINES) - 1;
        buf_init(&lr.text, TEXT_BYTES);
        while ((n = read(fd, piece, sizeof(piece))) > 0) {
                if (lr.scanned == 0 && memchr(piece, 0, (size_t)(n < 8192 ? n : 8192))) {
                        tool_failed(c, "%s is a binary file of %lld bytes: use run_command to look into it", path,
                                    (long long)size);
                        buf_done(&lr.text);
                        return;
                }
                lr.scanned += (uint64_t)n;
                if (!take_piece(&lr, (struct str){piece, (size_t)n}) || lr.scanned > SCAN_BYTES_MAX)
                        break;
        }
        if (n < 0)
                tool_failed(c, "%s: %s", path, strerror(errno));
        else if (lr.scanned > SCAN_BYTES_MAX)
                tool_failed(c, "%s: line %" PRIu64 " is more than %u MiB into the file: use run_command", path,
                            lr.first, SCAN_BYTES_MAX >> 20);
        else
                answer_lines(c, &lr, path, size, n == 0);
        buf_done(&lr.text);
}

static void read_file(struct call *c, json_t *args)
{
        char path[PATH_MAX], head[16];
        AUTO_CLOSE int fd = -1;
        struct err err = {0};
        struct stat st;
        const char *type;
        ssize_t n;

        if (path_of(c->mcp, arg_text(args, "path", ""), path, &err) < 0 || file_open(path, &st, &fd, &err) < 0) {
                tool_failed(c, "%s", err.msg);
                return;
        }
        n = pread(fd, head, sizeof(head), 0);
        type = n > 0 ? tool_picture_type((struct str){head, (size_t)n}) : NULL;
        if (type)
                read_image(c, fd, path, type, st.st_size);
        else
                read_lines(c, fd, path, st.st_size, args);
}

const struct tool tool_read_file = {
        .name = "read_file",
        .title = "Read a file",
        .description =
                "Return a text file, or some of its lines. Pictures (PNG, JPEG, GIF, WebP) are returned as pictures.",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":"
                  "\"Relative paths begin in the workspace.\"},"
                  "\"first_line\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295,\"description\":\"Default:"
                  " 1.\"},"
                  "\"lines\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100000,\"description\":\"How many lines. "
                  "Default: 2000.\"}},"
                  "\"required\":[\"path\"],\"additionalProperties\":false}",
        .run = read_file,
};

/* ---- list_directory ---- */

struct listing {
        struct buf text;
        json_t *entries;
        size_t count, most;
        uint64_t left_out;
        unsigned depth_max;
};

static const char *kind_of(mode_t mode)
{
        return S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : S_ISREG(mode) ? "file" : "other";
}

static int by_name(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, sorted: of a huge directory the first ones that the kernel tells. */
static size_t read_names(DIR *d, char **names, size_t most, uint64_t *left_out)
{
        struct dirent *e;
        size_t n = 0;

        while ((e = readdir(d))) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                if (n < most && (names[n] = strdup(e->d_name)))
                        n++;
                else
                        (*left_out)++;
        }
        qsort(names, n, sizeof(*names), by_name);
        return n;
}

static void list_into(struct listing *l, int dir_fd, const char *prefix, unsigned depth);

static void add_entry(struct listing *l, int dir_fd, const char *prefix, const char *name, unsigned depth)
{
        char shown[PATH_MAX];
        struct stat st = {0};

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            snprintf(shown, sizeof(shown), "%s%s", prefix, name) >= PATH_MAX - 2)
                return;
        l->count++;
        (void)text_clean(str_of(shown), &l->text);
        if (S_ISREG(st.st_mode))
                (void)buf_addf(&l->text, "  %lld\n", (long long)st.st_size);
        else
                (void)buf_addc(&l->text, S_ISDIR(st.st_mode) ? "/\n" : S_ISLNK(st.st_mode) ? "@\n" : "?\n");
        {
                AUTO_BUF struct buf clean = BUF_INIT(4 * PATH_MAX);

                (void)text_clean(str_of(shown), &clean);
                (void)json_array_append_new(l->entries, json_pack("{s:s,s:s,s:I}", "path", buf_cstr(&clean), "type",
                                                                  kind_of(st.st_mode), "size", (json_int_t)st.st_size));
        }
        if (S_ISDIR(st.st_mode) && depth < l->depth_max) {
                int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

                (void)snprintf(shown, sizeof(shown), "%s%s/", prefix, name);
                if (fd >= 0)
                        list_into(l, fd, shown, depth + 1);
        }
}

/* Takes dir_fd. */
static void list_into(struct listing *l, int dir_fd, const char *prefix, unsigned depth)
{
        DIR *d = fdopendir(dir_fd);
        AUTO_FREE char **names = d ? calloc(l->most + 1, sizeof(*names)) : NULL;
        size_t n = names ? read_names(d, names, l->most, &l->left_out) : 0;

        for (size_t i = 0; i < n; i++) {
                if (l->count < l->most)
                        add_entry(l, dirfd(d), prefix, names[i], depth);
                else
                        l->left_out++;
                free(names[i]);
        }
        if (d)
                (void)closedir(d);
        else
                (void)close(dir_fd);
}

static void list_directory(struct call *c, json_t *args)
{
        struct listing l = {.most = (size_t)arg_number(args, "limit", ENTRIES),
                            .depth_max = (unsigned)arg_number(args, "depth", 1)};
        char path[PATH_MAX];
        struct err err = {0};
        int fd;

        if (path_of(c->mcp, arg_text(args, "path", "."), path, &err) < 0) {
                tool_failed(c, "%s", err.msg);
                return;
        }
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) {
                tool_failed(c,
                            errno == ENOENT    ? "%s does not exist"
                            : errno == ENOTDIR ? "%s is not a directory"
                            : errno == EACCES  ? "%s: permission denied"
                                               : "%s cannot be opened",
                            path);
                return;
        }
        buf_init(&l.text, 8u << 20);
        l.entries = json_array();
        list_into(&l, fd, "", 1);
        if (l.count == 0)
                (void)buf_addc(&l.text, "[empty]");
        if (l.left_out)
                (void)buf_addf(&l.text, "[%" PRIu64 " more entries]", l.left_out);
        tool_text(c, (struct str){(const char *)buf_at(&l.text), l.text.len},
                  json_pack("{s:o,s:I}", "entries", l.entries, "left_out", (json_int_t)l.left_out));
        buf_done(&l.text);
}

const struct tool tool_list_directory = {
        .name = "list_directory",
        .title = "List a directory",
        .description = "List files with their sizes, directories (/) and links (@).",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":"
                  "\"Default: the workspace.\"},"
                  "\"depth\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":8,\"description\":\"How many levels. "
                  "Default: 1.\"},"
                  "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"description\":\"How many entries "
                  "at most. Default: 500.\"}},"
                  "\"additionalProperties\":false}",
        .output = "{\"type\":\"object\",\"properties\":{\"entries\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}"
                  "},\"left_out\":{\"type\":\"integer\"}},"
                  "\"required\":[\"entries\",\"left_out\"]}",
        .run = list_directory,
};
