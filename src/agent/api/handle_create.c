/* POST /sandboxes: the sandbox, and what is written into it before the answer: tokens of its services, credentials. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/exchange/ask.h"
#include "agent/exchange/exchange.h"
#include "agent/api/handlers.h"
#include "agent/request/sandbox_request.h"
#include "agent/request/services.h"
#include "agent/exchange/sandbox_files.h"
#include "agent/exchange/sandbox_find.h"
#include "agent/exchange/sandbox_kill.h"
#include "agent/api/show.h"
#include "base/err.h"
#include "base/log.h"
#include "model/conf.h"
#include "model/credential/credential.h"
#include "model/json_field.h"

#define SECRET_MODE 0600
#define ENV_FILE "etc/profile.d/sandglass-credentials.sh" /* commands run in a login shell */
/* All that a team and a user can have set, each byte a quote: as variables, of which github's are two; and as files. */
#define VARIABLES_MAX (CREDENTIALS_GIVEN_MAX * CREDENTIAL_FILES_MAX)
#define ENV_MAX                                                                                                        \
        (4 * (CREDENTIALS_GIVEN_BYTES_MAX + CREDENTIAL_TOKEN_MAX) + VARIABLES_MAX * (2 * CREDENTIAL_NAME_MAX + 32))
_Static_assert(SANDBOX_FILES_MAX > ENV_MAX + (1u << 20), "room for the variables, and for tokens of services");
_Static_assert(SANDBOX_FILES_MAX > CREDENTIALS_GIVEN_BYTES_MAX + VARIABLES_MAX * (CREDENTIAL_PATH_PARTS_MAX + 2) * 512,
               "room for the files, with an entry for each directory on the way");

struct creation {
        json_t *request; /* owned: for the API */
        bool is_named;   /* the request names a template */
        bool is_made;    /* x->sandbox is there, and must go unless the client gets to know of it */
        struct sandbox_files credentials, tokens;
        struct buf env; /* variables of credentials, for a login shell */
        struct services services;
};

static void creation_free(struct exchange *x)
{
        struct creation *c = x->job;

        if (c->is_made && !x->is_complete)
                sandbox_kill(x->agent, x->sandbox.id, x->key);
        json_decref(c->request);
        sandbox_files_done(&c->credentials);
        sandbox_files_done(&c->tokens);
        buf_done(&c->env);
        free(c);
}

/* The sandbox is not as it must be: it goes, and the client is told why. */
static void creation_fail(struct exchange *x, unsigned status, const char *what, const char *why)
{
        struct creation *c = x->job;

        if (c->is_made)
                sandbox_kill(x->agent, x->sandbox.id, x->key);
        c->is_made = false;
        tell_error(x, status, NULL, "%s: %s", what, why);
}

/* ---- the last step ---- */

static void creation_tell(struct exchange *x)
{
        struct creation *c = x->job;
        json_t *obj =
                services_show(agent_show_sandbox(x->sandbox.shown), &c->services, x->sandbox.id, x->sandbox.domain);

        if (obj)
                tell_json(x, 201, obj);
        else
                creation_fail(x, 503, "create sandbox", "out of memory");
}

/* ---- files ---- */

static const char *files_why(const struct ask_answer *a)
{
        const char *message = json_string_value(json_object_get(a->body, "message"));

        return message ? message : "the sandbox refused them";
}

static unsigned files_status(const struct ask_answer *a)
{
        return a->status == 507 ? 507 : 503;
}

static void tokens_failed(struct exchange *x, const struct err *why)
{
        creation_fail(x, 503, "the tokens of its services could not be written, so the sandbox was ended", why->msg);
}

static void tokens_written(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 200)
                creation_tell(x);
        else
                creation_fail(x, files_status(a),
                              "the tokens of its services could not be written, so the sandbox was ended",
                              files_why(a));
}

static void creation_write_tokens(struct exchange *x)
{
        struct creation *c = x->job;

        if (c->tokens.count)
                sandbox_files_write(x, &c->tokens, "/", tokens_written, tokens_failed);
        else
                creation_tell(x);
}

