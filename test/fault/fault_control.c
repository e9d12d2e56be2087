/* A whole control, asked for all it serves, with each of its allocations failing in turn.
 *
 * Whatever fails, a client gets a whole answer or the end of its connection, and afterwards the engine, the store and
 * control agree about what lives. */
#include <sys/types.h>

#include "fault.h"

#define GUARD_MS 1000 /* a message whose number was lost is never answered */
#define RIG_OWN(statement)                                                                                             \
        do {                                                                                                           \
                fault_pause();                                                                                         \
                statement;                                                                                             \
                fault_resume();                                                                                        \
        } while (0)
#include "../unit/control/control_rig.h"

#include <fcntl.h>

#include "control/credentials/credentials.h"
#include "model/credential/credential.h"

/* jansson's scanner loses characters of a text when its buffer cannot grow, instead of failing: what it then makes of a
 * message is anybody's guess, so reading JSON does not take part in the failing. */
json_t *__real_json_loadb(const char *p, size_t n, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *p, size_t n, size_t flags, json_error_t *error);

json_t *__wrap_json_loadb(const char *p, size_t n, size_t flags, json_error_t *error)
{
        json_t *v;

        RIG_OWN(v = __real_json_loadb(p, n, flags, error));
        return v;
}

static int count_row(struct sandbox *sb, void *arg)
{
        *(size_t *)arg += sb->state == SANDBOX_RUNNING;
        return 0;
}

static size_t alive_and(const char *state)
{
        const char *id;
        json_t *v;
        size_t n = 0;

        json_object_foreach (engine.alive, id, v)
                n += engine_has(id, state);
        return n;
}

static bool is_rechecked(void *arg) /* nothing is being started, ended or changed */
{
        const struct lives *ls = &rig.control.lives;
        size_t paused = 0;

        (void)arg;
        LIST_EACH (node, &ls->all)
                paused += LIST_ENTRY(node, struct life, node)->sandbox.state == SANDBOX_PAUSED;
        return rig.control.engine.state == ENGINE_UP && ls->running == alive_and("running") &&
               paused >= alive_and("paused") && ls->by_id.used == ls->running + paused;
}

static int must_agree(void)
{
        size_t rows = 0;

        if (!run_until(is_rechecked, NULL))
                return BROKEN("control and the engine disagree");
        rig.control.lives.tidy.on(&rig.control.lives.tidy); /* rows that could not be written are tried again */
        MUST(store_sandbox_each(rig.control.store, count_row, &rows, NULL) == 0);
        MUST(rows == rig.control.lives.running);
        return 0;
}

/* The request is made with the failing on; the client's side of it is the test's own. */
static unsigned ask_faulty(const char *method, const char *path, const char *body)
{
        char more[128];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        client_close(&last);
        client_send(&last, method, path, more, body);
        fault_resume();
        (void)run_until(client_is_done, &last);
        fault_pause();
        return last.status; /* 0: cut off */
}

static int serve_everything(void)
{
        static const char want[] = "{\"templateID\":\"base\",\"metadata\":{\"a\":\"b\"},\"envVars\":{\"A\":\"b\"},"
                                   "\"network\":{\"allowOut\":[\"1.1.1.1\"],\"allowPublicTraffic\":false}}";
        char id[SANDBOX_ID_MAX] = "", path[64];
        unsigned status;

        status = ask_faulty("POST", "/v2/sandboxes", want);
        MUST(status == 201 || fault_was_hit());
        if (status != 201) {
                MUST(must_agree() == 0 && json_object_size(engine.alive) == 0);
                return create(want, id) ? -ENOMEM : BROKEN("not usable after a failure");
        }
        MUST(text_at("envdAccessToken") && text_at("domain"));
        MUST(text_at("trafficAccessToken"));
        MUST(json_object_get(json_object_get(engine.plan, "init"), "accessToken"));
        (void)snprintf(id, sizeof(id), "%s", text_at("sandboxID"));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        MUST(ask_faulty("GET", path, NULL) == 200 || fault_was_hit());
        MUST(ask_faulty("GET", "/v2/sandboxes?metadata=a%3Db&limit=1", NULL) == 200 || fault_was_hit());
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/metrics", id);
        MUST(ask_faulty("GET", path, NULL) == 200 || fault_was_hit());
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        MUST(ask_faulty("POST", path, "{}") == 200 || fault_was_hit());
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        status = ask_faulty("DELETE", path, NULL);
        MUST(status == 204 || fault_was_hit());
        MUST(must_agree() == 0);
        return 0;
}

/* Everything that may follow once there is a sandbox; whatever fails, it can be ended afterwards, and nothing is left. */
static int copy_everything(void)
{
        char id[SANDBOX_ID_MAX] = "", path[96], snapshot[64] = "";
        unsigned status;

        if (!create("{\"templateID\":\"base\",\"envVars\":{\"A\":\"b\"}}", id))
                return BROKEN("cannot create");
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/pause", id);
        status = ask_faulty("POST", path, "{}");
        MUST(status == 204 || fault_was_hit());
        MUST(must_agree() == 0);
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        status = ask_faulty("POST", path, "{\"memory\":false}");
        MUST(status == 201 || fault_was_hit());
        MUST(must_agree() == 0);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/snapshots", id);
        status = ask_faulty("POST", path, "{\"name\":\"s\"}");
        MUST(status == 201 || fault_was_hit());
        if (status == 201)
                (void)snprintf(snapshot, sizeof(snapshot), "s");
        MUST(must_agree() == 0);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/fork", id);
        status = ask_faulty("POST", path, "{\"count\":2}");
        MUST(status == 201 || fault_was_hit());
        MUST(must_agree() == 0);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/rollback", id);
        status = ask_faulty("POST", path, "{\"snapshotID\":\"s\"}");
        MUST(status == 200 || fault_was_hit());
        MUST(ask_faulty("GET", "/snapshots?limit=1", NULL) == 200 || fault_was_hit());
        MUST(must_agree() == 0);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        MUST(ask_faulty("DELETE", path, NULL) == 204 || fault_was_hit());
        MUST(must_agree() == 0);
        return fault_was_hit() ? -ENOMEM : 0;
}

