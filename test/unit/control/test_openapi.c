/* What is served and what api/openapi.json says are the same. */
#include <ctype.h>
#include <jansson.h>

#include "control/api/router.h"
#include "model/route.h"
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

static void every_endpoint_is_described(void)
{
        size_t n;
        const struct endpoint *table = router_table(&n);

        CHECK(json_is_object(doc));
        for (size_t i = 0; i < n; i++) {
                json_t *op = operation_of(&table[i]);
                const json_t *security = json_object_get(op, "security");

                printf("# %s %s\n", table[i].method, table[i].pattern);
                CHECK(json_is_object(op));
                CHECK(json_object_size(json_object_get(op, "responses")) > 0);
                CHECK_INT(table[i].access == ACCESS_OPEN, ==, security && json_array_size(security) == 0);
                CHECK_INT(table[i].body != BODY_NONE, ==, json_object_get(op, "requestBody") != NULL);
                CHECK_INT(table[i].body == BODY_REQUIRED || table[i].body == BODY_SECRET, ==,
                          json_is_true(json_object_get(json_object_get(op, "requestBody"), "required")));
        }
}

/* The edge tells them from a daemon's by the path alone. */
static void every_endpoint_that_needs_a_key_is_the_apis_for_the_edge(void)
{
        size_t n;
        const struct endpoint *table = router_table(&n);

        for (size_t i = 0; i < n; i++) {
                printf("# %s\n", table[i].pattern);
                CHECK_INT(route_is_api_path(str_of(table[i].pattern)), ==, table[i].access != ACCESS_OPEN);
        }
}

static bool is_served(const char *path, const char *method)
{
        size_t n;
        const struct endpoint *table = router_table(&n);

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
        RUN(every_endpoint_that_needs_a_key_is_the_apis_for_the_edge);
        RUN(every_description_is_served);
        RUN(every_reference_leads_somewhere);
        json_decref(doc);
        return tap_done();
}