static void credentials_failed(struct exchange *x, const struct err *why)
{
        creation_fail(x, 503, "the credentials could not be written, so the sandbox was ended", why->msg);
}

static void credentials_written(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 200)
                creation_write_tokens(x);
        else
                creation_fail(x, files_status(a), "the credentials could not be written, so the sandbox was ended",
                              files_why(a));
}

static void creation_write_credentials(struct exchange *x)
{
        struct creation *c = x->job;

        if (c->credentials.count)
                sandbox_files_write(x, &c->credentials, ".", credentials_written, credentials_failed);
        else
                creation_write_tokens(x);
}

/* ---- services ---- */

static int creation_make_tokens(struct creation *c, struct err *err)
{
        int r = 0;

        services_make_tokens(&c->services);
        for (size_t i = 0; r == 0 && i < c->services.count; i++) {
                const struct service *s = &c->services.all[i];

                if (s->token_file[0])
                        r = sandbox_files_add(&c->tokens, str_of(s->token_file + 1), SECRET_MODE, str_of(s->token),
                                              err);
        }
        return r;
}

static void services_read(struct exchange *x, const struct ask_answer *a)
{
        struct creation *c = x->job;
        struct err err = {0};

        if (a->status == 200 && services_decode(a->body, &c->services, &err) < 0)
                log_warn("services.invalid", "sandbox=%s file=" SERVICES_FILE " error=\"%s\", it counts as none",
                         x->sandbox.id, err.msg);
        if (a->status != 200 && a->status != 404)
                creation_fail(x, 503, "the sandbox does not answer, so it was ended", files_why(a));
        else if (creation_make_tokens(c, &err) < 0)
                tokens_failed(x, &err);
        else
                creation_write_credentials(x);
}

static void services_failed(struct exchange *x, const struct err *why)
{
        if (why->kind == ERR_TOO_LARGE) {
                log_warn("services.invalid", "sandbox=%s file=" SERVICES_FILE " error=\"too large\", it counts as none",
                         x->sandbox.id);
                creation_write_credentials(x);
                return;
        }
        creation_fail(x, 503, "the sandbox does not answer, so it was ended", why->msg);
}

/* ---- the sandbox ---- */

static void creation_made(struct exchange *x, const struct ask_answer *a)
{
        struct creation *c = x->job;

        if (a->status != 201) {
                ask_pass_error(x, a);
                return;
        }
        if (sandbox_take(x, a->body) < 0) {
                tell_error(x, 502, NULL, "the API gave an answer that is no sandbox");
                return;
        }
        c->is_made = true;
        ask(x, &(struct ask_options){.to = ASK_DAEMON,
                                     .method = "GET",
                                     .target = "/files?username=root&path=" SERVICES_FILE,
                                     .max = SERVICES_FILE_MAX,
                                     .on_answer = services_read,
                                     .on_failure = services_failed});
}

/* The client left before the sandbox was there. */
static void creation_unwanted(struct agent *agent, const char *key, const struct ask_answer *a)
{
        const char *id = json_string_value(json_object_get(a->body, "sandboxID"));

        if (a->status == 201 && id)
                sandbox_kill(agent, id, key);
}

static void creation_make(struct exchange *x)
{
        struct creation *c = x->job;

        ask(x, &(struct ask_options){.to = ASK_API_PATIENT,
                                     .method = "POST",
                                     .target = "/v2/sandboxes",
                                     .body = c->request,
                                     .on_answer = creation_made,
                                     .on_orphan = creation_unwanted});
}

/* ---- the template, if the request names none ---- */

static void template_looked_up(struct exchange *x, const struct ask_answer *a)
{
        struct creation *c = x->job;

        if (a->status == 401 || a->status == 403 || a->status >= 500) {
                ask_pass_error(x, a);
                return;
        }
        if (json_object_set_new(c->request, "templateID", json_string(a->status == 200 ? SANDBOX_TEMPLATE : "base")) <
            0)
                tell_no_memory(x);
        else
                creation_make(x);
}

