#include "envd/files/files.h"

#include <errno.h>

#include "base/clock.h"
#include "envd/rpc/answer.h"
#include "envd/rpc/auth.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/paths.h"
#include "http/server.h"

void files_query_done(struct files_query *q)
{
        free(q->path);
        free(q->username);
        free(q->signature);
        free(q->expiration);
        *q = (struct files_query){0};
}

static int files_query_decode(struct str query, struct files_query *q)
{
        int r = url_query_get(query, "path", &q->path);

        if (r == 0)
                r = url_query_get(query, "username", &q->username);
        if (r == 0)
                r = url_query_get(query, "signature", &q->signature);
        if (r == 0)
                r = url_query_get(query, "signature_expiration", &q->expiration);
        return r;
}

bool files_find_user(struct handler_context *context, struct http_request *rq, const char *username, struct user *u)
{
        bool is_named = username && username[0];
        const char *name = is_named ? username : context->settings.default_user;

        if (user_lookup(name, u) == 0)
                return true;
        if (is_named)
                answer_error(rq, 401, "error looking up user '%s': user: unknown user %s", name, name);
        else
                answer_error(rq, 401, "invalid default user: '%s'", name);
        return false;
}

bool files_admit(struct handler_context *context, struct http_request *rq, const char *operation, struct files_query *q,
                 struct user *u)
{
        struct auth_signed sig;
        const char *why;
        uint64_t exp;
        int r = files_query_decode(rq->url.query, q);

        if (r < 0) {
                answer_error(rq, r == -ENOMEM ? 503 : 400, "%s",
                             r == -ENOMEM ? "out of memory" : "invalid query: a broken escape or a NUL byte");
                return false;
        }
        if (q->expiration && parse_u64(str_of(q->expiration), 0, INT64_MAX, &exp) < 0) {
                answer_text(rq, 400, "Invalid format for parameter signature_expiration: an integer expected\n");
                return false;
        }
        sig = (struct auth_signed){q->path, q->username, q->signature, q->expiration};
        why = auth_files(&context->settings, rq->head, &sig, operation, clock_real_ms() / 1000);
        if (why) {
                answer_error(rq, 401, "%s", why);
                return false;
        }
        return files_find_user(context, rq, q->username, u);
}

bool files_resolve(struct handler_context *context, struct http_request *rq, const char *path, const struct user *u,
                   char **ret)
{
        AUTO_FAULT struct fault f = {0};

        if (path_expand(path, u, context->settings.default_workdir, ret, &f) == 0)
                return true;
        answer_error(rq, 400, "error expanding and resolving path '%s': %s", path ? path : "", fault_text(&f));
        return false;
}
