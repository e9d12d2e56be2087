/* Any bytes as an archive: the reader gives the same entries however the bytes are cut, and keeps its promises about them. */
#include <string.h>

#include "fuzz.h"
#include "wire/tar/tar.h"

struct summary {
        uint64_t entries, bytes, names;
        enum tar_step last;
};

static void check_name(const char *name)
{
        MUST(strlen(name) <= TAR_NAME_MAX && name[0] != '/');
        MUST(strcmp(name, "..") != 0 && strncmp(name, "../", 3) != 0 && !strstr(name, "/../") && !strstr(name, "//"));
        MUST(strlen(name) < 3 || strcmp(name + strlen(name) - 3, "/..") != 0);
}

static void check_entry(const struct tar_entry *e)
{
        check_name(e->name);
        MUST((e->type == TAR_HARD_LINK || e->type == TAR_SYMLINK) == (e->link != NULL));
        if (e->type == TAR_HARD_LINK) {
                check_name(e->link);
                MUST(e->link[0]);
        }
        MUST(e->type == TAR_FILE || e->size == 0);
        MUST(e->mode <= 07777 && e->xattr_count <= TAR_XATTRS_MAX);
}

static struct summary read_pieces(const uint8_t *data, size_t size, size_t piece)
{
        struct tar_reader *r = tar_reader_create();
        struct summary s = {.last = TAR_MORE};
        uint64_t end = 0;

        MUST(r);
        for (size_t at = 0; at < size && s.last != TAR_BAD; at += piece) {
                struct str in = {(const char *)data + at, size - at < piece ? size - at : piece};
                struct tar_data d;

                for (s.last = TAR_ENTRY; s.last != TAR_MORE && s.last != TAR_END && s.last != TAR_BAD;) {
                        s.last = tar_reader_next(r, &in, &d);
                        if (s.last == TAR_ENTRY) {
                                check_entry(tar_reader_entry(r));
                                s.entries++;
                                s.names += strlen(tar_reader_entry(r)->name);
                                end = 0;
                        } else if (s.last == TAR_DATA) {
                                MUST(d.bytes.n && d.offset >= end);
                                end = d.offset + d.bytes.n;
                                MUST(end <= tar_reader_entry(r)->size);
                                s.bytes += d.bytes.n;
                        }
                }
        }
        r = tar_reader_free(r);
        return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct summary whole = read_pieces(data, size, size ? size : 1), cut = read_pieces(data, size, 97);

        MUST(whole.entries == cut.entries && whole.bytes == cut.bytes && whole.names == cut.names);
        MUST((whole.last == TAR_BAD) == (cut.last == TAR_BAD));
        return 0;
}
