#include "serve/setup/mirror.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "serve/setup/command.h"
#include "serve/setup/datadir.h"

struct mirror_search {
        char codename[64];
        char *found; /* owned */
};

static void host_codename(char out[64])
{
        AUTO_BUF struct buf text = BUF_INIT(16u << 10);
        struct str rest, line;
        bool more;

        out[0] = 0;
        if (file_read("/usr/lib/os-release", &text) < 0)
                return;
        rest = (struct str){(const char *)buf_at(&text), text.len};
        do {
                more = str_cut(&rest, '\n', &line);
                if (str_starts(line, "VERSION_CODENAME="))
                        (void)snprintf(out, 64, "%.*s", (int)line.n - 17, line.p + 17);
        } while (more);
}

/* "URI release component": the first archive that has this host's own release. */
static void on_target_line(struct str line, void *arg)
{
        struct mirror_search *m = arg;
        struct str uri, release;

        if (!m->found && str_cut(&line, ' ', &uri) && str_cut(&line, ' ', &release) && str_is(release, m->codename) &&
            str_is(line, "main") && (str_starts(uri, "http://") || str_starts(uri, "https://")))
                m->found = str_dup(uri);
}

int mirror_find(const char *given, char **ret, struct err *err)
{
        const char *const argv[] = {
                "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages",
                NULL};
        struct mirror_search m = {0};
        const struct command c = {.argv = argv, .on_line = on_target_line, .arg = &m};
        int r;

        if (given) {
                m.found = strdup(given);
                if (!m.found)
                        return err_set(err, ERR_LIMIT, "out of memory");
                *ret = m.found;
                return 0;
        }
        host_codename(m.codename);
        r = command_run(&c, err);
        if (r < 0) {
                free(m.found);
                return r;
        }
        if (!m.found)
                return err_set(err, ERR_NOT_FOUND,
                               "no Debian mirror in this host's apt configuration: give --mirror URL");
        *ret = m.found;
        return 0;
}
