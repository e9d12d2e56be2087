/* The processes that run in a sandbox: listed, and reached by their number. */
#include <signal.h>
#include <string.h>

#include "client/block.h"
#include "client/command/command.h"
#include "client/command/tag.h"
#include "wire/base64.h"

/* ---- list ---- */

static int read_args(const json_t *config, void *block, struct sg_process *p)
{
        const json_t *args = json_object_get(config, "args");
        size_t n = json_array_size(args);
        const char **list = block_add(block, (n + 1) * sizeof(*list));

        if (!list)
                return -1;
        for (size_t i = 0; i < n; i++) {
                list[i] = block_text(block, str_of(json_string_value(json_array_get(args, i))));
                if (!list[i])
                        return -1;
        }
        p->args = list;
        return 0;
}

static int read_env(json_t *envs, void *block, struct sg_process *p)
{
        struct sg_pair *env = block_add(block, (json_object_size(envs) + 1) * sizeof(*env));
        const char *name;
        json_t *value;
        size_t n = 0;

        if (!env)
                return -1;
        json_object_foreach (envs, name, value) {
                env[n] = (struct sg_pair){block_text(block, str_of(name)),
                                          block_text(block, str_of(json_string_value(value)))};
                if (!env[n].name || !env[n].value)
                        return -1;
                n++;
        }
        p->env = env;
        return 0;
}

static int read_process(const json_t *obj, void *block, struct sg_process *p)
{
        const json_t *config = json_object_get(obj, "config");

        *p = (struct sg_process){
                .pid = (uint32_t)json_integer_value(json_object_get(obj, "pid")),
                .command = block_text(block, str_of(json_string_value(json_object_get(config, "cmd")))),
                .cwd = block_text(block, str_of(json_string_value(json_object_get(config, "cwd")))),
                .tag = block_text(block, str_of(json_string_value(json_object_get(obj, "tag")))),
        };
        if (p->tag && tag_is_ours(p->tag))
                p->tag = "";
        if (!p->command || !p->cwd || !p->tag || read_args(config, block, p) < 0)
                return -1;
        return read_env(json_object_get(config, "envs"), block, p);
}

static int read_list(const json_t *array, struct sg_process_list **ret, struct sg_error *err)
{
        AUTO(block_free_p) struct sg_process_list *list = block_create(sizeof(*list));
        size_t n = json_array_size(array);
        struct sg_process *items = list ? block_add(list, (n + 1) * sizeof(*items)) : NULL;

        if (!items)
                return error_no_memory(err);
        for (size_t i = 0; i < n; i++)
                if (read_process(json_array_get(array, i), list, &items[i]) < 0)
                        return error_no_memory(err);
        *list = (struct sg_process_list){.count = n, .items = items};
        *ret = TAKE_PTR(list);
        return 0;
}

int sg_process_list(struct sg_sandbox *box, const struct sg_call *call, struct sg_process_list **ret,
                    struct sg_error *err)
{
        json_t *got = NULL;
        struct limit l;
        int r = limit_begin(&l, call, box->client->timeout_ms, err);

        if (r == 0)
                r = envd_call(
                        box,
                        &(struct envd_call){.method = "/process.Process/List", .body = json_object(), .repeats = true},
                        &l, &got, err);
        if (r == 0)
                r = read_list(json_object_get(got, "processes"), ret, err);
        json_decref(got);
        return r;
}

/* ---- by number ---- */

int sg_process_signal(struct sg_sandbox *box, uint32_t pid, int number, const struct sg_call *call,
                      struct sg_error *err)
{
        const char *name = number == SIGTERM ? "SIGNAL_SIGTERM" : number == SIGKILL ? "SIGNAL_SIGKILL" : NULL;
        struct limit l;
        int r;

        if (!name)
                return error_set(err, SG_INVALID, "signal %d cannot be sent: SIGTERM and SIGKILL can", number);
        if (!pid)
                return error_set(err, SG_INVALID, "0 is no process id");
        r = limit_begin(&l, call, box->client->timeout_ms, err);
        if (r < 0)
                return r;
        return envd_call(box,
                         &(struct envd_call){
                                 .method = "/process.Process/SendSignal",
                                 .body = json_pack("{s:{s:I}, s:s}", "process", "pid", (json_int_t)pid, "signal", name),
                                 .repeats = true},
                         &l, NULL, err);
}

static json_t *input_body(uint32_t pid, bool is_terminal, const uint8_t *bytes, size_t n)
{
        AUTO_BUF struct buf text = BUF_INIT(BASE64_LEN(INPUT_PIECE) + 1);

        if (base64_add(&text, bytes, n, true) < 0)
                return NULL;
        return json_pack("{s:{s:I}, s:{s:s%}}", "process", "pid", (json_int_t)pid, "input",
                         is_terminal ? "pty" : "stdin", buf_at(&text), text.len);
}

int sg_process_send(struct sg_sandbox *box, uint32_t pid, bool is_terminal, const void *bytes, size_t len,
                    const struct sg_call *call, struct sg_error *err)
{
        const uint8_t *at = bytes;
        struct limit l;
        int r = check_bytes(bytes, len, "what is to be sent", err);

        if (r == 0)
                r = pid ? limit_begin(&l, call, box->client->timeout_ms, err)
                        : error_set(err, SG_INVALID, "0 is no process id");
        while (r == 0 && len) {
                size_t n = len < INPUT_PIECE ? len : INPUT_PIECE;

                r = envd_call(box,
                              &(struct envd_call){.method = "/process.Process/SendInput",
                                                  .body = input_body(pid, is_terminal, at, n)},
                              &l, NULL, err);
                at += n;
                len -= n;
        }
        return r;
}
