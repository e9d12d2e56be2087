/* show.h - how a sandbox looks from outside: in answers, and in the edges' tables.  All return new references. */
#pragma once
#include <jansson.h>

struct control;
struct sandbox;
struct snapshot;

json_t *show_sandbox(const struct control *c, const struct sandbox *s); /* answer of create and connect */
json_t *show_listed(const struct sandbox *s);                           /* an entry of a list */
json_t *show_detail(const struct control *c, const struct sandbox *s);  /* answer of get */
json_t *show_route(const struct control *c, const struct sandbox *s);   /* what an edge must know */
json_t *show_snapshot(const char *slug, const struct snapshot *sn);     /* answer of snapshot, an entry of a list */
