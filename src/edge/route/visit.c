#include "edge/route/visit.h"

#include <assert.h>

#include "edge/route/dial.h"
#include "edge/route/owner.h"
#include "edge/route/routes.h"

#define TO(s) (1u << (s))

static const unsigned visit_may[] = {
        [VISIT_FREE] = TO(VISIT_ROUTE) | TO(VISIT_OWNER) | TO(VISIT_SOCKET),
        [VISIT_ROUTE] = TO(VISIT_FREE),
        [VISIT_OWNER] = TO(VISIT_FREE),
        [VISIT_SOCKET] = TO(VISIT_FREE),
};

void visit_go(struct visit *v, enum visit_state next)
{
        assert(visit_may[v->state] & TO(next));
        v->state = next;
}

void visit_leave(struct visit *v)
{
        switch (v->state) {
        case VISIT_FREE: break;
        case VISIT_ROUTE: routes_forget(v); break;
        case VISIT_OWNER: owner_forget(v); break;
        case VISIT_SOCKET: dial_forget(v); break;
        }
}
