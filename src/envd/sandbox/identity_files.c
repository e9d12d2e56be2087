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
#include "model/ids.h"

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

static bool is_sandbox_id(struct str s)
{
        if (s.n != SANDBOX_ID_LEN || s.p[0] != 'i')
                return false;
        for (size_t i = 0; i < s.n; i++)
                if ((s.p[i] < 'a' || s.p[i] > 'z') && (s.p[i] < '0' || s.p[i] > '9'))
                        return false;
        return true;
}

/* A line of ours: for the name that the sandbox had, or for a sandbox whose files these were, like one of a template's build. */
static bool hosts_line_is_own(struct str line, const char *old)
{
        size_t n = strlen(OWN_ADDRESS);
        struct str name;

        if (line.n <= n || memcmp(line.p, OWN_ADDRESS, n) != 0)
                return false;
        name = (struct str){line.p + n, line.n - n};
        return str_is(name, old) || is_sandbox_id(name);
}

static struct str hosts_next_line(const char **at)
{
        struct str line = {*at, strcspn(*at, "\n")};

        *at += line.n + ((*at)[line.n] == '\n');
        return line;
}

/* The text with one line for `name` in place of all lines of ours, or at the end.  Negative errno: no room. */
static int hosts_rename(const char *text, const char *old, const char *name, struct buf *out)
{
        bool is_written = false;
        int r = 0;

        while (*text && r == 0) {
                struct str line = hosts_next_line(&text);

                if (!hosts_line_is_own(line, old)) {
                        r = buf_addf(out, "%.*s\n", STR_ARG(line));
                } else if (!is_written) {
                        r = buf_addf(out, OWN_ADDRESS "%s\n", name);
                        is_written = true;
                }
        }
        return r == 0 && !is_written ? buf_addf(out, OWN_ADDRESS "%s\n", name) : r;
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
        AUTO_BUF struct buf b = BUF_INIT(HOSTS_MAX),
                            next = BUF_INIT(HOSTS_MAX + sizeof(OWN_ADDRESS) + HOSTNAME_MAX + 1);
        const char *text = fd >= 0 && hosts_read(fd, &b) ? buf_cstr(&b) : NULL;

        if (!text || hosts_rename(text, old, name, &next) < 0)
                return;
        if (next.len == b.len && memcmp(buf_at(&next), text, b.len) == 0)
                return;
        if (pwrite(fd, buf_at(&next), next.len, 0) == (ssize_t)next.len)
                (void)!ftruncate(fd, (off_t)next.len);
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
