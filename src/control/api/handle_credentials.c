/* /sandglass/credentials: the credentials of a team and of the user of the key that asks.  What they are is never answered.
 *
 * As with API keys, a change is answered when it is on disk. */
#include "control/api/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/catalogue/durable.h"
#include "control/credentials/credentials.h"
#include "wire/url.h"

enum asked_scope { ASKED_NONE, ASKED_TEAM, ASKED_USER };

/* false: the request is answered. */
static bool take_scope(struct api_exchange *x, enum asked_scope *ret)
{
        AUTO_FREE char *text = NULL;
        int r = url_query_get(x->rq->url.query, "scope", &text);

        *ret = ASKED_NONE;
        if (r == 0 && !text)
                return true;
        if (r == 0 && strcmp(text, "team") == 0)
                *ret = ASKED_TEAM;
        else if (r == 0 && strcmp(text, "user") == 0)
                *ret = ASKED_USER;
        else if (r == -ENOMEM)
                answer_error(x, 503, NULL, "out of memory");
        else
                answer_error(x, 400, NULL, "validation error: scope: must be team or user");
        return *ret != ASKED_NONE;
}

/* The key may have been revoked while the body came.  NULL: the request is answered. */
static const struct api_key *take_key(struct api_exchange *x)
{
        const struct api_key *key = keys_by_id(x->api->keys, str_of(x->key_id));

        if (!key)
                answer_error(x, 401, NULL, "Invalid API key.\nCannot get the team for the given API key");
        return key;
}

/* *ret_name is the caller's.  false: the request is answered. */
static bool take_name(struct api_exchange *x, char **ret_name)
{
        int r = url_decode_dup(x->segment, false, ret_name);

        if (r < 0)
                answer_error(x, r == -ENOMEM ? 503 : 400, NULL,
                             r == -ENOMEM ? "out of memory" : "validation error: the name is not percent-encoded text");
        return r == 0;
}

/* ---- reading ---- */

void handle_list_credentials(struct api_exchange *x)
{
        const struct api_key *key = take_key(x);
        struct err err = {0};
        json_t *list = NULL;

        if (!key)
                return;
        if (credentials_list(x->api->credentials, key, &list, &err) < 0)
                answer_err(x, &err);
        else
                answer_json(x, 200, list);
}

/* The last one that fits: a user's comes behind the team's, and is what a sandbox would get. */
static json_t *credential_named(const json_t *list, const char *name, enum asked_scope scope)
{
        static const char *const scopes[] = {[ASKED_TEAM] = "team", [ASKED_USER] = "user"};
        json_t *item, *found = NULL;
        size_t i;

        json_array_foreach (list, i, item)
                if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0 &&
                    (!scope || strcmp(json_string_value(json_object_get(item, "scope")), scopes[scope]) == 0))
                        found = item;
        return json_incref(found);
}

void handle_get_credential(struct api_exchange *x)
{
        const struct api_key *key = take_key(x);
        AUTO_FREE char *name = NULL;
        json_t *list = NULL, *found;
        enum asked_scope scope;
        struct err err = {0};

        if (!key || !take_scope(x, &scope) || !take_name(x, &name))
                return;
        if (credentials_list(x->api->credentials, key, &list, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        found = credential_named(list, name, scope);
        json_decref(list);
        if (found)
                answer_json(x, 200, found);
        else
                answer_error(x, 404, NULL, "there is no such credential");
}

/* ---- changes ---- */

struct credential_change { /* done, and waiting to be on disk */
        struct durable_waiter synced;
        struct api_exchange *x;
};

static void credential_change_over(struct api_exchange *x, bool is_complete)
{
        struct credential_change *c = x->job;

        (void)is_complete;
        durable_cancel(&c->synced);
        free(c);
        x->job = NULL;
}

static void credential_change_synced(struct durable_waiter *w, int result)
{
        struct credential_change *c = CONTAINER_OF(w, struct credential_change, synced);

        if (result < 0)
                answer_error(c->x, 500, NULL, "the store could not be written to disk");
        else
                answer_empty(c->x, 204);
}

static struct credential_change *credential_change_begin(struct api_exchange *x)
{
        struct credential_change *c = calloc(1, sizeof(*c));

        if (!c) {
                answer_error(x, 503, NULL, "out of memory");
                return NULL;
        }
        c->x = x;
        c->synced.on = credential_change_synced;
        x->job = c;
        x->on_over = credential_change_over;
        return c;
}

/* The text itself, or an object as text: *ret is the caller's, blanked before it is released.  false: the request is answered. */
static bool take_value(struct api_exchange *x, char **ret)
{
        const json_t *value = json_object_get(x->body, "value");

        if (!json_is_string(value) && !json_is_object(value)) {
                answer_error(x, 400, NULL, "validation error: field 'value' must be a string or an object");
                return false;
        }
        *ret = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_COMPACT);
        if (!*ret)
                answer_error(x, 503, NULL, "out of memory");
        return *ret;
}

void handle_set_credential(struct api_exchange *x)
{
        struct credential_place at = {.key = take_key(x)};
        AUTO_FREE char *name = NULL, *value = NULL;
        struct credential_change *c;
        enum asked_scope scope;
        struct err err = {0};
        int r;

        if (!at.key || !take_scope(x, &scope) || !take_name(x, &name) || !take_value(x, &value))
                return;
        at.scope = scope == ASKED_USER ? CREDENTIAL_USER : CREDENTIAL_TEAM;
        at.name = name;
        c = credential_change_begin(x);
        r = c ? credentials_set(x->api->credentials, &at, str_of(value), &err) : -ENOMEM;
        explicit_bzero(value, strlen(value));
        if (r == 0)
                durable_wait(x->api->durable, &c->synced);
        else if (c)
                answer_err(x, &err);
}

void handle_remove_credential(struct api_exchange *x)
{
        struct credential_place at = {.key = take_key(x)};
        AUTO_FREE char *name = NULL;
        struct credential_change *c;
        enum asked_scope scope;
        struct err err = {0};

        if (!at.key || !take_scope(x, &scope) || !take_name(x, &name))
                return;
        at.scope = scope == ASKED_USER ? CREDENTIAL_USER : CREDENTIAL_TEAM;
        at.name = name;
        c = credential_change_begin(x);
        if (!c)
                return;
        if (credentials_remove(x->api->credentials, &at, &err) < 0)
                answer_err(x, &err);
        else
                durable_wait(x->api->durable, &c->synced);
}
