#include "control/catalogue/templates.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

/* A change within this time before the scan may have the same timestamp as a later change. */
#define SAME_TIMESTAMP_NS INT64_C(1000000000)

int templates_init(struct templates *t, const char *dir, const struct template_defaults *defaults, struct err *err)
{
        *t = (struct templates){.defaults = *defaults, .dir = strdup(dir)};
        return t->dir ? 0 : err_sys(err, -ENOMEM, "templates");
}

static void templates_forget(struct templates *t)
{
        map_done(&t->by_name);
        for (size_t i = 0; i < t->count; i++)
                template_free(t->all[i]);
        t->count = 0;
}

void templates_done(struct templates *t)
{
        templates_forget(t);
        free(t->all);
        free(t->dir);
        *t = (struct templates){0};
}

void templates_refresh(struct templates *t)
{
        t->is_fresh = false;
}

static int template_read_manifest(int dir, const char *name, json_t **ret, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(TEMPLATE_MANIFEST_MAX);
        AUTO_CLOSE int fd = -1;
        json_error_t why;
        ssize_t n;

        fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return err_sys(err, -errno, "open");
        while ((n = buf_fill(&text, fd, 8192)) > 0)
                ;
        if (n < 0)
                return err_sys(err, (int)n, "read");
        *ret = json_loadb((const char *)buf_at(&text), text.len, JSON_REJECT_DUPLICATES, &why);
        if (!*ret)
                return err_set(err, ERR_INVALID, "line %d column %d: %s", why.line, why.column, why.text);
        return 0;
}

static int templates_add(struct templates *t, struct template *one) /* takes `one`, also on failure */
{
        int r;

        if (t->count == t->cap) {
                size_t cap = t->cap ? t->cap * 2 : 8;
                struct template **all = reallocarray(t->all, cap, sizeof(*all));

                if (!all) {
                        template_free(one);
                        return -ENOMEM;
                }
                t->all = all;
                t->cap = cap;
        }
        t->all[t->count++] = one;
        r = map_put(&t->by_name, str_of(one->id), one, NULL);
        return r < 0 ? r : map_put(&t->by_name, str_of(one->alias), one, NULL);
}

static void templates_take_file(struct templates *t, int dir, const char *name)
{
        struct template *one = NULL;
        char shown[LOG_ESCAPED_MAX];
        json_t *manifest = NULL;
        struct err err = {0};
        int r;

        r = template_read_manifest(dir, name, &manifest, &err);
        if (r == 0)
                r = template_decode(manifest, &t->defaults, &one, &err);
        json_decref(manifest);
        if (r == 0 && templates_add(t, one) < 0)
                r = err_sys(&err, -ENOMEM, "template");
        if (r < 0)
                log_warn("template.skipped", "file=%s reason=\"%s\"", log_escape(str_of(name), shown), err.msg);
}

static void templates_scan(struct templates *t)
{
        DIR *d = opendir(t->dir);
        struct dirent *e;
        size_t files = 0;

        templates_forget(t);
        if (!d) {
                log_warn("template.scan", "failed=\"%s\"", strerror(errno));
                return;
        }
        while ((e = readdir(d))) {
                if (e->d_name[0] == '.' || !str_ends(str_of(e->d_name), ".json"))
                        continue;
                if (++files > TEMPLATES_MAX) {
                        log_warn("template.scan", "more than %d manifests, ignoring the rest", TEMPLATES_MAX);
                        break;
                }
                templates_take_file(t, dirfd(d), e->d_name);
        }
        (void)closedir(d);
        log_info("template.scan", "templates=%zu", t->count);
}

static void templates_scan_if_changed(struct templates *t)
{
        struct stat st = {0};
        int64_t age;

        if (stat(t->dir, &st) < 0)
                st = (struct stat){0}; /* the scan logs why */
        if (t->is_fresh && st.st_ctim.tv_sec == t->seen.tv_sec && st.st_ctim.tv_nsec == t->seen.tv_nsec)
                return;
        t->seen = st.st_ctim;
        age = clock_real_ns() - ((int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec);
        t->is_fresh = age > SAME_TIMESTAMP_NS || age < 0;
        templates_scan(t);
}

int templates_find(struct templates *t, const struct template_ref *ref, const char *slug, const struct template **ret,
                   struct err *err)
{
        const struct template *found = NULL;

        templates_scan_if_changed(t);
        if (!ref->ns[0] || strcmp(ref->ns, slug) == 0)
                found = map_get(&t->by_name, str_of(ref->name));
        if (!found && ref->ns[0])
                return err_set(err, ERR_NOT_FOUND, "template '%s/%s' not found", ref->ns, ref->name);
        if (!found)
                return err_set(err, ERR_NOT_FOUND, "template '%s' not found", ref->name);
        if (!template_ref_is_newest(ref))
                return err_set(err, ERR_NOT_FOUND, "tag '%s' does not exist for template '%s'", ref->tag, ref->name);
        *ret = found;
        return 0;
}

bool templates_has(struct templates *t, const char *name)
{
        templates_scan_if_changed(t);
        return map_get(&t->by_name, str_of(name));
}
