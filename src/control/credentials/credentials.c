#include "control/credentials/credentials.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/access/keys.h"
#include "model/credential/credential.h"
#include "model/json_field.h"
#include "store/credentials.h"
#include "store/store.h"

#define OWNER_MAX (sizeof("key:") + UUID_MAX)
#define PLACE_MAX 256
#define KEY_FILE_MAX 4096
#define PUT_BACK                                                                                                       \
        "put the file secret-key back into the server's data directory as it was, and start the server again; or set " \
        "the credential again"

/* ---- whose ---- */

static void owner_of(const struct api_key *key, enum credential_scope scope, char out[OWNER_MAX])
{
        out[0] = 0;
        if (scope == CREDENTIAL_TEAM)
                return;
        switch (key->kind) {
        case STORE_KEY_GIVEN: (void)snprintf(out, OWNER_MAX, "key:%s", key->id); break; /* as in the schema's trigger */
        case STORE_KEY_OPERATOR: (void)snprintf(out, OWNER_MAX, "operator"); break;
        case STORE_KEY_USER: (void)snprintf(out, OWNER_MAX, "uid:%u", key->uid); break;
        }
}

/* What a box is bound to: parts that have no NUL themselves, each with its NUL. */
static struct str bound_to(const char *team_id, const char *owner, const char *name, char out[PLACE_MAX])
{
        int n = snprintf(out, PLACE_MAX, "credential%c%s%c%s%c%s%c", 0, team_id, 0, owner, 0, name, 0);

        return (struct str){out, n > 0 && n < PLACE_MAX ? (size_t)n : 0};
}

static struct str bound_row(const struct credentials *c, const struct store_credential *row, char out[PLACE_MAX])
{
        const struct team *team = keys_team(c->keys, row->team);

        return bound_to(team ? team->id : "", row->owner, row->name, out);
}

/* ---- opening one; a secret is in memory of exactly its size ---- */

struct secret {
        char *p; /* owned */
        size_t n;
};

static void secret_done(struct secret *s)
{
        if (s->p)
                explicit_bzero(s->p, s->n);
        free(s->p);
        *s = (struct secret){0};
}

static int open_row(const struct credentials *c, const struct store_credential *row, struct secret *ret,
                    struct err *err)
{
        AUTO(secret_done) struct secret s = {0};
        char place[PLACE_MAX];
        int r;

        if (secret_box_key(&c->secret, row->sealed) == SECRET_BOX_UNKNOWN)
                return err_set(err, ERR_UNAVAILABLE, "the credential '%s' is encrypted with another key: " PUT_BACK,
                               row->name);
        s.n = row->sealed.n - SECRET_BOX_EXTRA;
        s.p = malloc(s.n + 1);
        if (!s.p)
                return err_set(err, ERR_LIMIT, "out of memory");
        s.p[s.n] = 0;
        r = secret_box_open(&c->secret, bound_row(c, row, place), row->sealed, (uint8_t *)s.p);
        if (r == -EBADMSG)
                return err_set(err, ERR_UNAVAILABLE,
                               "the credential '%s' is damaged in the server's store: set it again", row->name);
        if (r < 0)
                return err_sys(err, r, "decrypt the credential '%s'", row->name);
        *ret = s;
        s = (struct secret){0};
        return 0;
}

/* *ret is the caller's; it has value.n + SECRET_BOX_EXTRA bytes. */
static int seal_row(const struct credentials *c, const struct store_credential *row, struct str value, uint8_t **ret,
                    struct err *err)
{
        AUTO_FREE uint8_t *sealed = malloc(value.n + SECRET_BOX_EXTRA);
        char place[PLACE_MAX];
        int r;

        if (!sealed)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = secret_box_seal(&c->secret, bound_row(c, row, place), value, sealed);
        if (r < 0)
                return err_sys(err, r, "encrypt the credential '%s'", row->name);
        *ret = TAKE_PTR(sealed);
        return 0;
}

