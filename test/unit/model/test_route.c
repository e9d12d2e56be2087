#include "model/route.h"

#include "base/auto.h"
#include "base/err.h"
#include "tap.h"

#define ID "i0123456789abcdefghij"

static void decides_by_host_and_headers(void)
{
        static const struct {
                const char *host, *id, *port;
                enum route_kind kind;
                const char *want; /* "id:port", or the refusal */
        } cases[] = {
                {"localhost:3000", "", "", ROUTE_API, NULL},
                {"LOCALHOST", "", "", ROUTE_API, NULL},
                {"127.0.0.1:3000", "", "", ROUTE_API, NULL},
                {"[::1]:3000", "", "", ROUTE_API, NULL},
                {"api.box.test", "", "", ROUTE_API, NULL},
                {"api.other.test", "abc", "1", ROUTE_API, NULL},
                {"box.test", "", "", ROUTE_API, NULL},
                {"BOX.test.:3443", "", "", ROUTE_API, NULL},
                {"localhost", "abc", "3000", ROUTE_SANDBOX, "abc:3000"},
                {"10.0.0.1:80", "abc", "3000", ROUTE_SANDBOX, "abc:3000"},
                {"[fe80::1]", "abc", "3000", ROUTE_SANDBOX, "abc:3000"},
                {"sandbox.any.test", "abc", "49983", ROUTE_SANDBOX, "abc:49983"},
                {"Sandbox.any.test", "abc", "49983", ROUTE_SANDBOX, "abc:49983"},
                {"box.test:3443", "abc", "1", ROUTE_SANDBOX, "abc:1"},
                {"3000-abc.box.test", "", "", ROUTE_SANDBOX, "abc:3000"},
                {"3000-abc.elsewhere:99", "", "", ROUTE_SANDBOX, "abc:3000"},
                {"3000-abc-6532622b.box.test", "", "", ROUTE_SANDBOX, "abc:3000"},
                {"3000-abc.box.test", "other", "1", ROUTE_SANDBOX, "abc:3000"}, /* a sandbox host wins */
                {"65535-a.b", "", "", ROUTE_SANDBOX, "a:65535"},
                {ID ".box.test", "", "", ROUTE_SANDBOX, ID ":80"}, /* without a port */
                {ID "x.box.test", "", "", ROUTE_REFUSED, "Invalid host"},
                {ID, "", "", ROUTE_REFUSED, "Invalid host"},
                {"localhost", "abc", "", ROUTE_REFUSED, "missing header"},
                {"localhost", "", "3000", ROUTE_REFUSED, "missing header"},
                {"localhost", "a-b", "3000", ROUTE_REFUSED, "Invalid sandbox ID"},
                {"localhost", "ABC", "3000", ROUTE_REFUSED, "Invalid sandbox ID"},
                {"localhost", "a/../b", "3000", ROUTE_REFUSED, "Invalid sandbox ID"},
                {"localhost", "abc", "x", ROUTE_REFUSED, "Invalid sandbox port"},
                {"localhost", "abc", "0", ROUTE_REFUSED, "Invalid sandbox port"},
                {"localhost", "abc", "65536", ROUTE_REFUSED, "Invalid sandbox port"},
                {"localhost", "abc", "-1", ROUTE_REFUSED, "Invalid sandbox port"},
                {"localhost", "abc", "80 ", ROUTE_REFUSED, "Invalid sandbox port"},
                {"localhost", "abc", "99999999999999999999999", ROUTE_REFUSED, "Invalid sandbox port"},
                {"x-abc.box.test", "", "", ROUTE_REFUSED, "Invalid sandbox port"},
                {"-abc.box.test", "", "", ROUTE_REFUSED, "Invalid sandbox port"},
                {"3000-.box.test", "", "", ROUTE_REFUSED, "Invalid sandbox ID"},
                {"3000-ABC.box.test", "", "", ROUTE_REFUSED, "Invalid sandbox ID"},
                {"3000-abc", "", "", ROUTE_REFUSED, "Invalid host"},
                {"machine", "", "", ROUTE_REFUSED, "Invalid host"},
                {"www.box.test", "", "", ROUTE_REFUSED, "Invalid host"},
                {"sandbox.box.test", "", "", ROUTE_REFUSED, "Invalid host"},
                {"", "", "", ROUTE_REFUSED, "Invalid host"},
                {".", "", "", ROUTE_REFUSED, "Invalid host"},
                {"[::1", "abc", "1", ROUTE_REFUSED, "Invalid host"},
                {"[nonsense]", "abc", "1", ROUTE_REFUSED, "Invalid host"},
                {"1.2.3", "abc", "1", ROUTE_REFUSED, "Invalid host"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                const struct route_request rq = {
                        .host = str_of(cases[i].host), .id = str_of(cases[i].id), .port = str_of(cases[i].port)};
                struct route_target to;
                char got[64] = "";

                route_decide(&rq, STR("box.test:3443"), &to);
                if (to.kind != cases[i].kind)
                        printf("# case %zu: %s\n", i, cases[i].host);
                CHECK_INT(to.kind, ==, cases[i].kind);
                if (to.kind == ROUTE_SANDBOX)
                        (void)snprintf(got, sizeof(got), "%.*s:%u", STR_ARG(to.id), to.port);
                else if (to.kind == ROUTE_REFUSED)
                        (void)snprintf(got, sizeof(got), "%s", to.message);
                if (cases[i].want)
                        CHECK_STR(got, cases[i].want);
                if (to.kind == ROUTE_REFUSED)
                        CHECK_INT(to.status, ==, 400);
        }
}

#define LOCAL "127.0.0.1:3000"
#define KEY 1u
#define TOKEN 2u

/* One address for everything: whose a request is, by what it carries. */
static void decides_by_credentials(void)
{
        static const struct {
                const char *host, *id, *port, *target;
                unsigned with;
                enum route_kind kind;
        } cases[] = {
                /* An API call that came with routing headers, from a client that sends them with everything. */
                {LOCAL, ID, "49983", "/sandboxes/" ID "/connect", KEY, ROUTE_API},
                {LOCAL, ID, "49983", "/v2/sandboxes/" ID "/connect", KEY, ROUTE_API},
                {LOCAL, ID, "49983", "/sandboxes/" ID, KEY | TOKEN, ROUTE_API},
                {LOCAL, ID, "49983", "/v2/sandboxes?state=running", KEY, ROUTE_API},
                {LOCAL, ID, "49983", "/sandboxes", KEY, ROUTE_API},
                {LOCAL, ID, "49983", "/snapshots?limit=1", KEY, ROUTE_API},
                {LOCAL, ID, "49983", "/templates/abc", KEY, ROUTE_API},
                {"sandbox.box.test", ID, "49983", "/sandboxes/" ID "/connect", KEY, ROUTE_API},
                {"box.test", "abc", "49983", "/sandboxes/" ID "/connect", KEY, ROUTE_API},
                /* The daemon's own paths stay the daemon's, whatever comes along. */
                {LOCAL, ID, "49983", "/health", KEY, ROUTE_SANDBOX},
                {LOCAL, ID, "49983", "/files?path=/sandboxes", KEY, ROUTE_SANDBOX},
                {LOCAL, ID, "49983", "/process.Process/Start", KEY | TOKEN, ROUTE_SANDBOX},
                {LOCAL, ID, "49983", "/init", KEY, ROUTE_SANDBOX},
                {LOCAL, ID, "49983", "/", KEY, ROUTE_SANDBOX},
                /* Without a key it is no API call. */
                {LOCAL, ID, "49983", "/sandboxes/" ID "/connect", TOKEN, ROUTE_SANDBOX},
                {LOCAL, ID, "49983", "/sandboxes", 0, ROUTE_SANDBOX},
                /* A user's server may have such paths, and keys of its own. */
                {LOCAL, ID, "3000", "/sandboxes", KEY, ROUTE_SANDBOX},
                {LOCAL, ID, "49999", "/sandboxes/" ID "/connect", KEY, ROUTE_SANDBOX},
                {"3000-abc.box.test", "", "", "/sandboxes", KEY, ROUTE_SANDBOX},
                {"49983-abc.box.test", "", "", "/sandboxes", KEY, ROUTE_SANDBOX},
                {"49983-abc.box.test", ID, "49983", "/sandboxes", KEY, ROUTE_SANDBOX},
                {"3000-abc.box.test", "", "", "/files", TOKEN, ROUTE_SANDBOX},
                /* A key mends no broken headers. */
                {LOCAL, ID, "", "/sandboxes", KEY, ROUTE_REFUSED},
                {LOCAL, "A-B", "49983", "/sandboxes", KEY, ROUTE_REFUSED},
                /* Nothing but a token: for the daemon of the sandbox that has it. */
                {LOCAL, "", "", "/files?path=a", TOKEN, ROUTE_TOKEN},
                {LOCAL, "", "", "/files", TOKEN, ROUTE_TOKEN},
                {LOCAL, "", "", "/health", TOKEN, ROUTE_TOKEN},
                {"localhost:3000", "", "", "/process.Process/List", TOKEN, ROUTE_TOKEN},
                {"BOX.test:3443", "", "", "/metrics", TOKEN, ROUTE_TOKEN},
                {LOCAL, "", "", "/files", TOKEN | KEY, ROUTE_API},
                {LOCAL, "", "", "/files", 0, ROUTE_API},
                {LOCAL, "", "", "/health", 0, ROUTE_API},
                {LOCAL, "", "", "/health", KEY, ROUTE_API},
                {LOCAL, "", "", "/sandboxes", TOKEN, ROUTE_API},
                {LOCAL, "", "", "/v2/sandboxes/" ID "/connect", TOKEN, ROUTE_API},
                {"api.box.test", "", "", "/files", TOKEN, ROUTE_API},
                {LOCAL, ID, "49983", "/files", TOKEN, ROUTE_SANDBOX},
                {LOCAL, ID, "", "/files", TOKEN, ROUTE_REFUSED},
                {"machine", "", "", "/files", TOKEN, ROUTE_REFUSED},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                const struct route_request rq = {.host = str_of(cases[i].host),
                                                 .id = str_of(cases[i].id),
                                                 .port = str_of(cases[i].port),
                                                 .target = str_of(cases[i].target),
                                                 .has_key = cases[i].with & KEY,
                                                 .has_token = cases[i].with & TOKEN};
                struct route_target to;

                route_decide(&rq, STR("box.test:3443"), &to);
                if (to.kind != cases[i].kind)
                        printf("# case %zu: %s %s\n", i, cases[i].host, cases[i].target);
                CHECK_INT(to.kind, ==, cases[i].kind);
                if (to.kind == ROUTE_TOKEN)
                        CHECK_INT(to.port, ==, 49983);
        }
}

static void knows_the_paths_of_the_api(void)
{
        static const char *const yes[] = {"/sandboxes",    "/sandboxes/",  "/sandboxes?x",      "/v2/sandboxes/a/b",
                                          "/v3/templates", "/templates/a", "/snapshots?limit=1"};
        static const char *const no[] = {"",
                                         "/",
                                         "sandboxes",
                                         "/sandboxesx",
                                         "/Sandboxes",
                                         "//sandboxes",
                                         "/v/sandboxes",
                                         "/v2",
                                         "/v2x/sandboxes",
                                         "/vv2/sandboxes",
                                         "/v2/v2/sandboxes",
                                         "/health",
                                         "/files?a=/sandboxes",
                                         "/x/sandboxes",
                                         "/%73andboxes",
                                         "/./sandboxes"};

        for (size_t i = 0; i < ARRAY_LEN(yes); i++)
                if (!route_is_api_path(str_of(yes[i]))) {
                        printf("# %s\n", yes[i]);
                        CHECK(false);
                }
        for (size_t i = 0; i < ARRAY_LEN(no); i++)
                if (route_is_api_path(str_of(no[i]))) {
                        printf("# %s\n", no[i]);
                        CHECK(false);
                }
}

static void finds_reserved_paths_in_every_disguise(void)
{
        static const char *const yes[] = {"/init",
                                          "//init",
                                          "/./init",
                                          "/init/",
                                          "/%69nit",
                                          "/%69%6E%69%74",
                                          "/a/../init",
                                          "/../init",
                                          "/../../init",
                                          "/a/b/../../init",
                                          "/%2finit",
                                          "/x%2f..%2finit",
                                          "/init/.",
                                          "/init/x/..",
                                          "init",
                                          "/%2e%2e/init",
                                          "/.//init//",
                                          "/init%2f",
                                          "/a/b/../../init/c/.."};
        static const char *const no[] = {"/",       "",          "/initx", "/INIT",    "/init/x",  "/a/init",
                                         "/ini",    "/%2569nit", "/init%", "/init%00", "/init%zz", "/..init",
                                         "/health", "/init/..",  "/i%6",   "/init;x",  "/ini%74x", "/files"};

        for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
                CHECK_STR(route_reserved_path(str_of(yes[i])), "/init");
        }
        for (size_t i = 0; i < ARRAY_LEN(no); i++) {
                CHECK(!route_reserved_path(str_of(no[i])));
        }
        CHECK_STR(route_reserved_path(STR("/freeze")), "/freeze");
        CHECK_STR(route_reserved_path(STR("/unfreeze")), "/unfreeze");
        CHECK_STR(route_reserved_path(STR("/collapse")), "/collapse");
        CHECK_STR(route_reserved_path(STR("/fsfreeze")), "/fsfreeze");
        CHECK_STR(route_reserved_path(STR("/fsthaw")), "/fsthaw");
        CHECK_STR(route_reserved_path(STR("/upgrade")), "/upgrade");
        CHECK_STR(route_reserved_path(STR("/sandglass/copy")), "/sandglass");
        CHECK_STR(route_reserved_path(STR("/a/../%73andglass//unpack/x")), "/sandglass");
        CHECK(!route_reserved_path(STR("/a/sandglass/copy")));
        CHECK(!route_reserved_path(STR("/sandglass/..")));
}

