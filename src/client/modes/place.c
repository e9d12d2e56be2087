#include "client/modes/place.h"

#include <limits.h>
#include <string.h>

int place_path_check(const char *path, struct sg_error *err)
{
        struct str rest = str_of(path), name;
        bool has_more = true;

        if (!rest.n || rest.n >= PATH_MAX / 2)
                return error_set(err, SG_INVALID, "a path in the workspace has 1 to %d bytes", PATH_MAX / 2 - 1);
        if (path[0] == '/')
                return error_set(err, SG_INVALID, "'%.100s' is not relative to the workspace", path);
        while (has_more) {
                has_more = str_cut(&rest, '/', &name);
                if (str_is(name, ".."))
                        return error_set(err, SG_INVALID, "'%.100s' leads out of the workspace", path);
                if (!name.n || name.n > NAME_MAX || str_is(name, "."))
                        return error_set(err, SG_INVALID, "'%.100s' is no path of a file", path);
        }
        return 0;
}

struct sg_call place_call(const struct limit *limit)
{
        return (struct sg_call){.timeout_ms = limit_left_ms(limit),
                                .cancel = limit->call->cancel,
                                .on_tick = limit->call->on_tick,
                                .tick_arg = limit->call->tick_arg,
                                .tick_ms = limit->call->tick_ms};
}
