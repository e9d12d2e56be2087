#include "control/api/template/template_path.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/catalogue/builds.h"
#include "model/build/build_names.h"
#include "wire/url.h"

int path_reference(struct api_exchange *x, struct template_ref *ret, struct err *err)
{
        AUTO_FREE char *text = NULL;
        struct err why = {0};

        if (url_decode_dup(x->segment, false, &text) < 0)
                return err_set(err, ERR_INVALID, "Invalid template reference: not well-formed");
        if (template_ref_parse(str_of(text), ret, &why) < 0)
                return err_set(err, ERR_INVALID, "Invalid template reference: %s", why.msg);
        return 0;
}

int own_template(struct api_exchange *x, const struct template_ref *ref, struct template_row **ret, struct err *err)
{
        struct template_source src;
        int r = sources_find_template(&x->api->sources, ref, x->team, &src, err);

        if (r < 0)
                return r;
        if (src.snapshot)
                return err_set(err, ERR_NOT_FOUND, "template '%.128s' not found: it is a snapshot", ref->name);
        if (!src.row)
                return err_set(err, ERR_DENIED, "template '%.128s' belongs to the server, and cannot be changed",
                               ref->name);
        if (src.row->team != x->team->no)
                return err_set(err, ERR_DENIED, "Team '%.60s' does not have access to the template '%.128s'",
                               x->team->slug, ref->name);
        *ret = src.row;
        return 0;
}

int path_template(struct api_exchange *x, struct template_row **ret, struct err *err)
{
        struct template_ref ref;
        int r = path_reference(x, &ref, err);

        return r < 0 ? r : own_template(x, &ref, ret, err);
}

int path_build(struct api_exchange *x, struct build_entry **ret, struct err *err)
{
        AUTO_FREE char *id = NULL;
        struct template_row *t;
        int r;

        if (url_decode_dup(x->segment2, false, &id) < 0 || !uuid_is_valid(id))
                return err_set(err, ERR_INVALID, "Invalid build ID");
        r = path_template(x, &t, err);
        if (r < 0)
                return r;
        for (char *p = id; *p; p++)
                if (*p >= 'A' && *p <= 'F')
                        *p = (char)(*p + 32);
        *ret = builds_find_of(t, 0, id);
        return *ret ? 0 : err_set(err, ERR_NOT_FOUND, "Build '%.40s' not found", id);
}
