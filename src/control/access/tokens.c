#include "control/access/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"

static int token_of_checkpoint_load(const char *checkpoint, const char *token, void *arg)
{
        struct tokens *t = arg;

        return json_object_set_new(t->of_checkpoints, checkpoint, json_string(token)) < 0 ? -ENOMEM : 0;
}

int tokens_load(struct tokens *t, struct store *store, struct err *err)
{
        int r;

        *t = (struct tokens){.store = store, .of_checkpoints = json_object()};
        r = store_seed(store, t->seed, err);
        return r < 0 ? r : store_image_token_each(store, token_of_checkpoint_load, t, err);
}

void tokens_done(struct tokens *t)
{
        json_decref(t->of_checkpoints);
        *t = (struct tokens){0};
}

static void token_derive(const struct tokens *t, const char *text, char out[TOKEN_MAX])
{
        uint8_t mac[SHA256_LEN];

        hmac_sha256((struct str){(const char *)t->seed, STORE_SEED_LEN}, text, strlen(text), mac);
        hex_encode(mac, sizeof(mac), out);
}

void token_envd(const struct tokens *t, const char *sandbox_id, char out[TOKEN_MAX])
{
        token_derive(t, sandbox_id, out);
}

void token_traffic(const struct tokens *t, const char *sandbox_id, char out[TOKEN_MAX])
{
        char text[64];

        (void)snprintf(text, sizeof(text), "sandbox-traffic-%.40s", sandbox_id);
        token_derive(t, text, out);
}

void token_upload(const struct tokens *t, const char *text, char out[TOKEN_MAX])
{
        char whole[192];

        (void)snprintf(whole, sizeof(whole), "upload-%.150s", text);
        token_derive(t, whole, out);
}

void token_user_key(const struct tokens *t, const char *id, uint8_t out[SHA256_LEN])
{
        char text[64];

        (void)snprintf(text, sizeof(text), "user-key-%.40s", id);
        hmac_sha256((struct str){(const char *)t->seed, STORE_SEED_LEN}, text, strlen(text), out);
}

const char *token_of_checkpoint(const struct tokens *t, const char *checkpoint)
{
        return json_string_value(json_object_get(t->of_checkpoints, checkpoint));
}

int token_of_checkpoint_add(struct tokens *t, const char *checkpoint, const char *token, struct err *err)
{
        int r = store_image_token_add(t->store, checkpoint, token, err);

        if (r == 0 && json_object_set_new(t->of_checkpoints, checkpoint, json_string(token)) < 0)
                r = err_sys(err, -ENOMEM, "token of checkpoint %s", checkpoint);
        return r;
}

void token_of_checkpoint_remove(struct tokens *t, const char *checkpoint)
{
        struct err err;

        if (json_object_del(t->of_checkpoints, checkpoint) == 0 &&
            store_image_token_remove(t->store, checkpoint, &err) < 0)
                log_warn("store.remove", "image_token=%s failed=\"%s\"", checkpoint, err.msg);
}
