#include "envd/sandbox/identity_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "envd/rpc/settings.h"

#define HOSTS_MAX (1u << 20)
#define OWN_ADDRESS "127.0.1.1\t"
#define MACHINE_ID_BYTES 16
#define MARKER_MAX 256

/* ---- /run/e2b ---- */

static bool marker_is_written(const char *path, const char *text)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        char found[MARKER_MAX];
        size_t n = strlen(text);

        return fd >= 0 && n < sizeof(found) && read(fd, found, sizeof(found)) == (ssize_t)n &&
               memcmp(found, text, n) == 0;
}

/* A resumed sandbox mostly finds the same text: writing would cost more than all the rest of the resume. */
static void write_marker(const char *path, const char *text)
{
        AUTO_CLOSE int fd = -1;

        if (marker_is_written(path, text))
                return;
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
        if (fd >= 0)
                (void)!write(fd, text, strlen(text));
}

static void write_markers(const struct settings *s)
{
        (void)mkdir("/run", 0755);
        (void)mkdir("/run/e2b", 0755);
        write_marker("/run/e2b/.E2B_SANDBOX", "true");
        write_marker("/run/e2b/.E2B_SANDBOX_ID", s->sandbox_id);
        if (s->template_id)
                write_marker("/run/e2b/.E2B_TEMPLATE_ID", s->template_id);
}

/* ---- /etc/hosts ---- */

/* Where the text has `line` as a whole line; NULL: nowhere. */
static const char *hosts_find_line(const char *text, const char *line)
{
        size_t n = strlen(line);

        for (const char *at = text; (at = strstr(at, line)); at += n)
                if (at == text || at[-1] == '\n')
                        return at;
        return NULL;
}

/* Write the text back, with the line for `old` turned into one for `name`. */
static void hosts_rename(int fd, const char *text, const char *old, const char *name)
{
        char line[sizeof(OWN_ADDRESS) + HOSTNAME_MAX + 1];
        AUTO_BUF struct buf b = BUF_INIT(HOSTS_MAX + sizeof(line));
        const char *at;

        (void)snprintf(line, sizeof(line), OWN_ADDRESS "%s\n", old);
        at = hosts_find_line(text, line);
        if (!at || buf_add(&b, text, (size_t)(at - text)) < 0 || buf_addf(&b, OWN_ADDRESS "%s\n", name) < 0 ||
            buf_addc(&b, at + strlen(line)) < 0)
                return;
        if (pwrite(fd, buf_at(&b), b.len, 0) == (ssize_t)b.len)
                (void)!ftruncate(fd, (off_t)b.len);
}

static bool hosts_read(int fd, struct buf *b)
{
        ssize_t n;

        do {
                n = buf_fill(b, fd, 4096);
        } while (n > 0);
        return n == 0;
}

/* The own name must resolve without a name server: sudo asks for it at every start. */
static void hosts_set_name(const char *old, const char *name)
{
        AUTO_CLOSE int fd = open("/etc/hosts", O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
        AUTO_BUF struct buf b = BUF_INIT(HOSTS_MAX);
        const char *text = fd >= 0 && hosts_read(fd, &b) ? buf_cstr(&b) : NULL;

        if (!text)
                return;
        if (old[0] && strcmp(old, name) != 0)
                hosts_rename(fd, text, old, name);
        else if (!strstr(text, name))
                (void)!dprintf(fd, "%s" OWN_ADDRESS "%s\n", b.len && text[b.len - 1] != '\n' ? "\n" : "", name);
}

static void write_own_name(struct identity_files *files)
{
        char name[HOSTNAME_MAX + 1] = "";

        if (gethostname(name, sizeof(name)) < 0 || !name[0])
                return;
        name[HOSTNAME_MAX] = 0;
        hosts_set_name(files->name, name);
        memcpy(files->name, name, sizeof(name));
}

/* ---- /etc/machine-id ---- */

/* Write a new id into the empty file.  A template without the file needs no id. */
static void fill_machine_id(void)
{
        AUTO_CLOSE int fd = open("/etc/machine-id", O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        char text[2 * MACHINE_ID_BYTES + 2];
        uint8_t id[MACHINE_ID_BYTES];
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > 0)
                return;
        random_bytes(id, sizeof(id));
        hex_encode(id, sizeof(id), text);
        text[2 * MACHINE_ID_BYTES] = '\n';
        (void)!write(fd, text, 2 * MACHINE_ID_BYTES + 1);
}

/* ---- */

void identity_files_create(struct identity_files *files, const struct settings *s)
{
        identity_files_update(files, s);
        fill_machine_id();
}

void identity_files_update(struct identity_files *files, const struct settings *s)
{
        write_markers(s);
        write_own_name(files);
}