static int put_row(const struct credentials *c, const struct store_credential *row, struct str value, struct err *err)
{
        AUTO_FREE uint8_t *sealed = NULL;
        struct store_credential with = *row;
        int r = seal_row(c, row, value, &sealed, err);

        if (r < 0)
                return r;
        with.sealed = (struct str){(const char *)sealed, value.n + SECRET_BOX_EXTRA};
        return store_credential_put(c->store, &with, err);
}

/* ---- the keys of the file ---- */

static int read_keys(struct credentials *c, int fd, struct err *err)
{
        char text[KEY_FILE_MAX];
        ssize_t n = pread(fd, text, sizeof(text), 0);
        int r = 0;

        if (n < 0)
                return err_sys(err, -errno, "read secret-key");
        r = n < (ssize_t)sizeof(text) ? secret_keys_parse((struct str){text, (size_t)n}, &c->secret) : -EBADMSG;
        explicit_bzero(text, sizeof(text));
        if (r == -EBADMSG)
                return err_set(
                        err, ERR_INVALID,
                        "secret-key: must have lines of %d hexadecimal digits each, at most %d: put the file back as "
                        "it was, or move it away, and set all credentials again",
                        2 * SECRET_KEY_LEN, SECRET_KEYS_MAX);
        return r < 0 ? err_sys(err, r, "read secret-key") : 0;
}

/* What an older key sealed, sealed anew: a walk must not change what it walks over. */
struct rekey {
        struct credentials *c;
        struct rekeyed {
                struct store_credential row;
                char owner[OWNER_MAX], name[CREDENTIAL_NAME_MAX + 1];
                uint8_t *sealed; /* owned */
        } * rows;                /* owned */
        size_t count, room;
        size_t unknown;
};

static void rekey_done(struct rekey *k)
{
        for (size_t i = 0; i < k->count; i++)
                free(k->rows[i].sealed);
        free(k->rows);
}

static struct rekeyed *rekey_next(struct rekey *k)
{
        size_t room = k->room ? 2 * k->room : 16;
        struct rekeyed *more;

        if (k->count < k->room)
                return &k->rows[k->count];
        more = reallocarray(k->rows, room, sizeof(*more));
        if (!more)
                return NULL;
        k->rows = more;
        k->room = room;
        return &more[k->count];
}

static int rekey_row(const struct store_credential *row, void *arg)
{
        struct rekey *k = arg;
        enum secret_box_key which = secret_box_key(&k->c->secret, row->sealed);
        AUTO(secret_done) struct secret value = {0};
        struct err why = {0};
        struct rekeyed *next;

        k->unknown += which == SECRET_BOX_UNKNOWN;
        if (which != SECRET_BOX_OLDER || strlen(row->owner) >= OWNER_MAX || strlen(row->name) > CREDENTIAL_NAME_MAX)
                return 0;
        if (open_row(k->c, row, &value, &why) < 0)
                return why.kind == ERR_LIMIT ? -ENOMEM : 0; /* a damaged one stays, and says so when it is used */
        next = rekey_next(k);
        if (!next)
                return -ENOMEM;
        next->row = *row;
        next->sealed = NULL; /* released with the others, also when there is nothing yet */
        memcpy(next->owner, row->owner, strlen(row->owner) + 1);
        memcpy(next->name, row->name, strlen(row->name) + 1);
        k->count++;
        return seal_row(k->c, row, (struct str){value.p, value.n}, &next->sealed, NULL);
}

static int rekey_write(struct rekey *k, struct err *err)
{
        int r = store_begin(k->c->store, err);

        for (size_t i = 0; i < k->count && r == 0; i++) {
                struct rekeyed *at = &k->rows[i];

                at->row.owner = at->owner;
                at->row.name = at->name;
                at->row.sealed.p = (const char *)at->sealed; /* as long as it was */
                r = store_credential_put(k->c->store, &at->row, err);
        }
        if (r == 0)
                r = store_commit(k->c->store, err);
        if (r < 0)
                store_rollback(k->c->store);
        return r;
}

