/* GET /sandboxes/{sandbox_id}/ports: what listens in the sandbox, with the URL that leads there. */
#include <stdlib.h>

#include "agent/api/commands.h"
#include "agent/api/handlers.h"
#include "agent/api/show.h"
#include "agent/exchange/ask.h"
#include "agent/exchange/exchange.h"
#include "agent/exchange/sandbox_find.h"
#include "agent/request/listening.h"
#include "base/err.h"
#include "model/ids.h"
#include "model/json_field.h"

#define TABLES_MAX (4u << 20)

struct ports_read {
        struct envd_process *process; /* owned */
        struct buf text;
};

static void ports_free(struct exchange *x)
{
        struct ports_read *p = x->job;

        p->process = envd_process_free(p->process);
        buf_done(&p->text);
        free(p);
}

static void ports_tell(struct exchange *x)
{
        struct ports_read *p = x->job;
        struct listening_port *all = calloc(LISTENING_MAX, sizeof(*all));
        json_t *list = json_array();
        size_t n;

        n = all ? listening_parse((struct str){p->text.len ? (const char *)buf_at(&p->text) : "", p->text.len}, all)
                : 0;
        for (size_t i = 0; i < n; i++) {
                json_t *url;

                if (all[i].port == ENVD_PORT)
                        continue; /* the daemon's, not the user's */
                url = agent_show_url(x->sandbox.id, x->sandbox.domain, all[i].port);
                (void)json_array_append_new(list, json_pack("{s:i,s:s,s:o}", "port", all[i].port, "address",
                                                            all[i].is_local ? "loopback" : "any", "url", url));
        }
        free(all);
        tell_json(x, 200, json_with(json_object(), "ports", list));
}

static void ports_on_output(const struct envd_piece *piece, void *arg)
{
        struct ports_read *p = ((struct exchange *)arg)->job;

        if (piece->kind == ENVD_STDOUT)
                (void)buf_add(&p->text, piece->bytes.p,
                              piece->bytes.n); /* thousands of ports: the first ones are told */
}

static void ports_on_end(const struct envd_process_end *end, void *arg)
{
        struct exchange *x = arg;
        struct ports_read *p = x->job;
        struct envd_process_end copy = *end;

        p->process = envd_process_free(p->process);
        if (copy.err.kind == ERR_NONE)
                ports_tell(x);
        else
                command_tell_failure(x, &copy);
}

static void ports_start(struct exchange *x)
{
        struct ports_read *p = x->job;
        struct envd_process_options opt = {.user = "root",
                                           .cmd = "/bin/cat",
                                           .cwd = "/",
                                           .args = json_pack("[s,s]", "/proc/net/tcp", "/proc/net/tcp6"),
                                           .timeout_s = 10,
                                           .on_output = ports_on_output,
                                           .on_end = ports_on_end,
                                           .arg = x};
        struct ask_headers h;
        struct err err = {0};

        ask_headers_of(x, ENVD_PORT, &h);
        opt.headers = h.list;
        if (!opt.args)
                tell_no_memory(x);
        else if (envd_process_start(x->agent->edge, &opt, &p->process, &err) < 0)
                tell_err(x, &err);
        json_decref(opt.args);
}

void agent_list_ports(struct exchange *x)
{
        struct ports_read *p = calloc(1, sizeof(*p));

        if (!p) {
                tell_no_memory(x);
                return;
        }
        buf_init(&p->text, TABLES_MAX);
        x->job = p;
        x->job_free = ports_free;
        sandbox_find_running(x, ports_start);
}