/* They are set or not, given whole or not at all; and there is one in the end. */
static int use_credentials(void)
{
        static const char path[] = "/sandglass/credentials/openai", value[] = "{\"value\":\"sk-1\"}";
        AUTO_FREE char *text = NULL;
        json_t *given = NULL;
        struct err err = {0};
        unsigned status = ask_faulty("PUT", path, value);
        int r;

        MUST(status == 204 || fault_was_hit());
        MUST(status == 204 || ask("PUT", path, value) == 204);
        MUST(ask_faulty("GET", "/sandglass/credentials", NULL) == 200 || fault_was_hit());
        MUST(ask_faulty("GET", path, NULL) == 200 || fault_was_hit());
        fault_resume();
        r = credentials_unfold(&rig.control.credentials, keys_find(&rig.control.keys, str_of(rig.key)), &given, &err);
        fault_pause();
        MUST(r == 0 || (fault_was_hit() && err.kind != ERR_NONE && !given));
        if (r == 0) {
                text = json_dumps(given, JSON_COMPACT);
                credential_free(given);
                MUST(text && strstr(text, "\"OPENAI_API_KEY\":\"sk-1\""));
        }
        status = ask_faulty("DELETE", path, NULL);
        MUST(status == 204 || fault_was_hit());
        MUST(status == 204 || ask("DELETE", path, NULL) != 0);
        MUST(ask("GET", path, NULL) == 404);
        return fault_was_hit() ? -ENOMEM : 0;
}

#define OLD_KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
#define NEW_KEY "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100\n"

static void use_keys(const char *text)
{
        char path[160];

        control_stop();
        close_fd(&rig.conf.fds.secret_key);
        write_file("secret-key", text);
        (void)snprintf(path, sizeof(path), "%s/secret-key", rig.dir);
        rig.conf.fds.secret_key = open(path, O_RDONLY | O_CLOEXEC);
}

static int credentials_are_used(void)
{
        int r;

        fault_pause();
        r = rig_start() ? 0 : BROKEN("cannot start");
        use_keys(OLD_KEY);
        if (r == 0)
                r = control_start() && run_until(engine_is_up, NULL) ? use_credentials() : BROKEN("cannot start");
        close_fd(&rig.conf.fds.secret_key);
        rig_stop();
        fault_resume();
        return r;
}

/* They are encrypted with the new key or with the older one, and can be read in any case. */
static int credentials_get_another_key(void)
{
        json_t *given = NULL;
        struct err err = {0};
        int r;

        fault_pause();
        r = rig_start() ? 0 : BROKEN("cannot start");
        use_keys(OLD_KEY);
        if (r == 0 && (!control_start() || !run_until(engine_is_up, NULL) ||
                       ask("PUT", "/sandglass/credentials/openai", "{\"value\":\"sk-1\"}") != 204 ||
                       ask("PUT", "/sandglass/credentials/gemini", "{\"value\":\"sk-2\"}") != 204))
                r = BROKEN("cannot set credentials");
        use_keys(NEW_KEY OLD_KEY);
        fault_resume();
        if (r == 0) {
                r = control_init(&rig.control, &rig.conf, rig.loop, rig_now, rig_boot, &err);
                rig.is_up = true;
        }
        fault_pause();
        if (r < 0 && err.kind == ERR_NONE)
                r = BROKEN("no reason given");
        if (r == 0 && credentials_unfold(&rig.control.credentials, keys_find(&rig.control.keys, str_of(rig.key)),
                                         &given, &err) < 0)
                r = BROKEN("cannot be read");
        credential_free(given);
        close_fd(&rig.conf.fds.secret_key);
        rig_stop();
        fault_resume();
        return r;
}

static int everything_is_copied(void)
{
        int r;

        fault_pause();
        r = rig_start() ? copy_everything() : BROKEN("cannot start");
        rig_stop();
        fault_resume();
        return engine.broken ? BROKEN(engine.broken) : r;
}

static int everything_is_served(void)
{
        int r;

        fault_pause();
        r = rig_start() ? serve_everything() : BROKEN("cannot start");
        rig_stop();
        fault_resume();
        return r;
}

static int control_starts_over_a_store(void)
{
        char id[SANDBOX_ID_MAX];
        struct err err = {0};
        int r = 0;

        fault_pause();
        if (!rig_start() || !create("{\"templateID\":\"base\",\"metadata\":{\"a\":\"b\"}}", id))
                r = BROKEN("cannot start");
        control_stop();
        fault_resume();
        if (r == 0) {
                r = control_init(&rig.control, &rig.conf, rig.loop, rig_now, rig_boot, &err);
                rig.is_up = true;
        }
        fault_pause();
        if (r < 0 && err.kind == ERR_NONE)
                r = BROKEN("no reason given");
        if (r == 0 && (!run_until(engine_is_up, NULL) || !lives_find(&rig.control.lives, id)))
                r = BROKEN("lost a sandbox");
        rig_stop();
        fault_resume();
        return r;
}

int main(void)
{
        EACH(everything_is_served);
        EACH(everything_is_copied);
        EACH(credentials_are_used);
        EACH(credentials_get_another_key);
        EACH(control_starts_over_a_store);
        return fault_done();
}
