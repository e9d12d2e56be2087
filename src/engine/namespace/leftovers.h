/* leftovers.h - slots with cgroups that no living sandbox owns: what a crash or the end of an engine leaves behind. */
#pragma once
#include <stdbool.h>

struct cgroups;
struct namespaces;

/* At start: end what runs in them, and have the slot cleaner clean them. */
void leftovers_return(struct namespaces *n);
/* At the end of the engine: the same at once; and the parent and the filter, if no sandbox is left. */
void leftovers_remove(struct namespaces *n);

/* End and remove every slot's cgroups but those `keep` (may be NULL) wants, waiting a few seconds at most.  Number that
 * is left. */
unsigned leftovers_clear(const struct cgroups *c, bool (*keep)(unsigned slot, void *arg), void *arg);
