#include "engine/records/origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "model/plan.h"
#include "sys/fs.h"

void origin_write(int dir, const char *whose, const json_t *origin)
{
        AUTO_FREE char *text = origin ? json_dumps(origin, JSON_COMPACT) : NULL;

        if (text)
                origin_put(dir, whose, text, strlen(text));
        else if (origin)
                log_warn("origin.unwritten", "of=%s error=\"out of memory\", going on without", whose);
}

void origin_put(int dir, const char *whose, const char *text, size_t len)
{
        int r = sys_replace_at(dir, ORIGIN_FILE, text, len, 0600);

        if (r < 0)
                log_warn("origin.unwritten", "of=%s error=\"%s\", going on without", whose, strerror(-r));
}

json_t *origin_read(int dir, struct err *err)
{
        AUTO_FREE char *text = malloc(PLAN_ORIGIN_MAX + 1);
        ssize_t n = text ? sys_read_at(dir, ORIGIN_FILE, text, PLAN_ORIGIN_MAX + 1) : -ENOMEM;
        json_error_t why;
        json_t *obj;

        if (n < 0) {
                (void)err_sys(err, (int)n, ORIGIN_FILE);
                return NULL;
        }
        obj = json_loads(text, JSON_REJECT_DUPLICATES, &why);
        if (!obj)
                (void)err_set(err, ERR_INVALID, ORIGIN_FILE ": %s", why.text);
        return obj;
}
