#include "engine/host/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/host/cgroups.h"
#include "engine/host/run_dir.h"
#include "sys/fs.h"

#define NOTE "engine.json"
#define IDENTITY_LEN 24
#define UID_FIRST 0x40000000u
#define BLOCK_SLOTS 128u
#define BLOCKS_MAX 96u /* 12288 ranges, up to 0x6fffffff */
#define PREDECESSOR_WAIT_S 5u
#define ADDRESS_FIRST 0xc6120000u /* 198.18.0.0/15, set aside for tests between networks: on no one's LAN */

struct note { /* what a data directory remembers */
        char identity[IDENTITY_LEN + 1];
        unsigned number; /* INSTANCES_MAX: none yet */
};

static void set_name(struct instance *in, unsigned number)
{
        in->number = number;
        (void)snprintf(in->name, sizeof(in->name), "sandglass-%u", number);
}

void instance_link_name(const struct instance *in, unsigned slot, char out[INSTANCE_LINK_MAX])
{
        (void)snprintf(out, INSTANCE_LINK_MAX, "sg%u-%u", in->number, slot);
}

uint32_t instance_address(const struct instance *in, unsigned slot)
{
        return ADDRESS_FIRST + in->number * SLOTS_MAX + slot;
}

/* ------------------------------------------------------------- the note in the data directory */

static void read_note(int data_dir, struct note *n)
{
        char text[256];
        const char *identity;
        json_int_t number;
        json_t *obj;

        random_id(n->identity, IDENTITY_LEN);
        n->number = INSTANCES_MAX;
        if (sys_read_at(data_dir, NOTE, text, sizeof(text)) < 0)
                return;
        obj = json_loads(text, 0, NULL);
        identity = json_string_value(json_object_get(obj, "identity"));
        number = json_integer_value(json_object_get(obj, "instance"));
        if (identity && strlen(identity) == IDENTITY_LEN && number >= 0 && number < INSTANCES_MAX) {
                memcpy(n->identity, identity, IDENTITY_LEN);
                n->number = (unsigned)number;
        }
        json_decref(obj);
}

static int write_note(int data_dir, const struct note *n)
{
        char text[128], old[256];
        json_t *obj = json_pack("{s:s,s:i}", "identity", n->identity, "instance", (int)n->number);
        size_t len = json_dumpb(obj, text, sizeof(text), JSON_COMPACT);
        ssize_t have = sys_read_at(data_dir, NOTE, old, sizeof(old));
        int r;

        json_decref(obj);
        if (len == 0 || len > sizeof(text))
                return -ENOMEM;
        if (have == (ssize_t)len && memcmp(old, text, len) == 0)
                return 0;
        r = sys_replace_at(data_dir, NOTE, text, len, 0600);
        return sys_is_full(r) && have > 0 ? sys_overwrite_at(data_dir, NOTE, text, len, ' ') : r;
}

/* ------------------------------------------------------------- the lock */

static void on_alarm(int signo)
{
        (void)signo; /* only there to interrupt flock() */
}

/* The predecessor of the same data directory was killed a moment ago and is still being torn down. */
static int wait_for_lock(int fd)
{
        struct sigaction sa = {.sa_handler = on_alarm}, old;
        int r;

        (void)sigaction(SIGALRM, &sa, &old);
        (void)alarm(PREDECESSOR_WAIT_S);
        r = flock(fd, LOCK_EX) < 0 ? -errno : 0;
        (void)alarm(0);
        (void)sigaction(SIGALRM, &old, NULL);
        return r == -EINTR ? -EBUSY : r;
}

static bool is_held_for(int fd, const char *identity)
{
        char text[IDENTITY_LEN + 1] = "";
        ssize_t n = pread(fd, text, IDENTITY_LEN, 0);

        return n == IDENTITY_LEN && memcmp(text, identity, IDENTITY_LEN) == 0;
}

/* -EBUSY: someone else's.  Else the locked fd. */
static int try_number(int run, unsigned number, const char *identity)
{
        AUTO_CLOSE int fd = -1;
        struct instance named;
        struct stat st;
        char file[32];
        int r;

        (void)snprintf(file, sizeof(file), "instance-%u", number);
        fd = sys_open_beneath(run, file, O_RDWR | O_CREAT, 0600);
        if (fd < 0)
                return fd;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                r = is_held_for(fd, identity) ? wait_for_lock(fd) : -EBUSY;
                if (r < 0)
                        return r;
        }
        set_name(&named, number);
        if (!is_held_for(fd, identity)) {
                if (fstat(fd, &st) < 0)
                        return -errno;
                if (st.st_size > 0 && cgroups_is_used(named.name))
                        return -EBUSY; /* its engine is gone, its sandboxes are not */
                if (pwrite(fd, identity, IDENTITY_LEN, 0) != IDENTITY_LEN || ftruncate(fd, IDENTITY_LEN) < 0)
                        return -EIO;
        }
        return TAKE_FD(fd);
}

