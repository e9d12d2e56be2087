#include "builder/step.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "http/client.h"
#include "io/channel.h"
#include "model/err_json.h"
#include "model/json_field.h"

#define ENVD_IDLE_MS 300000u /* envd says at least every 30 s that it is there while a command runs */

static const struct step_kind *const kinds[] = {&step_run,    &step_home,    &step_user,      &step_workdir, &step_copy,
                                                &step_unpack, &step_archive, &step_configure, &step_start};

static void step_free(struct step *s)
{
        list_remove(&s->node);
        loop_unpost(&s->gone);
        if (s->kind && s->kind->done)
                s->kind->done(s);
        step_log_done(&s->log);
        s->envd = http_client_free(s->envd);
        close_fd(&s->second);
        json_decref(s->spec);
        if (s->token)
                explicit_bzero(s->token, strlen(s->token));
        free(s->token);
        free(s);
}

static void step_on_gone(struct task *t)
{
        step_free(CONTAINER_OF(t, struct step, gone));
}

void step_abandon(struct step *s)
{
        s->channel = NULL;
        s->log.channel = NULL;
        step_free(s);
}

/* ---- answers ---- */

static void send_answer(struct channel *ch, json_int_t req, json_t *answer)
{
        if (!answer || json_object_set_new(answer, "req", json_integer(req)) < 0) {
                json_decref(answer);
                answer = NULL;
        }
        /* Without memory for an answer, the connection is the answer: control sends its steps again. */
        if (!answer || channel_send(ch, answer, NULL, 0) < 0)
                log_error("builder.answer", "req=%lld not sent", (long long)req);
}

static void step_answer(struct step *s, json_t *answer)
{
        struct channel *ch = TAKE_PTR(s->channel);

        if (!ch) {
                json_decref(answer);
                return;
        }
        step_log_finish(&s->log);
        s->log.channel = NULL;
        send_answer(ch, s->req, answer);
        loop_post(s->loop, &s->gone);
}

void step_succeed(struct step *s, json_t *more)
{
        json_t *answer = more ? more : json_object();

        step_answer(s, json_with(answer, "ok", json_true()));
}

static json_t *error_answer(const struct err *err)
{
        return json_with(json_object(), "error", err_encode(err));
}

void step_fail(struct step *s, const struct err *err)
{
        step_answer(s, error_answer(err));
}

void step_fail_envd(struct step *s, const struct err *why)
{
        struct err err = *why;

        if (why->kind == ERR_UNAVAILABLE)
                (void)err_set(&err, ERR_GONE, "the sandbox of this step is gone: %s", why->msg);
        step_fail(s, &err);
}

/* ---- the beginning ---- */

int step_envd_client(struct step *s, int fd, struct http_client **ret, struct err *err)
{
        const struct http_client_options opt = {
                .loop = s->loop,
                .url = "http://localhost:49983",
                .uses_given_connection = true,
                .timeouts = {.idle_ms = ENVD_IDLE_MS},
        };
        int r = http_client_create(&opt, ret, err);

        if (r < 0) {
                close_fd(&fd);
                return r;
        }
        r = http_client_give(*ret, fd, err);
        if (r < 0)
                *ret = http_client_free(*ret);
        return r;
}

static const struct step_kind *find_kind(const char *name)
{
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
                if (strcmp(kinds[i]->name, name) == 0)
                        return kinds[i];
        return NULL;
}

static int decode_step(struct step *s, const json_t *msg, size_t nfds, struct err *err)
{
        const char *op = NULL, *kind = NULL, *token = NULL;
        json_t *spec = NULL;
        int r;

        if ((r = json_field_text(msg, "op", &op, err)) < 0 || (r = json_field_text(msg, "token", &token, err)) < 0 ||
            (r = json_field_object(msg, "step", &spec, err)) < 0 || (r = json_field_text(spec, "kind", &kind, err)) < 0)
                return r;
        if (!op || strcmp(op, "step") != 0)
                return err_set(err, ERR_INVALID, "the builder knows only the message 'step'");
        if (!kind)
                return err_set(err, ERR_INVALID, "a step without a kind");
        s->kind = find_kind(kind);
        if (!s->kind)
                return err_set(err, ERR_INVALID, "steps of kind '%.40s' are not known", kind);
        if (nfds != s->kind->fds)
                return err_set(err, ERR_INVALID, "a step of kind '%s' comes with %u file descriptors", kind,
                               s->kind->fds);
        s->spec = json_incref(spec);
        s->token = token ? strdup(token) : NULL;
        return token && !s->token ? err_set(err, ERR_LIMIT, "out of memory") : 0;
}

static int step_open(struct step *s, const json_t *msg, int *fds, size_t nfds, struct err *err)
{
        const struct step_kind *kind;
        int r = decode_step(s, msg, nfds, err);

        if (r < 0) {
                s->kind = NULL; /* nothing of it has begun */
                return r;
        }
        kind = TAKE_PTR(s->kind);
        if (nfds > 1)
                s->second = TAKE_FD(fds[1]);
        r = step_envd_client(s, TAKE_FD(fds[0]), &s->envd, err);
        if (r < 0)
                return r;
        s->kind = kind;
        return kind->begin(s, err);
}

void step_begin(struct loop *loop, struct channel *ch, struct list *steps, const json_t *msg, int *fds, size_t nfds)
{
        struct step *s = calloc(1, sizeof(*s));
        json_int_t req = json_integer_value(json_object_get(msg, "req"));
        struct err err = {0};

        if (!s) {
                (void)err_set(&err, ERR_LIMIT, "out of memory");
                send_answer(ch, req, error_answer(&err));
                return;
        }
        *s = (struct step){.loop = loop, .channel = ch, .req = req, .second = -1, .gone.run = step_on_gone};
        step_log_init(&s->log, loop, ch, req);
        list_push_back(steps, &s->node);
        if (step_open(s, msg, fds, nfds, &err) < 0)
                step_fail(s, &err);
}