static void creation_choose_template(struct exchange *x)
{
        struct creation *c = x->job;

        if (c->is_named)
                creation_make(x);
        else
                ask(x, &(struct ask_options){.to = ASK_API,
                                             .method = "GET",
                                             .target = "/templates/aliases/" SANDBOX_TEMPLATE,
                                             .on_answer = template_looked_up});
}

/* ---- credentials: of the team, or of the user whose token it is ---- */

/* Variables go to a file, too: what is an environment of a sandbox is in the store, in the clear.  What the request or the command
 * says is set before the file is read, and stays. */
static int env_write(struct buf *out, json_t *env, struct err *err)
{
        const char *name;
        json_t *v;
        int r = 0;

        json_object_foreach (env, name, v) {
                struct str rest = {json_string_value(v), json_string_length(v)}, part;
                bool more = true;

                if (r == 0)
                        r = buf_addf(out, "[ -n \"${%s+x}\" ] || export %s='", name, name);
                while (r == 0 && more) {
                        more = str_cut(&rest, '\'', &part);
                        r = buf_add(out, part.p, part.n);
                        if (r == 0)
                                r = buf_addc(out, more ? "'\\''" : "'\n");
                }
        }
        return r < 0 ? err_sys(err, r, "variables of credentials") : 0;
}

/* Variables into `env`: a later one wins. */
static int credentials_take_one(struct creation *c, const json_t *credential, json_t *env, struct err *err)
{
        json_t *files = json_object_get(credential, "files"), *f;
        size_t i;
        int r = 0;

        json_array_foreach (files, i, f) {
                const json_t *path = json_object_get(f, "path"), *content = json_object_get(f, "content");
                json_int_t mode = json_integer_value(json_object_get(f, "mode"));

                if (r == 0)
                        r = sandbox_files_add(
                                &c->credentials, (struct str){json_string_value(path), json_string_length(path)},
                                mode ? (unsigned)mode & 0700 : SECRET_MODE,
                                (struct str){json_string_value(content), json_string_length(content)}, err);
        }
        if (r == 0 && json_object_update(env, json_object_get(credential, "env")) < 0)
                r = err_set(err, ERR_LIMIT, "out of memory");
        return r;
}

static void credentials_read(struct exchange *x, const struct ask_answer *a)
{
        struct creation *c = x->job;
        struct err err = {0};
        json_t *one, *env;
        size_t i;
        int r;

        if (a->status != 200) {
                ask_pass_error(x, a);
                return;
        }
        env = json_object();
        r = env ? 0 : err_set(&err, ERR_LIMIT, "out of memory");
        json_array_foreach (json_object_get(a->body, "credentials"), i, one)
                if (r == 0)
                        r = credentials_take_one(c, one, env, &err);
        if (r == 0)
                r = env_write(&c->env, env, &err);
        json_decref(env);
        if (r == 0 && c->env.len)
                r = sandbox_files_add(&c->tokens, str_of(ENV_FILE), SECRET_MODE,
                                      (struct str){(const char *)buf_at(&c->env), c->env.len}, &err);
        if (r < 0)
                tell_error(x, 500, NULL, "the credentials are not as they must be: %s", err.msg);
        else
                creation_choose_template(x);
}

static void creation_read_credentials(struct exchange *x)
{
        if (access(x->agent->credentials_path, F_OK) < 0) {
                creation_choose_template(x); /* a server without credentials */
                return;
        }
        ask(x, &(struct ask_options){.to = ASK_CREDENTIALS,
                                     .method = "GET",
                                     .target = "/credentials",
                                     .is_secret = true,
                                     .on_answer = credentials_read});
}

void agent_create_sandbox(struct exchange *x)
{
        struct creation *c = calloc(1, sizeof(*c));
        struct err err = {0};

        if (!c) {
                tell_no_memory(x);
                return;
        }
        sandbox_files_init(&c->credentials);
        sandbox_files_init(&c->tokens);
        c->env = BUF_SECRET(ENV_MAX);
        x->job = c;
        x->job_free = creation_free;
        if (sandbox_request_decode(x->body, x->agent->conf->timeout_max_s, &c->request, &c->is_named, &err) < 0)
                tell_err(x, &err);
        else
                creation_read_credentials(x);
}
