/* closed_networks.h - networks that no sandbox reaches, whatever its rules say.  The firewall enforces it. */
#pragma once
#include <stdbool.h>

#include "model/plan.h"

#define CLOSED_NETWORKS 10u

extern const struct plan_cidr closed_networks[CLOSED_NETWORKS];

bool closed_networks_have(uint32_t addr); /* host byte order */