static int look_at_all(struct credentials *c, struct err *err)
{
        AUTO(rekey_done) struct rekey k = {.c = c};
        struct err full = {0};
        int r = store_credential_each(c->store, rekey_row, &k, err);

        if (r < 0)
                return err->kind ? r : err_sys(err, r, "look at the credentials");
        if (k.unknown)
                log_error("credentials.key", "count=%zu, encrypted with a key that is not in secret-key: " PUT_BACK,
                          k.unknown);
        if (k.count == 0)
                return 0;
        if (rekey_write(&k, &full) < 0)
                log_warn("credentials.rekey", "failed=\"%s\", the older keys must stay in secret-key", full.msg);
        else
                log_info("credentials.rekey", "count=%zu, the older keys can go from secret-key", k.count);
        return 0;
}

int credentials_init(struct credentials *c, struct store *store, const struct keys *keys, int key_fd,
                     int64_t (*now_ns)(void), struct err *err)
{
        int r;

        *c = (struct credentials){.store = store, .keys = keys, .now_ns = now_ns};
        r = key_fd < 0 ? 0 : read_keys(c, key_fd, err);
        return r < 0 ? r : look_at_all(c, err);
}

void credentials_done(struct credentials *c)
{
        secret_keys_done(&c->secret);
}

/* ---- setting and removing ---- */

static int check_room(const struct credentials *c, const struct store_credential *row, size_t bytes, struct err *err)
{
        struct store_credential_usage have = {0};
        int r = store_credential_usage(c->store, row, &have, err);

        if (r < 0)
                return r;
        if (have.count >= CREDENTIALS_MAX)
                return err_set(err, ERR_CONFLICT, "there are %u credentials already: remove some", CREDENTIALS_MAX);
        if (have.bytes + bytes + SECRET_BOX_EXTRA > CREDENTIALS_BYTES_MAX)
                return err_set(err, ERR_CONFLICT, "all credentials together may have %u bytes: remove some",
                               CREDENTIALS_BYTES_MAX);
        if (have.team_count >= CREDENTIALS_OF_TEAM_MAX)
                return err_set(err, ERR_CONFLICT, "the team and its users have %u credentials already: remove some",
                               CREDENTIALS_OF_TEAM_MAX);
        return 0;
}

int credentials_set(struct credentials *c, const struct credential_place *at, struct str value, struct err *err)
{
        char owner[OWNER_MAX];
        struct store_credential row = {.team = at->key->team->no, .owner = owner, .name = at->name};
        json_t *parts = NULL;
        int r;

        owner_of(at->key, at->scope, owner);
        row.created_ns = row.updated_ns = c->now_ns();
        r = credential_unfold(at->name, value, &parts, err); /* only to check it: the value is what is kept */
        if (r < 0)
                return r;
        credential_free(parts);
        if (c->secret.count == 0)
                return err_set(
                        err, ERR_UNAVAILABLE,
                        "the server has no key to encrypt with: it could not write the file secret-key of its data "
                        "directory when it was started (its log says why); start it again");
        r = check_room(c, &row, value.n, err);
        if (r == 0)
                r = put_row(c, &row, value, err);
        if (r == 0)
                log_info("credential.set", "team=%s owner=\"%s\" name=%s", at->key->team->slug, owner, at->name);
        return r;
}

int credentials_remove(struct credentials *c, const struct credential_place *at, struct err *err)
{
        char owner[OWNER_MAX];
        const struct store_credential row = {.team = at->key->team->no, .owner = owner, .name = at->name};
        bool was_there = false;
        int r;

        owner_of(at->key, at->scope, owner);
        r = store_credential_remove(c->store, &row, &was_there, err);
        if (r < 0)
                return r;
        if (!was_there)
                return err_set(err, ERR_NOT_FOUND, "there is no credential '%.*s' of %s", (int)CREDENTIAL_NAME_MAX,
                               at->name, at->scope == CREDENTIAL_TEAM ? "the team" : "this user");
        log_info("credential.removed", "team=%s owner=\"%s\" name=%s", at->key->team->slug, owner, at->name);
        return 0;
}

