#include "model/build/ready_command.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/json_field.h"

#define WORD_MAX 4096u /* bytes of a URL or a name */

static int ready_wrong(struct err *err, const char *what)
{
        return err_set(err, ERR_INVALID, "validation error: field 'readyCmd': %s", what);
}

/* One word for a shell: as it is where that is safe, otherwise in single quotes. */
static int ready_add_word(struct buf *out, const char *word)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,";
        int r;

        if (word[0] && word[0] != '-' && strspn(word, plain) == strlen(word))
                return buf_addc(out, word);
        r = buf_addc(out, "'");
        for (const char *p = word; r == 0 && *p; p++)
                r = *p == '\'' ? buf_addc(out, "'\\''") : buf_add(out, p, 1);
        return r < 0 ? r : buf_addc(out, "'");
}

/* "<before><word><after>" */
static int ready_with_word(const char *before, const char *word, const char *after, char **ret, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(READY_COMMAND_MAX);

        if (buf_addc(&text, before) < 0 || ready_add_word(&text, word) < 0 || buf_addc(&text, after) < 0 ||
            !buf_cstr(&text) || !(*ret = strdup(buf_cstr(&text))))
                return err_sys(err, -ENOMEM, "ready command");
        return 0;
}

static int ready_printed(int printed, char **ret, struct err *err)
{
        if (printed >= 0)
                return 0;
        *ret = NULL;
        return err_sys(err, -ENOMEM, "ready command");
}

static int ready_port(const json_t *v, char **ret, struct err *err)
{
        int64_t port = 0;

        if (json_field_int(v, "waitForPort", 1, 65535, &port, err) < 0)
                return -EINVAL;
        return ready_printed(asprintf(ret, "[ -n \"$(ss -Htuln sport = :%d)\" ]", (int)port), ret, err);
}

static int ready_timeout(const json_t *v, char **ret, struct err *err)
{
        int64_t ms = 0;

        if (json_field_int(v, "waitForTimeout", 0, 24 * 3600 * 1000, &ms, err) < 0)
                return -EINVAL;
        return ready_printed(asprintf(ret, "sleep %lld", (long long)(ms < 2000 ? 1 : ms / 1000)), ret, err);
}

static int ready_word(const json_t *v, const char *name, const char **ret, struct err *err)
{
        if (json_field_text(v, name, ret, err) < 0)
                return -EINVAL;
        if (!(*ret)[0] || strlen(*ret) > WORD_MAX || strchr(*ret, '\n'))
                return err_set(err, ERR_INVALID, "validation error: field '%s' must be one line of 1 to %u bytes", name,
                               WORD_MAX);
        return 0;
}

static int ready_url(const json_t *v, char **ret, struct err *err)
{
        const char *url = NULL;
        char after[64];
        int64_t status = 200;

        if (ready_word(v, "waitForURL", &url, err) < 0 || json_field_int(v, "statusCode", 100, 599, &status, err) < 0)
                return -EINVAL;
        if (!str_starts(str_of(url), "http://") && !str_starts(str_of(url), "https://"))
                return err_set(err, ERR_INVALID,
                               "validation error: field 'waitForURL' must begin with http:// or https://");
        (void)snprintf(after, sizeof(after), " | grep -q \"%d\"", (int)status);
        return ready_with_word("curl -s -o /dev/null -w \"%{http_code}\" ", url, after, ret, err);
}

static int ready_process(const json_t *v, char **ret, struct err *err)
{
        const char *name = NULL;

        if (ready_word(v, "waitForProcess", &name, err) < 0)
                return -EINVAL;
        return ready_with_word("pgrep ", name, " > /dev/null", ret, err);
}

static int ready_file(const json_t *v, char **ret, struct err *err)
{
        const char *name = NULL;

        if (ready_word(v, "waitForFile", &name, err) < 0)
                return -EINVAL;
        return ready_with_word("[ -f ", name, " ]", ret, err);
}

static const struct {
        const char *name;
        int (*make)(const json_t *v, char **ret, struct err *err);
} conditions[] = {
        {"waitForPort", ready_port}, {"waitForURL", ready_url},         {"waitForProcess", ready_process},
        {"waitForFile", ready_file}, {"waitForTimeout", ready_timeout},
};

static int ready_of_object(const json_t *v, char **ret, struct err *err)
{
        int found = -1;
        const char *key;
        json_t *member;

        json_object_foreach ((json_t *)v, key, member) {
                int which = -1;

                for (size_t i = 0; i < ARRAY_LEN(conditions); i++)
                        if (strcmp(key, conditions[i].name) == 0 && !json_is_null(member))
                                which = (int)i;
                if (which < 0 && strcmp(key, "statusCode") != 0 && !json_is_null(member))
                        return err_set(err, ERR_INVALID,
                                       "validation error: field 'readyCmd' has the unknown member '%.60s'", key);
                if (which >= 0 && found >= 0)
                        return ready_wrong(err, "only one condition can be given");
                found = which >= 0 ? which : found;
        }
        if (found < 0)
                return ready_wrong(err,
                                   "one of waitForPort, waitForURL, waitForProcess, waitForFile and waitForTimeout "
                                   "is needed");
        return conditions[found].make(v, ret, err);
}

int ready_command_of(const json_t *v, char **ret, struct err *err)
{
        *ret = NULL;
        if (!v || json_is_null(v))
                return 0;
        if (json_is_object(v))
                return ready_of_object(v, ret, err);
        if (!json_is_string(v))
                return ready_wrong(err, "must be a string or an object");
        if (json_string_length(v) > READY_COMMAND_MAX)
                return ready_wrong(err, "is too long");
        if (json_string_length(v) == 0)
                return 0;
        *ret = strdup(json_string_value(v));
        return *ret ? 0 : err_sys(err, -ENOMEM, "ready command");
}
