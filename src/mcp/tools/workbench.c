#include "mcp/tools/workbench.h"

#include "mcp/protocol/session.h"
#include "mcp/tools/background.h"
#include "mcp/tools/resources.h"
#include "mcp/tools/shell.h"

struct workbench *workbench_of(struct session *s)
{
        struct workbench *w = s->user ? s->user : calloc(1, sizeof(*w));

        if (w && !s->user) {
                list_init(&w->commands);
                list_init(&w->shell_queue);
                s->user = w;
        }
        return w;
}

bool workbench_is_busy(const struct session *s)
{
        const struct workbench *w = s->user;

        return w && background_runs(w);
}

void workbench_rest(struct session *s)
{
        struct workbench *w = s->user;

        if (!w || !w->shell)
                return;
        w->shell = shell_free(w->shell);
        w->shell_loss = SHELL_RESTED;
}

void workbench_end(struct session *s)
{
        struct workbench *w = s->user;

        if (!w)
                return;
        background_end_all(w);
        w->shell = shell_free(w->shell);
        w->watches = session_watches_free(w->watches);
        free(w);
        s->user = NULL;
}
