/* Merged layers mean what the layers meant: random histories through real overlay mounts. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "layer_merge_rig.h"
#include "sys/fs.h"

#define SEEDS 300u
#define MS_MAX 8000u /* of random histories; what is left is left */
#define GENERATIONS 7u
#define STEPS 200u

static struct lab lab;
static uint64_t state;

static unsigned dice(unsigned n) /* 0..n-1, the same on every machine */
{
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (unsigned)(state >> 33) % n;
}

/* ------------------------------------------------------------- random steps */

static void pick(char out[64])
{
        unsigned depth = 1 + dice(4);
        size_t n = 0;

        for (unsigned i = 0; i < depth; i++) {
                if (i)
                        out[n++] = '/';
                out[n++] = (char)('a' + dice(5));
        }
        out[n] = '\0';
}

static void write_file(int m, const char *path, int flags)
{
        AUTO_CLOSE int fd =
                openat(m, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600 | dice(64));
        char text[16];

        if (fd >= 0)
                (void)!write(fd, text, (size_t)snprintf(text, sizeof(text), "%u.", dice(100000)));
}

static void set_acl(int m, const char *path)
{
        static const unsigned char acl[] = {2, 0,   0,   0,   1,   0,   7,  0, 255, 255, 255, 255, 2,   0,  5,
                                            0, 232, 3,   0,   0,   4,   0,  5, 0,   255, 255, 255, 255, 16, 0,
                                            7, 0,   255, 255, 255, 255, 32, 0, 1,   0,   255, 255, 255, 255};
        AUTO_CLOSE int fd = openat(m, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        (void)fsetxattr(fd, dice(2) ? "system.posix_acl_default" : "system.posix_acl_access", acl, sizeof(acl), 0);
}

static void set_xattr(int m, const char *path)
{
        static const char *const names[] = {"user.a", "user.b", "security.test", "trusted.own",
                                            "trusted.overlay.opaque"};
        AUTO_CLOSE int fd = openat(m, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        const char *name = names[dice(5)]; /* the last is escaped by overlayfs, as of an overlay inside */

        if (fd >= 0 && dice(4) == 0)
                (void)fremovexattr(fd, name);
        else if (fd >= 0)
                (void)fsetxattr(fd, name, "yes", dice(4), 0);
}

static void set_times(int m, const char *path)
{
        struct timespec t[2] = {{.tv_sec = dice(1000000)}, {.tv_sec = dice(1000000), .tv_nsec = dice(1000000)}};

        (void)utimensat(m, path, t, AT_SYMLINK_NOFOLLOW);
}

static void step(int m)
{
        char p[64], q[64];

        pick(p);
        pick(q);
        switch (dice(22)) {
        case 0:
        case 1:
        case 2: write_file(m, p, 0); break;
        case 3: write_file(m, p, O_APPEND); break;
        case 4: write_file(m, p, O_TRUNC); break;
        case 5:
        case 6:
        case 7: (void)mkdirat(m, p, 0700 | dice(64)); break;
        case 8: (void)unlinkat(m, p, 0); break;
        case 9: (void)unlinkat(m, p, AT_REMOVEDIR); break;
        case 10: (void)sys_remove_tree(m, p); break;
        case 11:
        case 12:
        case 13: (void)renameat(m, p, m, q); break;
        case 14: (void)renameat2(m, p, m, q, RENAME_EXCHANGE); break;
        case 15: (void)!linkat(m, p, m, q, 0); break;
        case 16: (void)!symlinkat(q, m, p); break;
        case 17: (void)!fchmodat(m, p, dice(010000), 0); break;
        case 18: (void)!fchownat(m, p, dice(3), dice(3), AT_SYMLINK_NOFOLLOW); break;
        case 19: set_xattr(m, p); break;
        case 20: dice(2) ? set_acl(m, p) : set_times(m, p); break;
        case 21:
                (void)sys_remove_tree(m, p);
                if (dice(3) == 0)
                        (void)mknodat(m, p, S_IFIFO | 0600, 0);
                else
                        (void)(dice(2) ? mkdirat(m, p, 0755) : symlinkat("../x", m, p));
                break;
        }
}

static bool generation(const char *const *layers, size_t n, const char *name)
{
        int m = lab_mount(&lab, layers, n, true);

        if (m < 0)
                return false;
        for (unsigned i = 0; i < STEPS; i++)
                step(m);
        lab_unmount(&lab, m);
        return lab_seal(&lab, name);
}

struct chain { /* of layers, lowest first */
        char names[RIG_LAYERS_MAX][32];
        const char *layers[RIG_LAYERS_MAX];
        size_t n;
};

static void chain_add(struct chain *c, const char *name)
{
        (void)snprintf(c->names[c->n], sizeof(c->names[0]), "%s", name);
        c->layers[c->n] = c->names[c->n];
        c->n++;
}

static void chain_replace(struct chain *c, size_t first, size_t last, const char *name)
{
        memmove(c->names + first + 1, c->names + last + 1, (c->n - last - 1) * sizeof(c->names[0]));
        c->n -= last - first;
        (void)snprintf(c->names[first], sizeof(c->names[0]), "%s", name);
}

/* The lowest layer is never merged: it stands for the template. */
static bool history(unsigned seed)
{
        struct chain c = {.n = 0};
        char name[32];
        unsigned next = 0;

        state = seed;
        if (mkdirat(lab.sealed, "empty", 0755) < 0)
                return false;
        for (unsigned g = 0; g < GENERATIONS; g++) {
                size_t first, last;

                (void)snprintf(name, sizeof(name), LAYER, next++);
                if (!generation(c.n ? c.layers : (const char *const[]){"empty"}, c.n ? c.n : 1, name))
                        return false;
                chain_add(&c, name);
                if (c.n < 3)
                        continue;
                first = 1 + dice((unsigned)c.n - 2);
                last = first + 1 + dice((unsigned)(c.n - first - 1));
                (void)snprintf(name, sizeof(name), LAYER, next++);
                if (!lab_same_when_flat(&lab, c.layers, c.n, first, last, name))
                        return false;
                if (dice(2))
                        chain_replace(&c, first, last, name);
        }
        (void)snprintf(name, sizeof(name), LAYER, next++);
        return lab_same_when_flat(&lab, c.layers, c.n, 1, c.n - 1, name);
}

static void random_histories_are_seen_unchanged(void)
{
        uint64_t end = clock_mono_ms() + MS_MAX;
        const char *only = getenv("FLATTEN_SEED");
        unsigned seed = only ? (unsigned)strtoul(only, NULL, 10) : 1, last = only ? seed : SEEDS;

        for (; seed <= last && clock_mono_ms() < end; seed++) {
                bool ok = history(seed);

                if (!ok)
                        printf("# FLATTEN_SEED=%u\n", seed);
                CHECK(ok && lab_clear(&lab));
        }
        printf("# %u histories\n", seed - 1);
}

int main(void)
{
        if (lab_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", lab_reason_to_skip());
                return 0;
        }
        if (!lab_open(&lab)) {
                perror("# lab");
                return 1;
        }
        RUN(random_histories_are_seen_unchanged);
        lab_close(&lab);
        return tap_done();
}
