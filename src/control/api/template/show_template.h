/* show_template.h - how templates and builds look in answers.  All return new references. */
#pragma once
#include <jansson.h>

struct api;
struct build;
struct team;
struct template;
struct template_row;

json_t *show_names(const struct api *api, const struct template_row *t);   /* ["team/alias", "alias"?, other names] */
json_t *show_aliases(const struct api *api, const struct template_row *t); /* ["alias", other names] */
json_t *show_template(const struct api *api,
                      const struct template_row *t);                    /* an entry of a list; NULL: it has no build */
json_t *show_manifest(const struct api *api, const struct template *t); /* the same for a template of the server */
json_t *show_template_head(const struct api *api, const struct template_row *t); /* answer of get, without its builds */
json_t *show_build(const struct build *b);                                       /* in the answer of get */
