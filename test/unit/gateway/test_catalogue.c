/* The servers of the catalogue: the variables and arguments that each package reads, as its own pages say. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"
#include "gateway/catalogue.h"
#include "test/lib/tap.h"

/* A configuration with the fields that the client's type has.  Each text of `has` is a variable of the program; SANDGLASS_ARGUMENTS are its
 * arguments, as bash reads them. */
static const struct {
        const char *name, *config, *has[6];
} cases[] = {
        {"airtable", "{'airtableApiKey':'k','nodeenv':'production'}", {"AIRTABLE_API_KEY=k", "NODE_ENV=production"}},
        {"apify", "{'apifyToken':'k','tools':'a,b'}", {"APIFY_TOKEN=k", "TOOLS=a,b"}},
        {"azure", "{}", {"SANDGLASS_ARGUMENTS=server start"}},
        {"brave", "{'apiKey':'k'}", {"BRAVE_API_KEY=k"}},
        {"circleci", "{'token':'k','url':'https://x'}", {"CIRCLECI_TOKEN=k", "CIRCLECI_BASE_URL=https://x"}},
        {"context7", "{'apiKey':'k'}", {"CONTEXT7_API_KEY=k"}},
        {"databaseServer", "{'databaseUrl':'sqlite:///x'}", {"DSN=sqlite:///x"}},
        {"desktopCommander", "{'paths':['/x']}", {"SANDGLASS_ARGUMENTS="}},
        {"elasticsearch", "{'esApiKey':'k','url':'https://x'}", {"ES_API_KEY=k", "ES_URL=https://x"}},
        {"everything", "{}", {"SANDGLASS_PROGRAM=mcp-server-everything"}},
        {"exa", "{'apiKey':'k'}", {"EXA_API_KEY=k"}},
        {"filesystem", "{'paths':['/x','/it\\u0027s']}", {"SANDGLASS_ARGUMENTS='/x' '/it'\\''s'"}},
        {"firecrawl", "{'apiKey':'k','url':'https://x'}", {"FIRECRAWL_API_KEY=k", "FIRECRAWL_API_URL=https://x"}},
        {"googleMaps", "{'googleMapsApiKey':'k'}", {"GOOGLE_MAPS_API_KEY=k"}},
        {"heroku", "{'apiKey':'k'}", {"HEROKU_API_KEY=k"}},
        {"hubspot", "{'apiKey':'k'}", {"PRIVATE_APP_ACCESS_TOKEN=k"}},
        {"hyperbrowser", "{'apiKey':'k'}", {"HYPERBROWSER_API_KEY=k"}},
        {"kubernetes", "{'configPath':'/k'}", {"KUBECONFIG=/k"}},
        {"mapbox", "{'accessToken':'k'}", {"MAPBOX_ACCESS_TOKEN=k"}},
        {"memory", "{}", {"SANDGLASS_ARGUMENTS="}},
        {"mongodb", "{'mdbMcpConnectionString':'m'}", {"MDB_MCP_CONNECTION_STRING=m"}},
        {"neon", "{'apiKey':'k'}", {"SANDGLASS_ARGUMENTS=start 'k'"}},
        {"notion", "{'internalIntegrationToken':'k'}", {"NOTION_TOKEN=k"}},
        {"perplexityAsk", "{'perplexityApiKey':'k'}", {"PERPLEXITY_API_KEY=k"}},
        {"playwright", "{'data':'/x'}", {"SANDGLASS_ARGUMENTS="}},
        {"puppeteer", "{}", {"SANDGLASS_PROGRAM=mcp-server-puppeteer"}},
        {"sentry", "{'authToken':'k'}", {"SENTRY_ACCESS_TOKEN=k"}},
        {"sequentialthinking", "{}", {"SANDGLASS_PROGRAM=mcp-server-sequential-thinking"}},
        {"slack",
         "{'botToken':'k','teamId':'t','channelIds':'c'}",
         {"SLACK_BOT_TOKEN=k", "SLACK_TEAM_ID=t", "SLACK_CHANNEL_IDS=c"}},
        {"stripe", "{'secretKey':'k'}", {"STRIPE_SECRET_KEY=k"}},
        {"supabase", "{'accessToken':'k'}", {"SUPABASE_ACCESS_TOKEN=k"}},
        {"tavily", "{'apiKey':'k'}", {"TAVILY_API_KEY=k"}},
};

/* JSON with single quotes, for the sake of the reader. */
static json_t *parse(const char *text)
{
        char copy[512];

        (void)snprintf(copy, sizeof(copy), "%s", text);
        for (char *p = copy; *p; p++)
                if (*p == '\'')
                        *p = '"';
        return json_loads(copy, 0, NULL);
}

static bool has_variable(const struct launch *l, const char *wanted)
{
        for (char **e = l->env; *e; e++)
                if (strcmp(*e, wanted) == 0)
                        return true;
        printf("# %s is missing\n", wanted);
        return false;
}

static void every_server_gets_what_its_package_reads(void)
{
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                json_t *config = parse(cases[i].config);
                struct launch l = {0};
                struct err err = {0};
                int r = catalogue_launch(cases[i].name, config, "/dir", "https://github.com", &l, &err);
                bool is_right = r == 0;

                for (size_t k = 0; k < ARRAY_LEN(cases[i].has) && cases[i].has[k] && r == 0; k++)
                        is_right = has_variable(&l, cases[i].has[k]) && is_right;
                json_decref(config);
                launch_done(&l);
                if (!is_right)
                        printf("# %s %s\n", cases[i].name, err.msg);
                CHECK(is_right);
        }
}

static void every_server_is_in_this_test(void)
{
        AUTO_BUF struct buf names = BUF_INIT(64u << 10);
        struct str rest, name;
        size_t at = 0;

        catalogue_names(&names);
        rest = str_of(buf_cstr(&names));
        while (rest.n) {
                (void)str_cut(&rest, ',', &name);
                if (str_starts(name, " "))
                        name = (struct str){name.p + 1, name.n - 1};
                CHECK(at < ARRAY_LEN(cases));
                CHECK(str_is(name, cases[at++].name));
        }
        CHECK_INT(at, ==, ARRAY_LEN(cases));
}

static void what_is_no_text_is_refused(void)
{
        json_t *config = parse("{'paths':['/x',7]}");
        struct launch l = {0};
        struct err err = {0};

        CHECK_INT(catalogue_launch("filesystem", config, "/dir", "https://github.com", &l, &err), <, 0);
        CHECK_STR(err.msg, "paths must be a list of texts");
        json_decref(config);
}

int main(void)
{
        RUN(every_server_gets_what_its_package_reads);
        RUN(every_server_is_in_this_test);
        RUN(what_is_no_text_is_refused);
        return tap_done();
}
