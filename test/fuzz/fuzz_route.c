/* The edge's decisions: never a sandbox with an illegal id or port, and reserved paths found whatever they look like. */
#include "fuzz.h"
#include "model/route.h"

static bool is_lower_alnum(struct str s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789", s.p[i]) || !s.p[i])
                        return false;
        return s.n > 0;
}

static bool is_same(const struct route_target *a, const struct route_target *b)
{
        return a->kind == b->kind && a->port == b->port && (a->kind != ROUTE_SANDBOX || str_eq(a->id, b->id));
}

/* Host, routing headers, target, and credentials (k: a key, t: a token), one on each line. */
static void decide(struct str s)
{
        struct route_request rq = {0}, bare;
        struct route_target to, by_host, again;

        (void)str_cut(&s, '\n', &rq.host);
        (void)str_cut(&s, '\n', &rq.id);
        (void)str_cut(&s, '\n', &rq.port);
        (void)str_cut(&s, '\n', &rq.target);
        rq.has_key = s.n && memchr(s.p, 'k', s.n);
        rq.has_token = s.n && memchr(s.p, 't', s.n);
        route_decide(&rq, STR("box.test:3443"), &to);
        switch (to.kind) {
        case ROUTE_API: break;
        case ROUTE_AGENT: MUST(route_is_agent_path(rq.target)); break;
        case ROUTE_SANDBOX: MUST(to.port > 0 && is_lower_alnum(to.id)); break;
        case ROUTE_TOKEN:
                MUST(to.port == ENVD_PORT && rq.has_token && !rq.has_key && !rq.id.n && !rq.port.n);
                MUST(!route_is_api_path(rq.target));
                break;
        case ROUTE_REFUSED: MUST(to.status == 400 && to.message && *to.message); break;
        }
        /* Without routing headers nothing but the host counts, and a sandbox's host wins over whatever else there is. */
        bare = (struct route_request){.host = rq.host, .target = rq.target};
        route_decide(&bare, STR("box.test:3443"), &by_host);
        MUST(by_host.kind != ROUTE_TOKEN);
        MUST(by_host.kind != ROUTE_SANDBOX || memchr(rq.host.p, '-', rq.host.n) || by_host.port == 80);
        MUST(by_host.kind != ROUTE_SANDBOX || is_same(&to, &by_host));
        /* A key turns nothing away from a sandbox but the API's paths from the daemon's port. */
        bare = rq;
        bare.has_key = false;
        route_decide(&bare, STR("box.test:3443"), &again);
        if (again.kind == ROUTE_SANDBOX && !is_same(&to, &again))
                MUST(to.kind == ROUTE_API && again.port == ENVD_PORT && rq.has_key && route_is_api_path(rq.target));
}

static int digit(char c)
{
        const char *at = c ? strchr("0123456789abcdef0123456789ABCDEF", c) : NULL;

        return at ? (int)((at - "0123456789abcdef0123456789ABCDEF") % 16) : -1;
}

/* The plain way: decode into a copy, then build the cleaned path segment by segment. */
static size_t clean(struct str s, char *out)
{
        AUTO_FREE char *plain = malloc(s.n + 1);
        size_t n = 0, len = 0;
        struct str left, seg;

        MUST(plain);
        for (size_t i = 0; i < s.n; i++) {
                if (s.p[i] == '%' && i + 2 < s.n && digit(s.p[i + 1]) >= 0 && digit(s.p[i + 2]) >= 0) {
                        plain[n++] = (char)(digit(s.p[i + 1]) * 16 + digit(s.p[i + 2]));
                        i += 2;
                } else {
                        plain[n++] = s.p[i];
                }
        }
        left = (struct str){plain, n};
        while (left.n) {
                (void)str_cut(&left, '/', &seg);
                if (seg.n == 0 || str_is(seg, "."))
                        continue;
                if (str_is(seg, "..")) {
                        while (len && out[--len] != '/')
                                ;
                        continue;
                }
                out[len++] = '/';
                memcpy(out + len, seg.p, seg.n);
                len += seg.n;
        }
        return len;
}

static void reserved(struct str s)
{
        static const char *const names[] = {"/init",     "/freeze", "/unfreeze", "/collapse",
                                            "/fsfreeze", "/fsthaw", "/upgrade"};
        AUTO_FREE char *out = malloc(s.n + 2);
        const char *got = route_reserved_path(s);
        bool found = false;
        size_t n;

        MUST(out);
        n = clean(s, out);
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (str_is((struct str){out, n}, names[i])) {
                        found = true;
                        MUST(got && strcmp(got, names[i]) == 0);
                }
        if (str_starts((struct str){out, n}, "/sandglass") && (n == 10 || out[10] == '/')) {
                found = true;
                MUST(got && strcmp(got, "/sandglass") == 0);
        }
        MUST(found || !got || s.n > ROUTE_PATH_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct str s = {(const char *)copy, size};

        decide(s);
        reserved(s);
        return 0;
}