/* ---- reading ---- */

struct credential_walk {
        const struct credentials *c;
        json_t *list;      /* owned: the team's, then the user's */
        size_t team_count; /* of these */
        struct err *err;
};

/* A user's come first, and are put behind the team's. */
static int walk_add(struct credential_walk *w, const struct store_credential *row, json_t *item)
{
        int r = row->owner[0] ? json_array_append(w->list, item) : json_array_insert(w->list, w->team_count, item);

        if (r < 0)
                credential_blank(item);
        else if (!row->owner[0])
                w->team_count++;
        json_decref(item);
        return r < 0 ? err_set(w->err, ERR_LIMIT, "out of memory") : 0;
}

static int list_row(const struct store_credential *row, void *arg)
{
        struct credential_walk *w = arg;
        bool is_readable = secret_box_key(&w->c->secret, row->sealed) != SECRET_BOX_UNKNOWN;
        char created[CLOCK_TEXT_MAX], updated[CLOCK_TEXT_MAX];

        clock_format(row->created_ns, created);
        clock_format(row->updated_ns, updated);
        return walk_add(w, row,
                        json_pack("{s:s,s:s,s:s,s:s,s:b}", "name", row->name, "scope", row->owner[0] ? "user" : "team",
                                  "createdAt", created, "updatedAt", updated, "readable", is_readable));
}

static bool walk_has(const struct credential_walk *w, const char *name)
{
        json_t *item;
        size_t i;

        json_array_foreach (w->list, i, item)
                if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0)
                        return true;
        return false;
}

static int unfold_row(const struct store_credential *row, void *arg)
{
        struct credential_walk *w = arg;
        AUTO(secret_done) struct secret value = {0};
        json_t *parts = NULL;
        int r;

        if (walk_has(w, row->name))
                return 0; /* the user's own is there instead */
        r = open_row(w->c, row, &value, w->err);
        if (r == 0)
                r = credential_unfold(row->name, (struct str){value.p, value.n}, &parts, w->err);
        if (r < 0)
                return r;
        if (json_object_set_new(parts, "name", json_string(row->name)) < 0) {
                credential_free(parts);
                return err_set(w->err, ERR_LIMIT, "out of memory");
        }
        return walk_add(w, row, parts);
}

static int walk_of_key(const struct credentials *c, const struct api_key *key, store_credential_fn each, json_t **ret,
                       struct err *err)
{
        struct credential_walk w = {.c = c, .list = json_array(), .err = err};
        char owner[OWNER_MAX];
        int r;

        owner_of(key, CREDENTIAL_USER, owner);
        r = w.list ? store_credential_of(c->store, key->team->no, owner, each, &w, err)
                   : err_set(err, ERR_LIMIT, "out of memory");
        if (r < 0)
                credential_free(w.list);
        else
                *ret = w.list;
        return r;
}

int credentials_list(const struct credentials *c, const struct api_key *key, json_t **ret, struct err *err)
{
        return walk_of_key(c, key, list_row, ret, err);
}

int credentials_unfold(const struct credentials *c, const struct api_key *key, json_t **ret, struct err *err)
{
        json_t *list = NULL, *answer;
        int r = walk_of_key(c, key, unfold_row, &list, err);

        if (r < 0)
                return r;
        answer = json_pack("{s:O}", "credentials", list);
        if (!answer) {
                credential_free(list);
                return err_set(err, ERR_LIMIT, "out of memory");
        }
        json_decref(list); /* the answer has it */
        log_debug("credentials.given", "team=%s key=%s count=%zu", key->team->slug, key->id, json_array_size(list));
        *ret = answer;
        return 0;
}
