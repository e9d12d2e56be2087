/* show.h - how sandboxes and snapshots look in answers.  All return new references. */
#pragma once
#include <jansson.h>

struct api;
struct sandbox;
struct snapshot;

json_t *show_sandbox(const struct api *api, const struct sandbox *s); /* answer of create and connect */
json_t *show_listed(const struct sandbox *s);                         /* an entry of a list */
json_t *show_detail(const struct api *api, const struct sandbox *s);  /* answer of get */
json_t *show_snapshot(const char *slug, const struct snapshot *sn);   /* answer of snapshot, an entry of a list */
