#include "model/route.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "model/json_field.h"

/* Host names are compared without case; a final dot means the same name. */
static struct str host_name(struct str host)
{
        struct str name;

        if (host.n && host.p[0] == '[') {
                const char *end = memchr(host.p, ']', host.n);

                return end ? (struct str){host.p, (size_t)(end - host.p) + 1} : (struct str){host.p, 0};
        }
        (void)str_cut(&host, ':', &name);
        if (name.n && name.p[name.n - 1] == '.')
                name.n--;
        return name;
}

static bool starts_without_case(struct str s, struct str prefix)
{
        return s.n >= prefix.n && str_ieq((struct str){s.p, prefix.n}, prefix);
}

static bool is_ip_literal(struct str name)
{
        struct in6_addr addr; /* room for both */
        char text[INET6_ADDRSTRLEN];
        bool is_v6 = name.n >= 2 && name.p[0] == '[';

        if (is_v6)
                name = (struct str){name.p + 1, name.n - 2};
        if (name.n == 0 || name.n >= sizeof(text) || str_has_nul(name))
                return false;
        memcpy(text, name.p, name.n);
        text[name.n] = 0;
        return inet_pton(is_v6 ? AF_INET6 : AF_INET, text, &addr) == 1;
}

static bool is_lower_alnum(struct str s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9')))
                        return false;
        return s.n > 0;
}

static void route_refuse(struct route_target *ret, const char *message)
{
        *ret = (struct route_target){.kind = ROUTE_REFUSED, .status = 400, .message = message};
}

static void to_sandbox(struct str port_text, struct str id, struct route_target *ret)
{
        uint32_t port;

        if (parse_u32(port_text, 1, 65535, &port) < 0) {
                route_refuse(ret, "Invalid sandbox port");
                return;
        }
        if (!is_lower_alnum(id)) {
                route_refuse(ret, "Invalid sandbox ID");
                return;
        }
        *ret = (struct route_target){.kind = ROUTE_SANDBOX, .id = id, .port = (uint16_t)port};
}

/* "<port>-<id>.<domain>"; an older form has "-<client>" behind the id; "<id>.<domain>" is port 80.  The domain is not checked. */
static void by_host(struct str name, struct route_target *ret)
{
        struct str label, port, id;

        if (!str_cut(&name, '.', &label)) {
                route_refuse(ret, "Invalid host");
                return;
        }
        if (sandbox_id_is_valid(label)) {
                to_sandbox(STR("80"), label, ret);
                return;
        }
        if (!str_cut(&label, '-', &port)) {
                route_refuse(ret, "Invalid host");
                return;
        }
        (void)str_cut(&label, '-', &id);
        to_sandbox(port, id, ret);
}

/* "v2", "v3": in front of a path. */
static bool is_version(struct str segment)
{
        uint32_t number;

        return segment.n > 1 && segment.p[0] == 'v' &&
               parse_u32((struct str){segment.p + 1, segment.n - 1}, 1, 99, &number) == 0;
}

bool route_is_api_path(struct str target)
{
        static const char *const families[] = {"sandboxes", "snapshots", "templates", "sandglass", "api-keys"};
        struct str path, first, rest;

        (void)str_cut(&target, '?', &path);
        if (path.n == 0 || path.p[0] != '/')
                return false;
        rest = (struct str){path.p + 1, path.n - 1};
        (void)str_cut(&rest, '/', &first);
        if (is_version(first))
                (void)str_cut(&rest, '/', &first);
        for (size_t i = 0; i < ARRAY_LEN(families); i++)
                if (str_is(first, families[i]))
                        return true;
        return false;
}

bool route_is_agent_path(struct str target)
{
        static const struct str base = {AGENT_PATH, sizeof(AGENT_PATH) - 1};
        struct str path;

        (void)str_cut(&target, '?', &path);
        return str_eq(path, base) ||
               (path.n > base.n && str_eq((struct str){path.p, base.n}, base) && path.p[base.n] == '/');
}

/* The host is one that the API and the sandboxes share, and there are routing headers. */
static void by_headers(const struct route_request *rq, struct route_target *ret)
{
        if (!rq->id.n || !rq->port.n) {
                route_refuse(ret, "missing header");
                return;
        }
        to_sandbox(rq->port, rq->id, ret);
        if (ret->kind == ROUTE_SANDBOX && ret->port == ENVD_PORT && rq->has_key && route_is_api_path(rq->target))
                *ret = (struct route_target){.kind = ROUTE_API};
}

void route_decide(const struct route_request *rq, struct str domain, struct route_target *ret)
{
        struct str name = host_name(rq->host), own = host_name(domain);
        bool is_plain = str_iis(name, "localhost") || (own.n && str_ieq(name, own)) || is_ip_literal(name);

        if ((is_plain || starts_without_case(name, STR("sandbox."))) && (rq->id.n || rq->port.n))
                by_headers(rq, ret);
        else if (is_plain && rq->has_token && !rq->has_key && !route_is_api_path(rq->target))
                *ret = (struct route_target){.kind = ROUTE_TOKEN, .port = ENVD_PORT};
        else if (is_plain || starts_without_case(name, STR("api.")))
                *ret = (struct route_target){.kind = route_is_agent_path(rq->target) ? ROUTE_AGENT : ROUTE_API};
        else
                by_host(name, ret);
}

