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
        {"astraDb",
         "{'astraDbApplicationToken':'k','endpoint':'https://x'}",
         {"ASTRA_DB_APPLICATION_TOKEN=k", "ASTRA_DB_API_ENDPOINT=https://x"}},
        {"awsKbRetrievalServer",
         "{'accessKeyId':'k','awsSecretAccessKey':'s','awsRegion':'r'}",
         {"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s", "AWS_REGION=r"}},
        {"azure", "{}", {"SANDGLASS_ARGUMENTS=server start"}},
        {"brave", "{'apiKey':'k'}", {"BRAVE_API_KEY=k"}},
        {"browserbase",
         "{'apiKey':'k','geminiApiKey':'g','projectId':'p'}",
         {"BROWSERBASE_API_KEY=k", "GEMINI_API_KEY=g", "BROWSERBASE_PROJECT_ID=p"}},
        {"circleci", "{'token':'k','url':'https://x'}", {"CIRCLECI_TOKEN=k", "CIRCLECI_BASE_URL=https://x"}},
        {"cloudRun", "{'credentialsPath':'/c'}", {"GOOGLE_APPLICATION_CREDENTIALS=/c"}},
        {"context7", "{'apiKey':'k'}", {"CONTEXT7_API_KEY=k"}},
        {"dart", "{'token':'k'}", {"DART_TOKEN=k"}},
        {"databaseServer", "{'databaseUrl':'sqlite:///x'}", {"DSN=sqlite:///x"}},
        {"desktopCommander", "{'paths':['/x']}", {"SANDGLASS_ARGUMENTS="}},
        {"dynatrace",
         "{'url':'https://x','oauthClientId':'i','oauthClientSecret':'s'}",
         {"DT_ENVIRONMENT=https://x", "OAUTH_CLIENT_ID=i", "OAUTH_CLIENT_SECRET=s"}},
        {"elasticsearch", "{'esApiKey':'k','url':'https://x'}", {"ES_API_KEY=k", "ES_URL=https://x"}},
        {"everart", "{'apiKey':'k'}", {"EVERART_API_KEY=k"}},
        {"everything", "{}", {"SANDGLASS_PROGRAM=mcp-server-everything"}},
        {"exa", "{'apiKey':'k'}", {"EXA_API_KEY=k"}},
        {"filesystem", "{'paths':['/x','/it\\u0027s']}", {"SANDGLASS_ARGUMENTS='/x' '/it'\\''s'"}},
        {"firecrawl", "{'apiKey':'k','url':'https://x'}", {"FIRECRAWL_API_KEY=k", "FIRECRAWL_API_URL=https://x"}},
        {"github", "{'personalAccessToken':'k'}", {"GITHUB_PERSONAL_ACCESS_TOKEN=k"}},
        {"gitlab",
         "{'personalAccessToken':'k','url':'https://x'}",
         {"GITLAB_PERSONAL_ACCESS_TOKEN=k", "GITLAB_API_URL=https://x"}},
        {"glif",
         "{'apiToken':'k','ids':'1,2','ignoredSaved':true}",
         {"GLIF_API_TOKEN=k", "GLIF_IDS=1,2", "IGNORE_SAVED_GLIFS=true"}},
        {"googleMaps", "{'googleMapsApiKey':'k'}", {"GOOGLE_MAPS_API_KEY=k"}},
        {"heroku", "{'apiKey':'k'}", {"HEROKU_API_KEY=k"}},
        {"hostinger", "{'apitoken':'k'}", {"HOSTINGER_API_TOKEN=k"}},
        {"hubspot", "{'apiKey':'k'}", {"PRIVATE_APP_ACCESS_TOKEN=k"}},
        {"hyperbrowser", "{'apiKey':'k'}", {"HYPERBROWSER_API_KEY=k"}},
        {"kubernetes", "{'configPath':'/k'}", {"KUBECONFIG=/k"}},
        {"lara", "{'keyId':'k','accessKeySecret':'s'}", {"LARA_ACCESS_KEY_ID=k", "LARA_ACCESS_KEY_SECRET=s"}},
        {"line", "{'channelAccessToken':'k','userId':'u'}", {"CHANNEL_ACCESS_TOKEN=k", "DESTINATION_USER_ID=u"}},
        {"mapbox", "{'accessToken':'k'}", {"MAPBOX_ACCESS_TOKEN=k"}},
        {"mapboxDevkit", "{'mapboxAccessToken':'k'}", {"MAPBOX_ACCESS_TOKEN=k"}},
        {"memory", "{}", {"SANDGLASS_ARGUMENTS="}},
        {"mongodb", "{'mdbMcpConnectionString':'m'}", {"MDB_MCP_CONNECTION_STRING=m"}},
        {"neon", "{'apiKey':'k'}", {"SANDGLASS_ARGUMENTS=start 'k'"}},
        {"nextDevtools", "{}", {"SANDGLASS_PROGRAM=next-devtools-mcp"}},
        {"notion", "{'internalIntegrationToken':'k'}", {"NOTION_TOKEN=k"}},
        {"openbnbAirbnb", "{}", {"SANDGLASS_PROGRAM=mcp-server-airbnb"}},
        {"opik",
         "{'apiKey':'k','apiBaseUrl':'https://x','workspaceName':'w'}",
         {"OPIK_API_KEY=k", "OPIK_API_BASE_URL=https://x", "OPIK_WORKSPACE_NAME=w"}},
        {"perplexityAsk", "{'perplexityApiKey':'k'}", {"PERPLEXITY_API_KEY=k"}},
        {"playwright", "{'data':'/x'}", {"SANDGLASS_ARGUMENTS="}},
        {"postman", "{'apiKey':'k'}", {"POSTMAN_API_KEY=k"}},
        {"puppeteer", "{}", {"SANDGLASS_PROGRAM=mcp-server-puppeteer"}},
        {"ref", "{'apiKey':'k'}", {"REF_API_KEY=k"}},
        {"resend",
         "{'apiKey':'k','sender':'a@x','replyTo':'b@x'}",
         {"RESEND_API_KEY=k", "SENDER_EMAIL_ADDRESS=a@x", "REPLY_TO_EMAIL_ADDRESSES=b@x"}},
        {"sentry", "{'authToken':'k'}", {"SENTRY_ACCESS_TOKEN=k"}},
        {"sequentialthinking", "{}", {"SANDGLASS_PROGRAM=mcp-server-sequential-thinking"}},
        {"slack",
         "{'botToken':'k','teamId':'t','channelIds':'c'}",
         {"SLACK_BOT_TOKEN=k", "SLACK_TEAM_ID=t", "SLACK_CHANNEL_IDS=c"}},
        {"smartbear",
         "{'apiHubApiKey':'h','bugsnagApiKey':'b','bugsnagAuthToken':'t','pactBrokerBaseUrl':'p','reflectApiToken':'r'"
         "}",
         {"SWAGGER_API_KEY=h", "BUGSNAG_PROJECT_API_KEY=b", "BUGSNAG_AUTH_TOKEN=t", "PACT_BROKER_BASE_URL=p",
          "REFLECT_API_TOKEN=r"}},
        {"stripe", "{'secretKey':'k'}", {"STRIPE_SECRET_KEY=k"}},
        {"supabase", "{'accessToken':'k'}", {"SUPABASE_ACCESS_TOKEN=k"}},
        {"supadata", "{'apiKey':'k'}", {"SUPADATA_API_KEY=k"}},
        {"tavily", "{'apiKey':'k'}", {"TAVILY_API_KEY=k"}},
        {"telnyx", "{'apiKey':'k'}", {"TELNYX_API_KEY=k"}},
        {"tigris",
         "{'awsAccessKeyId':'k','awsSecretAccessKey':'s','awsEndpointUrlS3':'https://x'}",
         {"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s", "AWS_ENDPOINT_URL_S3=https://x",
          "SANDGLASS_ARGUMENTS=run"}},
        {"webflow", "{'token':'k'}", {"WEBFLOW_TOKEN=k"}},
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
