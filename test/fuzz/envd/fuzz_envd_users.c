#include <errno.h>

#include "envd/rpc/users.h"
#include "fuzz.h"

/* The first line is a name to look for; then, up to an empty line, passwd; then group. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct str all = {(const char *)data, size}, name;
        const char *cut;
        struct users us;
        struct user u;
        int r;

        (void)str_cut(&all, '\n', &name);
        cut = memmem(all.p, all.n, "\n\n", 2);
        users_init(&us);
        MUST(buf_add(&us.passwd, all.p, cut ? (size_t)(cut - all.p) : all.n) == 0);
        MUST(!cut || buf_add(&us.group, cut + 2, all.n - (size_t)(cut + 2 - all.p)) == 0);
        r = users_find(&us, name, &u);
        MUST(r == 0 || r == -ENOENT);
        if (r == 0) {
                MUST(name.n && u.home[0]);
                MUST(u.uid != UINT32_MAX && u.gid != UINT32_MAX);
                MUST(u.group_count >= 1 && u.group_count <= USER_GROUPS_MAX && u.groups[0] == u.gid);
                for (size_t i = 0; i < u.group_count; i++)
                        for (size_t k = 0; k < i; k++)
                                MUST(u.groups[i] != u.groups[k]);
                (void)users_name(&us, u.uid);
                (void)users_group_name(&us, u.gid);
                user_done(&u);
        }
        users_done(&us);
        return 0;
}
