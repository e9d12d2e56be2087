#include "model/build/build_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

#define HEX_DIGITS "0123456789abcdef"

bool uuid_is_valid(const char *s)
{
        static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

        for (size_t i = 0; i < sizeof(form) - 1; i++)
                if (form[i] == 'x' ? hex_value(s[i]) < 0 : s[i] != form[i])
                        return false;
        return !s[sizeof(form) - 1];
}

bool build_hash_is_valid(const char *s)
{
        return strlen(s) == 64 && strspn(s, HEX_DIGITS) == 64;
}

bool build_mode_is_valid(const char *s)
{
        size_t n = strspn(s, "01234567");

        return n > 0 && !s[n] && (n <= 4 || (n == 5 && s[0] == '0'));
}

int build_tag_parse(const char *text, char ret[TEMPLATE_REF_MAX + 1], struct err *err)
{
        struct template_ref ref = {0};
        char name[TEMPLATE_REF_MAX + 8];
        struct str tag = str_trim(str_of(text));

        if (tag.n == 0 || tag.n > TEMPLATE_REF_MAX - 2 || memchr(tag.p, ':', tag.n))
                return err_set(err, ERR_INVALID, "Invalid tag: %.60s", text);
        (void)snprintf(name, sizeof(name), "x:%.*s", STR_ARG(tag));
        if (template_ref_parse(str_of(name), &ref, NULL) < 0)
                return err_set(err, ERR_INVALID, "Invalid tag: %.60s", text);
        if (uuid_is_valid(ref.tag))
                return err_set(err, ERR_INVALID, "Invalid tag: tag cannot be a UUID");
        memcpy(ret, ref.tag, sizeof(ref.tag));
        return 0;
}

int build_name_parse(const char *text, const char *slug, struct template_ref *ret, struct err *err)
{
        struct template_ref ref = {0};
        struct err why = {0};

        if (!text || !text[0])
                return err_set(err, ERR_INVALID, "Name is required");
        if (template_ref_parse(str_of(text), &ref, &why) < 0)
                return err_set(err, ERR_INVALID, "Invalid name: %s", why.msg);
        if (ref.ns[0] && strcmp(ref.ns, slug) != 0)
                return err_set(err, ERR_INVALID, "namespace '%.60s' must match your team '%.60s'", ref.ns, slug);
        if (ref.tag[0] && uuid_is_valid(ref.tag))
                return err_set(err, ERR_INVALID, "Invalid tag: tag cannot be a UUID");
        *ret = ref;
        return 0;
}

static bool tags_have(const json_t *tags, const char *tag)
{
        size_t i;
        json_t *v;

        json_array_foreach (tags, i, v)
                if (strcmp(json_string_value(v), tag) == 0)
                        return true;
        return false;
}

static int tags_add(json_t *tags, const char *text, struct err *err)
{
        char tag[TEMPLATE_REF_MAX + 1];

        if (build_tag_parse(text, tag, err) < 0)
                return -EINVAL;
        if (tags_have(tags, tag))
                return 0;
        return json_array_append_new(tags, json_string(tag)) < 0 ? err_sys(err, -ENOMEM, "tags") : 0;
}

json_t *build_tags_of(const json_t *list, const char *more, struct err *err)
{
        json_t *tags = json_array(), *v;
        int r = tags ? 0 : err_sys(err, -ENOMEM, "tags");
        size_t i;

        if (r == 0 && json_array_size(list) > BUILD_TAGS_MAX)
                r = err_set(err, ERR_INVALID, "validation error: field 'tags' has more than %d items", BUILD_TAGS_MAX);
        if (r == 0 && more && more[0])
                r = tags_add(tags, more, err);
        json_array_foreach (list, i, v)
                if (r == 0)
                        r = json_is_string(v) ? tags_add(tags, json_string_value(v), err)
                                              : err_set(err, ERR_INVALID,
                                                        "validation error: field 'tags[%zu]' must be a string", i);
        if (r == 0 && json_array_size(tags) == 0)
                r = tags_add(tags, TAG_DEFAULT, err);
        if (r == 0)
                return tags;
        json_decref(tags);
        return NULL;
}

int build_check_cpus(int64_t cpus, uint32_t most, struct err *err)
{
        if (cpus < 1)
                return err_set(err, ERR_INVALID, "CPU count must be at least 1");
        if (cpus > BUILD_CPUS_MAX)
                return err_set(err, ERR_INVALID, "CPU count must be at most %u", BUILD_CPUS_MAX);
        if (cpus != 1 && cpus % 2)
                return err_set(err, ERR_INVALID, "CPU count must be 1 or an even number");
        if (cpus > most)
                return err_set(err, ERR_INVALID,
                               "CPU count can't be higher than %u (if you need to increase this limit, please contact "
                               "support)",
                               most);
        return 0;
}

int build_check_memory(int64_t memory_mb, uint32_t most, struct err *err)
{
        if (memory_mb < BUILD_MEMORY_MIN_MB)
                return err_set(err, ERR_INVALID, "Memory must be at least %u MiB", BUILD_MEMORY_MIN_MB);
        if (memory_mb % 2)
                return err_set(err, ERR_INVALID, "Memory must be divisible by 2");
        if (memory_mb > most)
                return err_set(err, ERR_INVALID,
                               "Memory can't be higher than %u MiB (if you need to increase this limit, please contact "
                               "support)",
                               most);
        return 0;
}

bool build_agent_is_root_default(struct str agent)
{
        static const char *const sdks[] = {"e2b-js-sdk/", "e2b-python-sdk/"};
        uint32_t major, minor;
        struct str part;

        for (size_t i = 0; i < ARRAY_LEN(sdks); i++) {
                if (!str_starts(agent, sdks[i]))
                        continue;
                agent = (struct str){agent.p + strlen(sdks[i]), agent.n - strlen(sdks[i])};
                (void)str_cut(&agent, '.', &part);
                if (parse_u32(part, 0, 1000000, &major) < 0)
                        return false;
                (void)str_cut(&agent, '.', &part);
                if (parse_u32(part, 0, 1000000, &minor) < 0)
                        return false;
                return major < 2 || (major == 2 && minor < 3);
        }
        return false;
}