static void takes_an_endless_path_for_reserved(void)
{
        AUTO_FREE char *path = malloc(ROUTE_PATH_MAX + 1);

        CHECK(path);
        memset(path, '/', ROUTE_PATH_MAX + 1);
        CHECK(route_reserved_path((struct str){path, ROUTE_PATH_MAX + 1}));
        CHECK(!route_reserved_path((struct str){path, ROUTE_PATH_MAX}));
}

static void routes_survive_the_message(void)
{
        char token[] = "tok", mask[] = "h:${PORT}";
        struct route r = {.id = ID, .traffic_token = token, .mask_host = mask}, back = {0};
        json_t *msg = route_encode(&r, "running");

        CHECK(msg);
        CHECK_INT(route_decode(msg, &back, NULL), ==, 0);
        json_decref(msg);
        CHECK_STR(back.id, ID);
        CHECK(back.is_running);
        CHECK_STR(back.traffic_token, "tok");
        CHECK_STR(back.mask_host, "h:${PORT}");
        route_done(&back);

        r.traffic_token = r.mask_host = NULL;
        msg = route_encode(&r, "paused");
        CHECK_INT(route_decode(msg, &back, NULL), ==, 0);
        json_decref(msg);
        CHECK(!back.is_running && !back.resumes && !back.traffic_token && !back.mask_host);
        route_done(&back);

        r.resumes = true;
        msg = route_encode(&r, "paused");
        CHECK_INT(route_decode(msg, &back, NULL), ==, 0);
        json_decref(msg);
        CHECK(!back.is_running && back.resumes);
        route_done(&back);
        msg = route_encode(&r, "ending"); /* only what is at rest can be woken */
        CHECK_INT(route_decode(msg, &back, NULL), ==, 0);
        json_decref(msg);
        CHECK(!back.is_running && !back.resumes);
        route_done(&back);
}

