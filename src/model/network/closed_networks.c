#include "model/network/closed_networks.h"

#define NET(a, b, c, d, prefix)                                                                                        \
        {                                                                                                              \
                (uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d), prefix                                               \
        }

const struct plan_cidr closed_networks[CLOSED_NETWORKS] = {
        NET(0, 0, 0, 0, 8), /* "this host" */
        NET(10, 0, 0, 0, 8),    NET(100, 64, 0, 0, 10),  NET(127, 0, 0, 0, 8),   NET(169, 254, 0, 0, 16),
        NET(172, 16, 0, 0, 12), NET(192, 168, 0, 0, 16), NET(198, 18, 0, 0, 15), /* the sandboxes themselves */
        NET(224, 0, 0, 0, 4),   NET(240, 0, 0, 0, 4),
};

bool closed_networks_have(uint32_t addr)
{
        for (unsigned i = 0; i < CLOSED_NETWORKS; i++)
                if ((addr & UINT32_MAX << (32 - closed_networks[i].prefix)) == closed_networks[i].addr)
                        return true;
        return false;
}
