/* libsandglass while memory runs out: every call fails in an orderly way, with an explanation. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "fake_server.h"
#include "fault.h"
#include "sandglass.h"

#define ID "iabcdefghij0123456789"
#define BOX                                                                                                            \
        "{\"sandboxID\":\"" ID "\",\"envdAccessToken\":\"tok\",\"templateID\":\"t\",\"state\":\"running\","            \
        "\"metadata\":{\"a\":\"b\"}}"

static struct fake_server server;

static const struct {
        const char *path, *body;
        size_t n;
} replies[] = {
        {"POST /v2/sandboxes ", BOX, 0},
        {"GET /v2/sandboxes", "[" BOX "," BOX "]", 0},
        {"GET /snapshots", "[{\"snapshotID\":\"s\",\"names\":[\"n\"]}]", 0},
        {"GET /sandboxes/", BOX, 0},
        {"POST /process.Process/List", "{\"processes\":[{\"pid\":3,\"config\":{\"cmd\":\"x\",\"args\":[\"y\"]}}]}", 0},
        {"POST /process.Process/S", NULL, 0}, /* Start, SendInput */
        {"POST /filesystem.Filesystem/Stat", "{\"entry\":{\"name\":\"a\",\"path\":\"/a\",\"size\":\"3\"}}", 0},
        {"GET /files", "content", 0},
        {"POST /execute",
         "{\"type\":\"result\",\"text\":\"1\",\"is_main_result\":true}\n{\"type\":\"end_of_execution\"}\n", 0},
};

/* Start: a process that says hello and ends. */
static size_t write_stream(char *out)
{
        static const char *const messages[] = {
                "{\"event\":{\"start\":{\"pid\":7}}}",
                "{\"event\":{\"data\":{\"stdout\":\"aGVsbG8=\"}}}",
                "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}",
                "{}",
        };
        size_t n = 0;

        for (size_t i = 0; i < 4; i++) {
                size_t len = strlen(messages[i]);
                const char head[] = {i == 3 ? 2 : 0, 0, 0, 0, (char)len};

                memcpy(out + n, head, sizeof(head));
                memcpy(out + n + sizeof(head), messages[i], len);
                n += sizeof(head) + len;
        }
        return n;
}

static void on_request(const char *request, size_t n, unsigned number, struct fake_answer *ret)
{
        static _Thread_local char text[4096], body[2048];
        size_t len = 2, head;

        (void)n;
        (void)number;
        memcpy(body, "{}", 2);
        for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++) {
                if (strncmp(request, replies[i].path, strlen(replies[i].path)) != 0)
                        continue;
                len = replies[i].body ? strlen(replies[i].body) : write_stream(body);
                if (replies[i].body)
                        memcpy(body, replies[i].body, len);
                break;
        }
        head = (size_t)snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", len);
        memcpy(text + head, body, len);
        *ret = (struct fake_answer){.bytes = text, .n = head + len};
}

/* ---- scenarios ---- */

static struct sg_error err;

static int open_client(struct sg_client **ret)
{
        const struct sg_pair headers[] = {{"X-A", "b"}, {NULL, NULL}};
        const struct sg_client_options o = {.api_key = "k",
                                            .api_url = server.url,
                                            .sandbox_url = server.url,
                                            .headers = headers,
                                            .retries = SG_NO_RETRIES,
                                            .user_agent = "test"};

        return sg_client_open(&o, ret, &err);
}

static int explained(int r) /* a failure has a kind and words */
{
        return r < 0 && (err.kind == SG_OK || !err.message[0]) ? BROKEN("no explanation") : r;
}

static int sandboxes(void)
{
        const struct sg_pair env[] = {{"A", "b"}, {NULL, NULL}};
        struct sg_client *c = NULL;
        struct sg_sandbox *box = NULL;
        struct sg_info *info = NULL;
        struct sg_info_list *list = NULL;
        struct sg_snapshot_list *snapshots = NULL;
        int r = open_client(&c);

        if (r == 0)
                r = sg_sandbox_create(c, &(struct sg_create_options){.env = env, .network_json = "{}"}, NULL, &box,
                                      &err);
        if (r == 0)
                r = sg_sandbox_get(c, ID, NULL, &info, &err);
        if (r == 0)
                r = sg_sandbox_list(c, NULL, NULL, &list, &err);
        if (r == 0)
                r = sg_snapshot_list(c, ID, NULL, &snapshots, &err);
        sg_free(info);
        sg_free(list);
        sg_free(snapshots);
        sg_sandbox_free(box);
        sg_client_free(c);
        return explained(r);
}

static int with_box(int (*scenario)(struct sg_sandbox *box))
{
        const struct sg_identity who = {.id = ID, .access_token = "tok"};
        struct sg_client *c = NULL;
        struct sg_sandbox *box = NULL;
        int r = open_client(&c);

        if (r == 0)
                r = sg_sandbox_assume(c, &who, &box, &err);
        if (r == 0)
                r = scenario(box);
        sg_sandbox_free(box);
        sg_client_free(c);
        return explained(r);
}

static int run_commands(struct sg_sandbox *box)
{
        const struct sg_command_options options = {.input = "in", .input_len = 2, .user = "root"};
        struct sg_result *result = NULL;
        struct sg_process_list *list = NULL;
        int r = sg_run(box, "x", &options, NULL, &result, &err);

        if (r == 0 && !result->is_cut)
                MUST(strcmp(result->out, "hello") == 0);
        if (r == 0)
                r = sg_process_list(box, NULL, &list, &err);
        sg_free(result);
        sg_free(list);
        return r;
}
static int commands(void)
{
        return with_box(run_commands);
}

static int use_files(struct sg_sandbox *box)
{
        struct sg_file *file = NULL;
        char *content = NULL, *url = NULL;
        int r = sg_file_write(box, "a", "b", 1, NULL, NULL, &err);

        if (r == 0)
                r = sg_file_stat(box, "a", NULL, NULL, &file, &err);
        if (r == 0)
                r = sg_file_read(box, "a", NULL, NULL, &content, NULL, &err);
        if (r == 0)
                r = sg_file_url(box, "a", true, "u", 5, &url, &err);
        sg_free(file);
        sg_free(content);
        sg_free(url);
        return r;
}
static int files(void)
{
        return with_box(use_files);
}

static int run_code(struct sg_sandbox *box)
{
        const struct sg_pair env[] = {{"A", "b"}, {NULL, NULL}};
        struct sg_code_result *result = NULL;
        int r = sg_run_code(box, "1", 1, &(struct sg_code_options){.env = env}, NULL, &result, &err);

        if (r == 0 && !result->is_cut)
                MUST(strcmp(result->text, "1") == 0);
        sg_free(result);
        return r;
}
static int code(void)
{
        return with_box(run_code);
}

static int cancelling(void)
{
        struct sg_cancel *cancel = NULL;
        int r = sg_cancel_create_fd(server.fd, &cancel, &err);

        sg_cancel_free(cancel);
        return explained(r);
}

int main(void)
{
        pid_t child;

        server.on_request = on_request;
        if (!fake_listen(&server))
                return 1;
        (void)fflush(stdout);
        child = fork();
        if (child == 0) {
                (void)fake_accept(&server);
                _exit(0);
        }
        EACH(sandboxes);
        EACH(commands);
        EACH(files);
        EACH(code);
        EACH(cancelling);
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        (void)close(server.fd);
        return fault_done();
}