static void refuses_routes_that_would_break_a_head(void)
{
        static const char *const bad[] = {
                "{\"id\":\"x\",\"state\":\"running\"}",
                "{\"id\":\"../../etc/passwd/.....\",\"state\":\"running\"}",
                "{\"id\":\"" ID "\"}",
                "{\"id\":\"" ID "\",\"state\":1}",
                "{\"id\":\"" ID "\",\"state\":\"running\",\"traffic_token\":1}",
                "{\"id\":\"" ID "\",\"state\":\"running\",\"mask_host\":\"a\\r\\nX: y\"}",
                "{\"id\":\"" ID "\",\"state\":\"running\",\"mask_host\":\"a b\"}",
                "{\"id\":\"" ID "\",\"state\":\"running\",\"traffic_token\":\"\\u0001\"}",
                "{\"id\":\"" ID "\",\"state\":\"paused\",\"resumes\":1}",
                "[]",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                json_t *msg = json_loads(bad[i], 0, NULL);
                struct route r;
                struct err err = {0};
                int e = route_decode(msg, &r, &err);

                json_decref(msg);
                if (e == 0)
                        printf("# %s\n", bad[i]);
                CHECK_INT(e, <, 0);
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
}

static void the_agent_api_is_below_its_path(void)
{
        static const struct {
                const char *host, *id, *target;
                enum route_kind kind;
        } cases[] = {
                {"localhost", "", "/api/v1/agent", ROUTE_AGENT},
                {"localhost", "", "/api/v1/agent?x=1", ROUTE_AGENT},
                {"api.box.test", "", "/api/v1/agent/sandboxes", ROUTE_AGENT},
                {"localhost", "", "/api/v1/agents", ROUTE_API},
                {"localhost", "", "/api/v1", ROUTE_API},
                {"localhost", "", "//api/v1/agent", ROUTE_API},
                {"localhost", "", "/x?/api/v1/agent/", ROUTE_API},
                {"3000-abc.box.test", "", "/api/v1/agent/sandboxes",
                 ROUTE_SANDBOX}, /* a user's own server may have it */
                {"localhost", "abc", "/api/v1/agent/sandboxes", ROUTE_SANDBOX},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                const struct route_request rq = {.host = str_of(cases[i].host),
                                                 .id = str_of(cases[i].id),
                                                 .port = str_of(cases[i].id[0] ? "3000" : ""),
                                                 .target = str_of(cases[i].target),
                                                 .has_key = true};
                struct route_target to;

                printf("# %s %s\n", cases[i].host, cases[i].target);
                route_decide(&rq, STR("box.test:3443"), &to);
                CHECK_INT(to.kind, ==, cases[i].kind);
        }
}

int main(void)
{
        RUN(decides_by_host_and_headers);
        RUN(decides_by_credentials);
        RUN(knows_the_paths_of_the_api);
        RUN(finds_reserved_paths_in_every_disguise);
        RUN(takes_an_endless_path_for_reserved);
        RUN(routes_survive_the_message);
        RUN(refuses_routes_that_would_break_a_head);
        RUN(the_agent_api_is_below_its_path);
        return tap_done();
}