static int take_some_number(int run, struct note *n)
{
        unsigned preferred = n->number;
        int fd = -EBUSY;

        if (preferred < INSTANCES_MAX)
                fd = try_number(run, preferred, n->identity);
        for (unsigned i = 0; i < INSTANCES_MAX && fd == -EBUSY; i++) {
                if (i == preferred)
                        continue;
                fd = try_number(run, i, n->identity);
                n->number = i;
        }
        return fd;
}

int instance_take(int data_dir, struct instance *ret, struct err *err)
{
        AUTO_CLOSE int run = run_dir_open();
        struct instance in = {.lock = -1};
        struct note n;
        int r;

        if (run < 0)
                return err_sys(err, run, "open " RUN_DIR);
        read_note(data_dir, &n);
        in.lock = take_some_number(run, &n);
        if (in.lock == -EBUSY)
                return err_set(err, ERR_LIMIT, "all %u instance numbers of this machine are taken", INSTANCES_MAX);
        if (in.lock < 0)
                return err_sys(err, in.lock, "take an instance number in " RUN_DIR);
        r = write_note(data_dir, &n);
        if (r < 0) {
                close_fd(&in.lock);
                return err_sys(err, r, "write " NOTE);
        }
        set_name(&in, n.number);
        *ret = in;
        return 0;
}

void instance_done(struct instance *in)
{
        close_fd(&in->lock);
}

/* ------------------------------------------------------------- uid blocks */

struct uid_table { /* the file: for each block whose it is and which of its blocks */
        struct {
                uint8_t owner; /* instance + 1; 0: free */
                uint8_t index;
        } block[BLOCKS_MAX];
};

static int lock_table(struct uid_table *t)
{
        AUTO_CLOSE int run = run_dir_open(), fd = -1;

        if (run < 0)
                return run;
        fd = sys_open_beneath(run, "uids", O_RDWR | O_CREAT, 0600);
        if (fd < 0)
                return fd;
        if (flock(fd, LOCK_EX) < 0) /* held for microseconds by anyone */
                return -errno;
        memset(t, 0, sizeof(*t));
        if (pread(fd, t, sizeof(*t), 0) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static int store_table(int fd, const struct uid_table *t)
{
        return pwrite(fd, t, sizeof(*t), 0) == (ssize_t)sizeof(*t) ? 0 : -EIO;
}

/* Is there no engine of that number and no sandbox it left running? */
static bool is_idle(unsigned number)
{
        AUTO_CLOSE int run = run_dir_open(), fd = -1;
        struct instance named;
        char file[32];

        (void)snprintf(file, sizeof(file), "instance-%u", number);
        fd = run < 0 ? -1 : sys_open_beneath(run, file, O_RDWR, 0);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
                return false;
        set_name(&named, number);
        return !cgroups_is_used(named.name);
}

static int find_block(struct uid_table *t, unsigned number, unsigned index)
{
        for (unsigned i = 0; i < BLOCKS_MAX; i++)
                if (t->block[i].owner == number + 1 && t->block[i].index == index)
                        return (int)i;
        for (unsigned i = 0; i < BLOCKS_MAX; i++)
                if (t->block[i].owner == 0)
                        return (int)i;
        for (unsigned i = 0; i < BLOCKS_MAX; i++)
                if (t->block[i].owner != number + 1 && is_idle(t->block[i].owner - 1u))
                        return (int)i;
        return -ENOSPC;
}

static int take_block(unsigned number, unsigned index)
{
        struct uid_table t;
        AUTO_CLOSE int fd = lock_table(&t);
        int at, r;

        if (fd < 0)
                return fd;
        at = find_block(&t, number, index);
        if (at < 0)
                return at;
        t.block[at].owner = (uint8_t)(number + 1);
        t.block[at].index = (uint8_t)index;
        r = store_table(fd, &t);
        return r < 0 ? r : at;
}

int instance_uid_base(struct instance *in, unsigned slot, uint32_t *ret, struct err *err)
{
        unsigned index = slot / BLOCK_SLOTS;

        if (in->uid_block[index] == 0) {
                int at = take_block(in->number, index);

                if (at == -ENOSPC)
                        return err_set(err, ERR_LIMIT, "all uid ranges of this machine are taken");
                if (at < 0)
                        return err_sys(err, at, "take uid ranges in " RUN_DIR);
                in->uid_block[index] = (uint8_t)(at + 1);
        }
        *ret = UID_FIRST + ((in->uid_block[index] - 1u) * BLOCK_SLOTS + slot % BLOCK_SLOTS) * UID_RANGE;
        return 0;
}

void instance_give_up(struct instance *in)
{
        struct uid_table t;
        AUTO_CLOSE int fd = lock_table(&t);

        if (fd >= 0) {
                for (unsigned i = 0; i < BLOCKS_MAX; i++)
                        if (t.block[i].owner == in->number + 1)
                                t.block[i].owner = 0;
                (void)store_table(fd, &t); /* else they are found idle later */
        }
        if (ftruncate(in->lock, 0) < 0)
                log_warn("instance.noted", "number=%u error=\"%s\"", in->number, strerror(errno));
        instance_done(in);
}
