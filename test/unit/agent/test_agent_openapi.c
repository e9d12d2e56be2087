/* What the role agent serves and what api/agent-openapi.json says are the same. */
#include <ctype.h>
#include <jansson.h>
#include <strings.h>

#include "agent/router.h"
#include "tap.h"

static json_t *doc;

static json_t *operation_of(const struct endpoint *e)
{
        char method[16];
        size_t i;

        for (i = 0; e->method[i] && i < sizeof(method) - 1; i++)
                method[i] = (char)tolower((unsigned char)e->method[i]);
        method[i] = 0;
        return json_object_get(json_object_get(json_object_get(doc, "paths"), e->pattern), method);
}

static bool has_json_body(const json_t *op)
{
        return json_object_get(json_object_get(json_object_get(op, "requestBody"), "content"), "application/json") !=
               NULL;
}

static void every_endpoint_is_described(void)
{
        size_t n;
        const struct endpoint *table = agent_endpoints(&n);

        CHECK_STR(json_string_value(json_object_get(doc, "openapi")), "3.1.0");
        for (size_t i = 0; i < n; i++) {
                json_t *op = operation_of(&table[i]), *responses = json_object_get(op, "responses");
                const json_t *security = json_object_get(op, "security");
                bool is_required = table[i].body == BODY_REQUIRED || table[i].body == BODY_SECRET;
                bool takes_json = table[i].body == BODY_OPTIONAL || is_required;

                printf("# %s %s\n", table[i].method, table[i].pattern);
                CHECK(json_is_object(op));
                CHECK(json_object_size(responses) > 0);
                CHECK_INT(table[i].access == ACCESS_OPEN, ==, security && json_array_size(security) == 0);
                CHECK_INT(table[i].access == ACCESS_KEY, ==, json_object_get(responses, "401") != NULL);
                CHECK(json_object_get(responses, "429")); /* each request counts */
                CHECK_INT(takes_json, ==, has_json_body(op));
                CHECK(!takes_json || json_object_get(responses, "413")); /* the router bounds each */
                CHECK_INT(table[i].body != BODY_NONE, ==, json_object_get(op, "requestBody") != NULL);
                CHECK_INT(is_required, ==,
                          json_is_true(json_object_get(json_object_get(op, "requestBody"), "required")));
        }
}

static bool is_served(const char *path, const char *method)
{
        size_t n;
        const struct endpoint *table = agent_endpoints(&n);

        for (size_t i = 0; i < n; i++)
                if (strcmp(table[i].pattern, path) == 0 && strcasecmp(table[i].method, method) == 0)
                        return true;
        return false;
}

static void every_description_is_served(void)
{
        const char *path, *method;
        json_t *item, *op;

        json_object_foreach (json_object_get(doc, "paths"), path, item)
                json_object_foreach (item, method, op) {
                        if (strcmp(method, "parameters") == 0)
                                continue;
                        printf("# %s %s\n", method, path);
                        CHECK(is_served(path, method));
                }
}

/* Names in braces in a path have a description each, and no two operations the same id. */
static void parameters_and_ids_are_whole(void)
{
        json_t *ids = json_object(), *item, *op, *p;
        const char *path, *method;
        size_t i;

        json_object_foreach (json_object_get(doc, "paths"), path, item) {
                size_t braces = 0, described = json_array_size(json_object_get(item, "parameters"));

                for (const char *at = path; *at; at++)
                        braces += *at == '{';
                printf("# %s\n", path);
                CHECK_INT(braces, ==, described);
                json_array_foreach (json_object_get(item, "parameters"), i, p)
                        CHECK_STR(json_string_value(json_object_get(p, "in")), "path");
                json_object_foreach (item, method, op) {
                        const char *id = json_string_value(json_object_get(op, "operationId"));

                        if (strcmp(method, "parameters") == 0)
                                continue;
                        CHECK(id && !json_object_get(ids, id));
                        (void)json_object_set_new(ids, id, json_true());
                }
        }
        json_decref(ids);
}

/* Every {"$ref":"#/a/b"} below v leads somewhere. */
static bool refs_hold(const json_t *v)
{
        const char *key, *ref;
        json_t *child;
        size_t i;

        json_array_foreach (v, i, child)
                if (!refs_hold(child))
                        return false;
        json_object_foreach ((json_t *)v, key, child) {
                if (!refs_hold(child))
                        return false;
                ref = strcmp(key, "$ref") == 0 ? json_string_value(child) : NULL;
                if (ref) {
                        struct str rest = {ref + 2, strlen(ref) - 2}, part;
                        const json_t *at = doc;
                        char name[64];

                        for (bool more = true; more && at;) {
                                more = str_cut(&rest, '/', &part);
                                (void)snprintf(name, sizeof(name), "%.*s", STR_ARG(part));
                                at = json_object_get(at, name);
                        }
                        if (!at)
                                return false;
                }
        }
        return true;
}

static void every_reference_leads_somewhere(void)
{
        CHECK(refs_hold(doc));
}

int main(void)
{
        json_error_t why;

        doc = json_load_file(API_FILE, JSON_REJECT_DUPLICATES, &why);
        if (!doc)
                printf("# %s: line %d: %s\n", API_FILE, why.line, why.text);
        RUN(every_endpoint_is_described);
        RUN(every_description_is_served);
        RUN(parameters_and_ids_are_whole);
        RUN(every_reference_leads_somewhere);
        json_decref(doc);
        return tap_done();
}