/* Percent-decoded into out (as large as s); a broken escape stays as it is. */
static size_t decode_path(struct str s, char *out)
{
        size_t n = 0;

        for (size_t i = 0; i < s.n; i++) {
                int hi = s.p[i] == '%' && i + 2 < s.n ? hex_value(s.p[i + 1]) : -1;
                int lo = hi >= 0 ? hex_value(s.p[i + 2]) : -1;

                if (lo >= 0) {
                        out[n++] = (char)(hi << 4 | lo);
                        i += 2;
                } else {
                        out[n++] = s.p[i];
                }
        }
        return n;
}

/* The first segment that is left of a path without its empty, "." and ".." ones, and how many there are.  Read from the
 * end, so that ".." needs a count only. */
static struct str first_segment(struct str path, size_t *ret_count)
{
        struct str found = {"", 0};
        size_t up = 0, end = path.n;

        *ret_count = 0;
        while (end > 0) {
                size_t start = end;
                struct str seg;

                while (start > 0 && path.p[start - 1] != '/')
                        start--;
                seg = (struct str){path.p + start, end - start};
                end = start ? start - 1 : 0;
                if (seg.n == 0 || str_is(seg, "."))
                        continue;
                if (str_is(seg, "..")) {
                        up++;
                } else if (up > 0) {
                        up--;
                } else {
                        found = seg;
                        ++*ret_count;
                }
        }
        return found;
}

const char *route_reserved_path(struct str path)
{
        static const char *const reserved[] = {"/init",     "/freeze", "/unfreeze", "/collapse",
                                               "/fsfreeze", "/fsthaw", "/upgrade"};
        static const char below[] = "/sandglass"; /* with all paths below it: calls of the builder */
        char decoded[ROUTE_PATH_MAX];
        struct str seg;
        size_t count;

        if (path.n > sizeof(decoded))
                return reserved[0];
        seg = first_segment((struct str){decoded, decode_path(path, decoded)}, &count);
        for (size_t i = 0; count == 1 && i < ARRAY_LEN(reserved); i++)
                if (str_is(seg, reserved[i] + 1))
                        return reserved[i];
        return str_is(seg, below + 1) ? below : NULL;
}

json_t *route_encode(const struct route *r, const char *state)
{
        json_t *msg = json_pack("{s:s, s:s, s:I}", "id", r->id, "state", state, "at", (json_int_t)r->at_us);

        if (r->resumes)
                msg = json_with(msg, "resumes", json_true());
        msg = json_with_text(msg, "traffic_token", r->traffic_token);
        return json_with_text(msg, "mask_host", r->mask_host);
}

static int decode_text(const json_t *msg, const char *field, char **ret, struct err *err)
{
        const json_t *v = json_object_get(msg, field);
        size_t n;

        *ret = NULL;
        if (!v || json_is_null(v))
                return 0;
        if (!json_is_string(v))
                return err_set(err, ERR_INVALID, "route: %s is not text", field);
        n = json_string_length(v);
        if (n == 0)
                return 0;
        if (n > ROUTE_TEXT_MAX)
                return err_set(err, ERR_INVALID, "route: %s is too long", field);
        for (size_t i = 0; i < n; i++) /* both become header values */
                if ((unsigned char)json_string_value(v)[i] <= ' ' || (unsigned char)json_string_value(v)[i] >= 0x7f)
                        return err_set(err, ERR_INVALID, "route: %s has an illegal character", field);
        *ret = str_dup((struct str){json_string_value(v), n});
        return *ret ? 0 : err_set(err, ERR_INTERNAL, "out of memory");
}

int route_decode(const json_t *msg, struct route *ret, struct err *err)
{
        const char *id = json_string_value(json_object_get(msg, "id"));
        const char *state = json_string_value(json_object_get(msg, "state"));
        const json_t *resumes = json_object_get(msg, "resumes"), *at = json_object_get(msg, "at");
        struct route r = {0};
        int e;

        if (!id || !sandbox_id_is_valid(str_of(id)))
                return err_set(err, ERR_INVALID, "route: id is not a sandbox id");
        if (!state)
                return err_set(err, ERR_INVALID, "route: state is not text");
        if (resumes && !json_is_boolean(resumes) && !json_is_null(resumes))
                return err_set(err, ERR_INVALID, "route: resumes is not true or false");
        if (at && (!json_is_integer(at) || json_integer_value(at) < 0))
                return err_set(err, ERR_INVALID, "route: at is not a time");
        memcpy(r.id, id, SANDBOX_ID_MAX);
        r.at_us = (uint64_t)json_integer_value(at);
        r.is_running = strcmp(state, "running") == 0;
        r.resumes = strcmp(state, "paused") == 0 && json_is_true(resumes);
        e = decode_text(msg, "traffic_token", &r.traffic_token, err);
        if (e == 0)
                e = decode_text(msg, "mask_host", &r.mask_host, err);
        if (e < 0) {
                route_done(&r);
                return e;
        }
        *ret = r;
        return 0;
}

void route_done(struct route *r)
{
        free(r->traffic_token);
        free(r->mask_host);
        *r = (struct route){0};
}
