#include "envd/rpc/users.h"

#include <errno.h>
#include <fcntl.h>

void user_done(struct user *u)
{
        free(u->name);
        free(u->home);
        *u = (struct user){0};
}

void users_init(struct users *us)
{
        buf_init(&us->passwd, USERS_FILE_MAX);
        buf_init(&us->group, USERS_FILE_MAX);
}

void users_done(struct users *us)
{
        buf_done(&us->passwd);
        buf_done(&us->group);
}

static int users_load_file(const char *path, struct buf *out)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        ssize_t n;

        buf_reset(out);
        if (fd < 0)
                return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
        do {
                n = buf_fill(out, fd, 4096);
        } while (n > 0);
        return (int)n;
}

int users_load(struct users *us)
{
        int r = users_load_file("/etc/passwd", &us->passwd);

        return r < 0 ? r : users_load_file("/etc/group", &us->group);
}

struct users_line {
        struct str field[7];
        size_t count;
};

/* The next line of *text, cut at colons; empty lines, comments and NIS marks are passed over.  false at the end. */
static bool users_next_line(struct str *text, struct users_line *ret)
{
        struct str line;

        while (text->n) {
                (void)str_cut(text, '\n', &line);
                if (line.n == 0 || line.p[0] == '#' || line.p[0] == '+' || line.p[0] == '-')
                        continue;
                *ret = (struct users_line){0};
                while (ret->count < 6 && str_cut(&line, ':', &ret->field[ret->count]))
                        ret->count++;
                if (ret->count == 6)
                        ret->field[6] = line; /* the shell: whatever is left */
                ret->count++;
                return true;
        }
        return false;
}

static struct str users_text(const struct buf *b)
{
        return (struct str){(const char *)buf_at(b), b->len};
}

/* passwd: name:password:uid:gid:gecos:home:shell (the shell may be missing) */
static bool parse_passwd(const struct users_line *rec, uint32_t *ret_uid, uint32_t *ret_gid)
{
        return rec->count >= 6 && rec->field[0].n && !str_has_nul(rec->field[0]) && !str_has_nul(rec->field[5]) &&
               parse_u32(rec->field[2], 0, UINT32_MAX - 1, ret_uid) == 0 &&
               parse_u32(rec->field[3], 0, UINT32_MAX - 1, ret_gid) == 0;
}

static bool is_member(struct str members, struct str name)
{
        struct str one;

        while (members.n) {
                (void)str_cut(&members, ',', &one);
                if (str_eq(one, name))
                        return true;
        }
        return false;
}

static void user_add_group(struct user *u, gid_t gid)
{
        for (size_t i = 0; i < u->group_count; i++)
                if (u->groups[i] == gid)
                        return;
        if (u->group_count < USER_GROUPS_MAX)
                u->groups[u->group_count++] = gid;
}

static void user_find_groups(const struct users *us, struct user *u)
{
        struct str text = users_text(&us->group);
        struct users_line rec;
        uint32_t gid;

        user_add_group(u, u->gid);
        while (users_next_line(&text, &rec)) /* group: name:password:gid:members */
                if (rec.count >= 4 && parse_u32(rec.field[2], 0, UINT32_MAX - 1, &gid) == 0 &&
                    is_member(rec.field[3], str_of(u->name)))
                        user_add_group(u, gid);
}

int users_find(const struct users *us, struct str name, struct user *ret)
{
        struct str text = users_text(&us->passwd);
        struct users_line rec;
        uint32_t uid, gid;

        while (users_next_line(&text, &rec)) {
                if (!str_eq(rec.field[0], name) || !parse_passwd(&rec, &uid, &gid))
                        continue;
                *ret = (struct user){.name = str_dup(rec.field[0]), .uid = uid, .gid = gid};
                ret->home = str_dup(rec.field[5].n ? rec.field[5] : STR("/"));
                if (!ret->name || !ret->home) {
                        user_done(ret);
                        return -ENOMEM;
                }
                user_find_groups(us, ret);
                return 0;
        }
        return -ENOENT;
}

static struct str name_of_id(const struct buf *file, uint32_t id)
{
        struct str text = users_text(file);
        struct users_line rec;
        uint32_t at;

        while (users_next_line(&text, &rec))
                if (rec.count >= 3 && parse_u32(rec.field[2], 0, UINT32_MAX - 1, &at) == 0 && at == id)
                        return rec.field[0];
        return STR("");
}

struct str users_name(const struct users *us, uid_t uid)
{
        return name_of_id(&us->passwd, uid);
}

struct str users_group_name(const struct users *us, gid_t gid)
{
        return name_of_id(&us->group, gid);
}

int users_group_id(const struct users *us, struct str name, gid_t *ret)
{
        struct str text = users_text(&us->group);
        struct users_line rec;
        uint32_t gid;

        while (users_next_line(&text, &rec))
                if (rec.count >= 3 && str_eq(rec.field[0], name) &&
                    parse_u32(rec.field[2], 0, UINT32_MAX - 1, &gid) == 0) {
                        *ret = gid;
                        return 0;
                }
        return -ENOENT;
}

int user_lookup(const char *name, struct user *ret)
{
        AUTO_USERS struct users us;
        int r;

        users_init(&us);
        r = users_load(&us);
        return r < 0 ? r : users_find(&us, str_of(name), ret);
}
