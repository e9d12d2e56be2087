#include "control/routes/route_server.h"

#include "control/life/lives.h"
#include "control/routes/sandbox_route.h"
#include "control/routes/signature_owners.h"
#include "control/routes/traffic_resume.h"

static json_t *route_server_find(const char *id, void *arg)
{
        struct route_server *rs = arg;
        struct life *l = lives_find(rs->lives, id);

        return l && sandbox_is_visible(&l->sandbox) ? sandbox_route_encode(rs->tokens, &l->sandbox) : NULL;
}

static const char *route_server_find_signature(const char *query, const char *operation, void *arg)
{
        struct route_server *rs = arg;

        return signature_owner(rs->lives, rs->tokens, query, operation);
}

static const char *route_server_find_token(struct str token, void *arg)
{
        struct route_server *rs = arg;

        return token_owner(rs->lives, rs->tokens, token);
}

static void route_server_resume(struct edge_resume *w, const json_t *msg, void *arg)
{
        traffic_resume_begin(arg, w, msg);
}

static void route_server_forget_resume(struct edge_resume *w, void *arg)
{
        (void)arg;
        traffic_resume_forget(w);
}

void route_server_init(struct route_server *rs, struct loop *loop, const struct conf *conf, struct lives *lives,
                       const struct tokens *tokens)
{
        static const struct route_feed_ops ops = {
                .find = route_server_find,
                .find_signature = route_server_find_signature,
                .find_token = route_server_find_token,
                .resume = route_server_resume,
                .forget_resume = route_server_forget_resume,
        };

        *rs = (struct route_server){.loop = loop, .conf = conf, .lives = lives, .tokens = tokens};
        route_feed_init(&rs->feed, loop, &ops, rs);
}

void route_server_done(struct route_server *rs)
{
        route_feed_done(&rs->feed);
}

void route_server_tell_changed(struct route_server *rs, const struct sandbox *s)
{
        route_feed_tell_changed(&rs->feed, sandbox_route_encode(rs->tokens, s));
}

void route_server_tell_gone(struct route_server *rs, const char *id)
{
        route_feed_tell_gone(&rs->feed, id);
}
