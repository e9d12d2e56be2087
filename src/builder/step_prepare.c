/* step_prepare.c - steps that envd does itself: users, their homes, working directories, the last touches. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "envd_client/envd_ask.h"
#include "builder/step.h"
#include "model/json_field.h"

static void prepare_on_end(const json_t *answer, uint64_t bytes, const struct err *err, void *arg)
{
        struct step *s = arg;
        json_t *more;

        (void)bytes;
        if (err->kind != ERR_NONE) {
                struct err why = *err;

                if (s->kind == &step_configure && err->kind != ERR_UNAVAILABLE)
                        (void)err_set(&why, err->kind, "configuration script failed: %s", err->msg);
                step_fail_envd(s, &why);
                return;
        }
        more = json_deep_copy(answer);
        if (more)
                step_succeed(s, more);
        else
                step_fail(s, &(struct err){.kind = ERR_LIMIT, .msg = "out of memory"});
}

/* The step as control sent it is what envd gets. */
static int prepare_begin(struct step *s, struct err *err)
{
        return envd_ask(s->envd,
                        &(struct envd_ask_options){.token = s->token,
                                                   .method = "POST",
                                                   .target = "/sandglass/prepare",
                                                   .body = s->spec,
                                                   .file = -1,
                                                   .into = -1,
                                                   .on_end = prepare_on_end,
                                                   .arg = s},
                        (struct envd_ask **)&s->own, err);
}

static void prepare_done(struct step *s)
{
        s->own = envd_ask_free(s->own);
}

const struct step_kind step_home = {.name = "home", .fds = 1, .begin = prepare_begin, .done = prepare_done};
const struct step_kind step_user = {.name = "user", .fds = 1, .begin = prepare_begin, .done = prepare_done};
const struct step_kind step_workdir = {.name = "workdir", .fds = 1, .begin = prepare_begin, .done = prepare_done};
const struct step_kind step_configure = {.name = "configure", .fds = 1, .begin = prepare_begin, .done = prepare_done};
