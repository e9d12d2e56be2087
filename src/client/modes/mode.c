/* Names of modes. */
#include <string.h>

#include "base/str.h"
#include "client/error.h"
#include "sandglass-modes.h"

static const char *const names[] = {
        [SG_MODE_LOCAL] = "local",
        [SG_MODE_E2B] = "e2b",
        [SG_MODE_HYBRID] = "hybrid",
};

static enum sg_mode find(const char *name) /* SG_MODE_BY_ENVIRONMENT: there is none of this name */
{
        for (size_t i = SG_MODE_LOCAL; i < ARRAY_LEN(names); i++)
                if (str_iis(str_of(name), names[i]))
                        return (enum sg_mode)i;
        return SG_MODE_BY_ENVIRONMENT;
}

const char *sg_mode_name(enum sg_mode mode)
{
        return (size_t)mode < ARRAY_LEN(names) && names[mode] ? names[mode] : "unknown";
}

enum sg_mode sg_mode_from_name(const char *name)
{
        enum sg_mode mode = find(name);

        return mode == SG_MODE_BY_ENVIRONMENT ? SG_MODE_LOCAL : mode;
}

int sg_mode_parse(const char *name, enum sg_mode *ret, struct sg_error *err)
{
        enum sg_mode mode = find(name);

        if (mode == SG_MODE_BY_ENVIRONMENT)
                return error_set(err, SG_INVALID, "mode '%.40s': must be local, e2b or hybrid", name ? name : "");
        *ret = mode;
        return 0;
}
