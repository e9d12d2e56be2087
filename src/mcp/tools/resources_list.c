/* resources_list.c - the method resources/list: files of the workspace, sorted by name, page by page.
 *
 * A cursor is the name of the last file of a page, as hex digits: files may come and go between pages.  Of a directory of any size only
 * the names of one page are kept at a time. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/resources.h"

#define PAGE_FILES 1000u

struct page {
        const char *dir;
        char after[NAME_MAX + 1];    /* "": the first page */
        char *names[PAGE_FILES + 1]; /* owned, sorted; one more than the page has, when another follows */
        size_t count;
};

static bool is_file(const struct page *p, const char *name, struct stat *st, char path[PATH_MAX])
{
        return str_is_utf8(str_of(name)) && snprintf(path, PATH_MAX, "%s/%s", p->dir, name) < PATH_MAX &&
               stat(path, st) == 0 && S_ISREG(st->st_mode);
}

/* Where the name belongs; false: not on this page. */
static bool find_place(const struct page *p, const char *name, size_t *ret)
{
        size_t low = 0, high = p->count;

        if (strcmp(name, p->after) <= 0)
                return false;
        while (low < high) {
                size_t middle = (low + high) / 2;

                if (strcmp(p->names[middle], name) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret = low;
        return low < ARRAY_LEN(p->names);
}

static void consider(struct page *p, const char *name)
{
        char path[PATH_MAX], *copy;
        struct stat st;
        size_t at;

        if (!find_place(p, name, &at) || !is_file(p, name, &st, path) || !(copy = strdup(name)))
                return;
        if (p->count == ARRAY_LEN(p->names))
                free(p->names[--p->count]);
        memmove(p->names + at + 1, p->names + at, (p->count - at) * sizeof(*p->names));
        p->names[at] = copy;
        p->count++;
}

static int take_cursor(const char *cursor, char ret[NAME_MAX + 1])
{
        size_t n = strlen(cursor);

        if (n == 0 || n % 2 || n / 2 > NAME_MAX)
                return -1;
        for (size_t i = 0; i < n; i += 2) {
                int high = hex_value(cursor[i]), low = hex_value(cursor[i + 1]);

                if (high < 0 || low < 0 || high + low == 0)
                        return -1;
                ret[i / 2] = (char)(high * 16 + low);
        }
        ret[n / 2] = '\0';
        return 0;
}

static json_t *describe(const struct page *p, const char *name)
{
        AUTO_BUF struct buf uri = BUF_INIT(4 * PATH_MAX);
        char path[PATH_MAX];
        struct stat st;

        if (!is_file(p, name, &st, path) || resource_add_uri(&uri, path) < 0)
                return NULL; /* gone meanwhile */
        return json_pack("{s:s,s:s,s:I}", "uri", buf_cstr(&uri), "name", name, "size", (json_int_t)st.st_size);
}

static void answer(struct call *c, const struct page *p)
{
        char cursor[2 * NAME_MAX + 1] = "";
        json_t *list = json_array();
        size_t n = p->count < PAGE_FILES ? p->count : PAGE_FILES;

        for (size_t i = 0; i < n; i++) {
                json_t *one = describe(p, p->names[i]);

                if (one)
                        (void)json_array_append_new(list, one);
        }
        if (p->count > PAGE_FILES)
                hex_encode(p->names[PAGE_FILES - 1], strlen(p->names[PAGE_FILES - 1]), cursor);
        call_result(c, json_pack("{s:o,s:s*}", "resources", list, "nextCursor", cursor[0] ? cursor : NULL));
}

void resources_list(struct call *c)
{
        const json_t *cursor = json_object_get(c->params, "cursor");
        struct page page = {.dir = c->mcp->opt.workspace};
        struct dirent *e;
        DIR *d;

        if (cursor && !json_is_null(cursor) &&
            (!json_is_string(cursor) || take_cursor(json_string_value(cursor), page.after) < 0)) {
                call_error(c, JSONRPC_INVALID_PARAMS, "cursor is none of this server");
                return;
        }
        d = opendir(page.dir);
        while (d && (e = readdir(d)))
                consider(&page, e->d_name);
        if (d)
                (void)closedir(d);
        answer(c, &page);
        for (size_t i = 0; i < page.count; i++)
                free(page.names[i]);
}
