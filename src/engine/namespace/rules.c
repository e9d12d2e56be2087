#include "engine/namespace/rules.h"

#include "base/err.h"
#include "base/log.h"
#include "engine/namespace/namespaces.h"
#include "engine/net/firewall.h"

static bool has_own_rules(const struct plan_net *n)
{
        return !n->internet || n->allow_count > 0 || n->deny_count > 0;
}

int rules_set(struct guest *g, struct plan_net *net, struct err *err)
{
        struct namespaces *n = g->engine->namespaces;
        struct namespace_guest *ng = namespace_of(g);
        bool wanted = has_own_rules(net);
        int r;

        if (!n->firewall && wanted && (net->allow_count > 0 || net->deny_count > 0))
                return err_set(err, ERR_UNAVAILABLE, "network rules cannot be enforced on this host: %s",
                               n->firewall_why);
        if (!n->firewall && !wanted)
                log_warn("sandbox.offline", "sandbox=%s reason=\"%s\"", g->record.id, n->firewall_why);
        if (n->firewall && (wanted || ng->has_rules)) {
                r = firewall_replace(n->firewall, guest_slot(g), ng->has_rules ? &g->record.net : NULL, net, err);
                if (r < 0)
                        return r;
                ng->has_rules = wanted;
        }
        plan_net_done(&g->record.net);
        g->record.net = *net;
        *net = (struct plan_net){0};
        return 0;
}

void rules_remove(struct guest *g)
{
        struct namespace_guest *ng = namespace_of(g);
        struct err err = {0};

        if (ng->has_rules &&
            firewall_replace(g->engine->namespaces->firewall, guest_slot(g), &g->record.net, NULL, &err) < 0)
                log_error("firewall.stale", "sandbox=%s error=\"%s\"", g->record.id, err.msg);
        ng->has_rules = false;
}
