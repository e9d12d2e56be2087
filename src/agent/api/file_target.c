#include "agent/api/file_target.h"

#include <errno.h>
#include <string.h>

#include "agent/exchange/exchange.h"
#include "base/err.h"
#include "wire/url.h"

int file_user_decode(const struct exchange *x, char **ret_user, struct err *err)
{
        int r = exchange_query(x, "user", ret_user, err);

        if (r == 0 && *ret_user && (!**ret_user || strchr(*ret_user, ':') || !str_is_utf8(str_of(*ret_user))))
                return err_set(err, ERR_INVALID, "parameter 'user' is no name of a user");
        return r;
}

int file_query_decode(const struct exchange *x, char **ret_path, char **ret_user, struct err *err)
{
        int r;

        if ((r = exchange_query(x, "path", ret_path, err)) < 0 || (r = file_user_decode(x, ret_user, err)) < 0)
                return r;
        if (!*ret_path || !**ret_path)
                return err_set(err, ERR_INVALID, "parameter 'path' is required");
        return str_is_utf8(str_of(*ret_path)) ? 0 : err_set(err, ERR_INVALID, "parameter 'path' is no UTF-8");
}

int file_target(const char *begin, const char *path, const char *user_name, const char *user, struct buf *out)
{
        int r = buf_addc(out, begin);

        if (r == 0)
                r = url_encode(str_of(path), out);
        if (r == 0 && user)
                r = buf_addf(out, "&%s=", user_name);
        if (r == 0 && user)
                r = url_encode(str_of(user), out);
        return r < 0 ? r : buf_cstr(out) ? 0 : -ENOMEM;
}
