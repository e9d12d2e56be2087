/* step_files.c - archives into a sandbox and out of it: COPY, layers of images, files for another stage. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "envd_client/envd_ask.h"
#include "builder/step.h"
#include "model/json_field.h"
#include "wire/url.h"

#define TARGET_MAX (32u << 10)

static void log_notes(struct step *s, const json_t *answer)
{
        const json_t *note;
        size_t i;

        json_array_foreach (json_object_get(answer, "notes"), i, note)
                if (json_is_string(note))
                        step_log_line(&s->log, "debug", "%s", json_string_value(note));
}

static void files_succeed(struct step *s, const json_t *answer)
{
        json_t *more = json_deep_copy(answer);

        log_notes(s, answer);
        if (more)
                step_succeed(s, more);
        else
                step_fail(s, &(struct err){.kind = ERR_LIMIT, .msg = "out of memory"});
}

static int files_ask(struct step *s, struct envd_ask_options opt, const struct buf *target, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(TARGET_MAX);
        int r = buf_add(&text, buf_at(target), target->len);

        opt.token = s->token;
        opt.target = r == 0 ? buf_cstr(&text) : NULL;
        opt.arg = s;
        if (!opt.target)
                return err_set(err, ERR_LIMIT, "out of memory");
        return envd_ask(s->envd, &opt, (struct envd_ask **)&s->own, err);
}

/* The whole of fds[1] is the body. */
static int files_send(struct step *s, const struct buf *target,
                      void (*on_end)(const json_t *, uint64_t, const struct err *, void *), struct err *err)
{
        struct stat st;

        if (fstat(s->second, &st) < 0 || !S_ISREG(st.st_mode))
                return err_set(err, ERR_INVALID, "the archive is not a file");
        return files_ask(s,
                         (struct envd_ask_options){.method = "POST",
                                                   .file = s->second,
                                                   .file_bytes = (uint64_t)st.st_size,
                                                   .into = -1,
                                                   .on_end = on_end},
                         target, err);
}

static void files_done(struct step *s)
{
        s->own = envd_ask_free(s->own);
}

/* ---- COPY ---- */

static void copy_on_end(const json_t *answer, uint64_t bytes, const struct err *err, void *arg)
{
        struct step *s = arg;
        struct err why = *err;

        (void)bytes;
        if (err->kind == ERR_NONE) {
                files_succeed(s, answer);
                return;
        }
        if (err->kind != ERR_UNAVAILABLE)
                (void)err_set(&why, err->kind, "failed to copy files: %s", err->msg);
        step_fail_envd(s, &why);
}

static int add_parameter(const struct step *s, struct buf *target, const char *name, struct err *err)
{
        const char *value = NULL;
        int r = json_field_text(s->spec, name, &value, err);

        if (r < 0 || !value)
                return r;
        if (buf_addf(target, "%c%s=", memchr(buf_at(target), '?', target->len) ? '&' : '?', name) < 0 ||
            url_encode(str_of(value), target) < 0)
                return err_set(err, ERR_INVALID, "'%s' is too long", name);
        return 0;
}

static int copy_begin(struct step *s, struct err *err)
{
        static const char *const names[] = {"src", "dest", "owner", "mode", "user", "workdir"};
        AUTO_BUF struct buf target = BUF_INIT(TARGET_MAX);
        int r = buf_addc(&target, "/sandglass/copy") < 0 ? err_set(err, ERR_LIMIT, "out of memory") : 0;

        for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++)
                r = add_parameter(s, &target, names[i], err);
        return r < 0 ? r : files_send(s, &target, copy_on_end, err);
}

const struct step_kind step_copy = {.name = "copy", .fds = 2, .begin = copy_begin, .done = files_done};

/* ---- a layer of an image ---- */

static void unpack_on_end(const json_t *answer, uint64_t bytes, const struct err *err, void *arg)
{
        struct step *s = arg;
        const char *want = json_string_value(json_object_get(s->spec, "diff_id"));
        const char *got = json_string_value(json_object_get(answer, "diff_id"));
        struct err why = {0};

        (void)bytes;
        if (err->kind != ERR_NONE) {
                step_fail_envd(s, err);
        } else if (want && (!got || strcmp(want, got) != 0)) {
                (void)err_set(&why, ERR_INVALID, "layer %.80s does not match its digest", want);
                step_fail(s, &why);
        } else {
                files_succeed(s, answer);
        }
}

static int unpack_begin(struct step *s, struct err *err)
{
        AUTO_BUF struct buf target = BUF_INIT(TARGET_MAX);

        if (buf_addc(&target, "/sandglass/unpack") < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        return files_send(s, &target, unpack_on_end, err);
}

const struct step_kind step_unpack = {.name = "unpack", .fds = 2, .begin = unpack_begin, .done = files_done};

/* ---- files for another stage ---- */

static void archive_on_end(const json_t *answer, uint64_t bytes, const struct err *err, void *arg)
{
        struct step *s = arg;

        (void)answer;
        if (err->kind != ERR_NONE)
                step_fail_envd(s, err);
        else
                step_succeed(s, json_pack("{s:I}", "bytes", (json_int_t)bytes));
}

static int archive_begin(struct step *s, struct err *err)
{
        AUTO_BUF struct buf target = BUF_INIT(TARGET_MAX);
        int r = buf_addc(&target, "/sandglass/archive") < 0 ? err_set(err, ERR_LIMIT, "out of memory") : 0;

        if (r == 0)
                r = add_parameter(s, &target, "path", err);
        if (r < 0)
                return r;
        return files_ask(
                s, (struct envd_ask_options){.method = "GET", .file = -1, .into = s->second, .on_end = archive_on_end},
                &target, err);
}

const struct step_kind step_archive = {.name = "archive", .fds = 2, .begin = archive_begin, .done = files_done};
