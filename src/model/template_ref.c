#include "model/template_ref.h"

#include <stdio.h>

#include "base/err.h"

static bool is_name(struct str s, const char *also)
{
        if (s.n == 0)
                return false;
        for (size_t i = 0; i < s.n; i++) {
                char c = s.p[i];

                if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr(also, c))))
                        return false;
        }
        return true;
}

static void template_ref_copy(char out[TEMPLATE_REF_MAX + 1], struct str s)
{
        if (s.n)
                memcpy(out, s.p, s.n); /* at most TEMPLATE_REF_MAX: a part of the checked whole */
        out[s.n] = 0;
}

/* Blanks off, letters lowered; false when nothing sensible can be left of it. */
static bool normalise(struct str text, char out[TEMPLATE_REF_MAX + 1], struct str *ret)
{
        text = str_trim(text);
        if (text.n > TEMPLATE_REF_MAX)
                return false;
        for (size_t i = 0; i < text.n; i++)
                out[i] = text.p[i] >= 'A' && text.p[i] <= 'Z' ? (char)(text.p[i] + 32) : text.p[i];
        out[text.n] = 0;
        *ret = (struct str){out, text.n};
        return true;
}

int template_ref_parse(struct str text, struct template_ref *ret, struct err *err)
{
        char lowered[TEMPLATE_REF_MAX + 1];
        struct template_ref ref = {0};
        struct str rest, name, ns = {"", 0};
        bool has_tag, has_ns;

        if (!normalise(text, lowered, &rest))
                return err_set(err, ERR_INVALID, "invalid template ID: longer than %d characters", TEMPLATE_REF_MAX);
        has_tag = str_cut(&rest, ':', &name);
        if (has_tag && !is_name(rest, "-_."))
                return err_set(err, ERR_INVALID, "invalid tag: %.*s", STR_ARG(rest));
        template_ref_copy(ref.tag, rest);

        has_ns = memchr(name.p, '/', name.n);
        if (has_ns)
                (void)str_cut(&name, '/', &ns);
        if (has_ns && !is_name(ns, "-_"))
                return err_set(err, ERR_INVALID, "invalid namespace: %.*s", STR_ARG(ns));
        if (!is_name(name, "-_"))
                return err_set(err, ERR_INVALID, "invalid template ID: %.*s", STR_ARG(name));
        template_ref_copy(ref.ns, ns);
        template_ref_copy(ref.name, name);
        *ret = ref;
        return 0;
}

bool template_ref_is_newest(const struct template_ref *ref)
{
        return !ref->tag[0] || strcmp(ref->tag, "default") == 0 || strcmp(ref->tag, "latest") == 0;
}
