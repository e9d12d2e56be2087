/* template_path.h - the templates and builds that the path of a request names. */
#pragma once
#include "control/catalogue/sources.h"

struct api_exchange;
struct build_entry;
struct err;
struct template_row;

/* The reference in the path: id, alias or namespace/alias, with or without a tag, as one encoded segment. */
int path_reference(struct api_exchange *x, struct template_ref *ret, struct err *err);
/* The template that a reference means, if it was built, and by the team itself.  ERR_NOT_FOUND, ERR_DENIED. */
int own_template(struct api_exchange *x, const struct template_ref *ref, struct template_row **ret, struct err *err);
/* Both together. */
int path_template(struct api_exchange *x, struct template_row **ret, struct err *err);
/* The template and the build of /templates/{templateID}/builds/{buildID}. */
int path_build(struct api_exchange *x, struct build_entry **ret, struct err *err);
