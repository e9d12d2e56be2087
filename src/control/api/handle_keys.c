/* GET /api-keys, POST /api-keys, DELETE /api-keys/{apiKeyID}: the keys of a team, for the operator.
 *
 * What changes is answered when it is on disk: a key that was shown is not lost by a power cut, and a revoked one does not
 * come back. */
#include "control/api/handlers.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/catalogue/durable.h"
#include "model/json_field.h"
#include "wire/url.h"

static const char *const kind_names[] = {
        [STORE_KEY_GIVEN] = "given", [STORE_KEY_OPERATOR] = "operator", [STORE_KEY_USER] = "user"};

/* Of a mask like "e2b_ab...9f3c". */
static json_t *show_mask(const char *mask)
{
        size_t n = strlen(mask), prefix = sizeof(KEY_PREFIX) - 1;

        if (n < prefix + 6)
                return json_null();
        return json_pack("{s:s,s:i,s:s#,s:s}", "prefix", KEY_PREFIX, "valueLength", (int)(KEY_LEN - prefix),
                         "maskedValuePrefix", mask + prefix, 2, "maskedValueSuffix", mask + n - 4);
}

static json_t *show_key(const struct api_key *key)
{
        json_t *obj = json_pack("{s:s,s:s,s:s}", "id", key->id, "name", key->name, "kind", kind_names[key->kind]);
        char time[CLOCK_TEXT_MAX];

        obj = json_with(obj, "mask", show_mask(key->mask));
        clock_format(key->created_ns, time);
        obj = json_with_text(obj, "createdAt", time);
        if (key->kind == STORE_KEY_USER)
                obj = json_with(obj, "uid", json_integer(key->uid));
        if (key->last_used_ns == 0)
                return obj;
        clock_format(key->last_used_ns, time);
        return json_with_text(obj, "lastUsed", time);
}

void handle_list_keys(struct api_exchange *x)
{
        json_t *list = json_array();

        LIST_EACH (node, &x->api->keys->all) {
                const struct api_key *key = LIST_ENTRY(node, struct api_key, node);

                if (key->team == x->team && json_array_append_new(list, show_key(key)) < 0) {
                        json_decref(list);
                        answer_error(x, 503, NULL, "out of memory");
                        return;
                }
        }
        answer_json(x, 200, list);
}

/* ---- changes ---- */

struct key_change { /* done, and waiting to be on disk */
        struct durable_waiter synced;
        struct api_exchange *x;
        json_t *answer; /* owned; NULL: 204 */
};

static void key_change_over(struct api_exchange *x, bool is_complete)
{
        struct key_change *c = x->job;

        (void)is_complete;
        durable_cancel(&c->synced);
        json_decref(c->answer);
        free(c);
        x->job = NULL;
}

static void key_change_synced(struct durable_waiter *w, int result)
{
        struct key_change *c = CONTAINER_OF(w, struct key_change, synced);

        if (result < 0)
                answer_error(c->x, 500, NULL, "the store could not be written to disk");
        else if (c->answer)
                answer_json(c->x, 201, TAKE_PTR(c->answer));
        else
                answer_empty(c->x, 204);
}

static struct key_change *key_change_begin(struct api_exchange *x)
{
        struct key_change *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->x = x;
        c->synced.on = key_change_synced;
        x->job = c;
        x->on_over = key_change_over;
        return c;
}

void handle_make_key(struct api_exchange *x)
{
        struct key_change *c;
        struct api_key *key;
        struct err err = {0};
        const char *name = "";
        char text[KEY_LEN + 1];

        if (json_field_text(x->body, "name", &name, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        if (!key_name_is_valid(str_of(name))) {
                answer_error(x, 400, NULL, "validation error: name: must have 1 to %u bytes, and no control characters",
                             KEY_NAME_MAX);
                return;
        }
        c = key_change_begin(x);
        if (!c) {
                answer_error(x, 503, NULL, "out of memory");
                return;
        }
        if (keys_make(x->api->keys, x->team, name, text, &key, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        c->answer = json_with_text(show_key(key), "key", text);
        if (!c->answer) {
                (void)keys_revoke(x->api->keys, key, &err);
                answer_error(x, 503, NULL, "out of memory");
                return;
        }
        durable_wait(x->api->durable, &c->synced);
}

void handle_revoke_key(struct api_exchange *x)
{
        AUTO_FREE char *id = NULL;
        struct key_change *c;
        struct api_key *key = NULL;
        struct err err = {0};

        if (url_decode_dup(x->segment, false, &id) == 0)
                key = keys_by_id(x->api->keys, str_of(id));
        if (!key || key->team != x->team) {
                answer_error(x, 404, NULL, "there is no such key in the team '%s'", x->team->slug);
                return;
        }
        if (strcmp(key->id, x->key_id) == 0) {
                answer_error(x, 409, NULL,
                             "this is the key that the request itself uses. To replace it: remove the file env of the "
                             "server's data directory, start the server again, then revoke this key with the new one");
                return;
        }
        c = key_change_begin(x);
        if (!c)
                answer_error(x, 503, NULL, "out of memory");
        else if (keys_revoke(x->api->keys, key, &err) < 0)
                answer_err(x, &err);
        else
                durable_wait(x->api->durable, &c->synced);
}
