#include "agent/request/services.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "model/json_field.h"

/* ---- reading ---- */

static bool name_is_valid(struct str s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '_'))
                        return false;
        return s.n > 0 && s.n < SERVICE_NAME_MAX;
}

/* An absolute path, of a file or in a URL: printable, so that it can be part of either. */
static bool path_is_valid(struct str s)
{
        for (size_t i = 0; i < s.n; i++)
                if ((unsigned char)s.p[i] <= ' ' || (unsigned char)s.p[i] >= 0x7f)
                        return false;
        return s.n > 0 && s.n < SERVICE_PATH_MAX && s.p[0] == '/';
}

static int take_path(const json_t *obj, const char *name, char out[SERVICE_PATH_MAX], struct err *err)
{
        const char *text = NULL;
        int r = json_field_text(obj, name, &text, err);

        if (r < 0 || !text)
                return r;
        if (!path_is_valid((struct str){text, json_string_length(json_object_get(obj, name))}))
                return err_set(err, ERR_INVALID, "'%s' must be an absolute path without blanks", name);
        memcpy(out, text, strlen(text) + 1);
        return 0;
}

static int take_goes(const json_t *obj, struct service *s, struct err *err)
{
        const char *text = "bearer";
        int r = json_field_text(obj, "token_goes", &text, err);

        if (r < 0)
                return r;
        if (strcmp(text, "bearer") != 0 && strcmp(text, "tkn") != 0)
                return err_set(err, ERR_INVALID, "'token_goes' must be bearer or tkn");
        s->token_goes = !s->token_file[0] ? TOKEN_NOWHERE : text[0] == 'b' ? TOKEN_AS_BEARER : TOKEN_AS_TKN;
        return 0;
}

static int service_decode(const json_t *obj, struct service *s, struct err *err)
{
        const char *name = NULL;
        int64_t port = 0;
        int r;

        *s = (struct service){.path = "/"};
        if (!json_is_object(obj))
                return err_set(err, ERR_INVALID, "a service must be an object");
        if ((r = json_field_text(obj, "name", &name, err)) < 0 ||
            (r = json_field_int(obj, "port", 1, 65535, &port, err)) < 0 ||
            (r = take_path(obj, "path", s->path, err)) < 0 ||
            (r = take_path(obj, "token_file", s->token_file, err)) < 0 || (r = take_goes(obj, s, err)) < 0)
                return r;
        if (!name || !name_is_valid((struct str){name, json_string_length(json_object_get(obj, "name"))}))
                return err_set(err, ERR_INVALID, "'name' must be 1 to %d of a-z, 0-9 and _", SERVICE_NAME_MAX - 1);
        if (!port)
                return err_set(err, ERR_INVALID, "'port' is missing");
        memcpy(s->name, name, strlen(name) + 1);
        s->port = (uint16_t)port;
        return 0;
}

int services_decode(const json_t *file, struct services *ret, struct err *err)
{
        json_t *list = NULL, *one;
        size_t i;
        int r;

        ret->count = 0;
        if (!json_is_object(file))
                return err_set(err, ERR_INVALID, "it must be a JSON object");
        r = json_field_array(file, "services", &list, err);
        if (r < 0)
                return r;
        if (json_array_size(list) > SERVICES_MAX)
                return err_set(err, ERR_INVALID, "more than %d services", SERVICES_MAX);
        json_array_foreach (list, i, one) {
                r = service_decode(one, &ret->all[i], err);
                if (r < 0)
                        return r;
        }
        ret->count = json_array_size(list);
        return 0;
}

void services_make_tokens(struct services *s)
{
        for (size_t i = 0; i < s->count; i++)
                if (s->all[i].token_file[0])
                        random_id(s->all[i].token, SERVICE_TOKEN_LEN);
}

/* ---- showing ---- */

static json_t *service_url(const struct service *s, const char *id, const char *domain)
{
        bool has_query = strchr(s->path, '?');

        if (s->token_goes == TOKEN_AS_TKN && s->token[0])
                return json_sprintf("https://%u-%s.%s%s%stkn=%s", s->port, id, domain, s->path, has_query ? "&" : "?",
                                    s->token);
        return json_sprintf("https://%u-%s.%s%s", s->port, id, domain, s->path);
}

static json_t *service_show(const struct service *s, const char *id, const char *domain)
{
        json_t *obj = json_pack("{s:s,s:i,s:o}", "name", s->name, "port", s->port, "url", service_url(s, id, domain));

        return json_with_text(obj, "token", s->token[0] ? s->token : NULL);
}

/* The two that clients know by name. */
static json_t *service_show_named(json_t *obj, const struct service *s, const char *id, const char *domain)
{
        if (strcmp(s->name, "mcp_server") == 0) {
                obj = json_with(obj, "mcp_url", service_url(s, id, domain));
                return json_with_text(obj, "mcp_token", s->token[0] ? s->token : NULL);
        }
        if (strcmp(s->name, "code_server") == 0 && (s->token[0] || !s->token_file[0]))
                return json_with(obj, "code_url", service_url(s, id, domain));
        return obj;
}

json_t *services_show(json_t *obj, const struct services *s, const char *id, const char *domain)
{
        json_t *ports = json_object(), *list = json_array();
        bool is_whole = true;

        for (size_t i = 0; i < s->count; i++) {
                is_whole = is_whole && json_object_set_new(ports, s->all[i].name, json_integer(s->all[i].port)) == 0 &&
                           json_array_append_new(list, service_show(&s->all[i], id, domain)) == 0;
                obj = service_show_named(obj, &s->all[i], id, domain);
        }
        obj = json_with(obj, "ports", is_whole ? ports : (json_decref(ports), NULL));
        if (s->count)
                return json_with(obj, "services", is_whole ? list : (json_decref(list), NULL));
        json_decref(list);
        return obj;
}
