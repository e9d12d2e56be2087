/* Every call of libsandglass against a real server: library ENV_FILE.  Run by library.test.mjs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandglass.h"
#include "tap.h"

#define FREE_BLOCK __attribute__((cleanup(free_block)))
#define NEED(call)                                                                                                     \
        do {                                                                                                           \
                if ((call) < 0) {                                                                                      \
                        printf("# %s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, err.message,                       \
                               sg_error_name(err.kind));                                                               \
                        tap_case_failed = 1;                                                                           \
                        return;                                                                                        \
                }                                                                                                      \
        } while (0)

static const char *env_file;
static struct sg_client *client;
static struct sg_sandbox *box;

static void free_block(void *p)
{
        sg_free(*(void **)p);
}

struct text { /* collected output */
        char bytes[1 << 16];
        size_t n;
        uint64_t total;
};

static int collect(const char *bytes, size_t len, void *arg)
{
        struct text *t = arg;
        size_t room = sizeof(t->bytes) - 1 - t->n, n = len < room ? len : room;

        memcpy(t->bytes + t->n, bytes, n);
        t->n += n;
        t->bytes[t->n] = 0;
        t->total += len;
        return 0;
}

/* ---- sandboxes ---- */

static void a_sandbox_is_created_with_variables_and_metadata(void)
{
        const struct sg_pair env[] = {{"GREETING", "hello"}, {NULL, NULL}};
        const struct sg_pair metadata[] = {{"a b", "c/d&e"}, {NULL, NULL}};
        const struct sg_create_options options = {.timeout_s = 600, .env = env, .metadata = metadata};
        const struct sg_list_options with = {.metadata = metadata};
        FREE_BLOCK struct sg_result *result = NULL;
        FREE_BLOCK struct sg_info *info = NULL;
        FREE_BLOCK struct sg_info_list *list = NULL;
        struct sg_error err = {0};

        NEED(sg_client_open_from_file(env_file, NULL, &client, &err));
        NEED(sg_sandbox_create(client, &options, NULL, &box, &err));
        NEED(sg_run(box, "echo -n $GREETING", NULL, NULL, &result, &err));
        CHECK_STR(result->out, "hello");
        NEED(sg_sandbox_get(client, sg_sandbox_id(box), NULL, &info, &err));
        CHECK_STR(info->id, sg_sandbox_id(box));
        CHECK_INT(info->state, ==, SG_STATE_RUNNING);
        CHECK_STR(info->alias, "base");
        CHECK_STR(info->metadata[0].value, "c/d&e");
        CHECK_INT(info->ends_ms, >, info->started_ms);
        NEED(sg_sandbox_list(client, &with, NULL, &list, &err));
        CHECK_INT(list->count, ==, 1);
        CHECK_STR(list->items[0].id, info->id);
}

static void its_time_limit_can_be_set(void)
{
        FREE_BLOCK struct sg_info *before = NULL, *after = NULL;
        struct sg_error err = {0};

        NEED(sg_sandbox_get(client, sg_sandbox_id(box), NULL, &before, &err));
        NEED(sg_sandbox_set_timeout(client, sg_sandbox_id(box), 3000, NULL, &err));
        NEED(sg_sandbox_get(client, sg_sandbox_id(box), NULL, &after, &err));
        CHECK_INT(after->ends_ms, >, before->ends_ms);
}

static void one_can_be_opened_connected_to_or_assumed(void)
{
        const struct sg_identity who = {.id = sg_sandbox_id(box), .access_token = sg_sandbox_access_token(box)};
        struct sg_sandbox *same[3] = {0};
        struct sg_error err = {0};

        NEED(sg_sandbox_open(client, sg_sandbox_id(box), NULL, &same[0], &err));
        NEED(sg_sandbox_connect(client, sg_sandbox_id(box), 60, NULL, &same[1], &err));
        NEED(sg_sandbox_assume(client, &who, &same[2], &err));
        for (int i = 0; i < 3; i++) {
                FREE_BLOCK struct sg_result *result = NULL;

                CHECK_STR(sg_sandbox_access_token(same[i]), sg_sandbox_access_token(box));
                NEED(sg_run(same[i], "echo $E2B_SANDBOX_ID", NULL, NULL, &result, &err));
                CHECK(strstr(result->out, sg_sandbox_id(box)));
                sg_sandbox_free(same[i]);
        }
}

static void a_sandbox_that_is_not_there_is_not_found(void)
{
        struct sg_sandbox *none;
        struct sg_error err;

        CHECK_INT(sg_sandbox_open(client, "i00000000000000000000", NULL, &none, &err), ==, -ENOENT);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        CHECK_INT(err.http_status, ==, 404);
        CHECK_INT(sg_sandbox_kill(client, "i00000000000000000000", NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        CHECK_INT(sg_sandbox_kill(client, "../etc", NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        CHECK_INT(err.http_status, ==, 0);
        CHECK_INT(sg_sandbox_create(client, &(struct sg_create_options){.template_name = "no-such"}, NULL, &none, &err),
                  <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
}

static void ports_have_hosts_and_urls(void)
{
        FREE_BLOCK char *host = NULL, *url = NULL;
        struct sg_error err = {0};
        char want[300];

        NEED(sg_sandbox_host(box, 8000, &host, &err));
        NEED(sg_sandbox_url(box, 8000, &url, &err));
        (void)snprintf(want, sizeof(want), "8000-%s.%s", sg_sandbox_id(box), sg_sandbox_domain(box));
        CHECK_STR(host, want);
        CHECK_STR(url + strlen("https://"), want);
        CHECK_INT(sg_sandbox_host(box, 0, &host, &err), <, 0);
}

/* ---- commands ---- */

static void output_and_exit_code_come_back(void)
{
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_error err = {0};

        NEED(sg_run(box, "echo out; echo err >&2; exit 7", NULL, NULL, &result, &err));
        CHECK_INT(result->exit_code, ==, 7);
        CHECK_STR(result->out, "out\n");
        CHECK_STR(result->err, "err\n");
        CHECK_STR(result->message, "exit status 7");
}

static void a_signal_is_told_as_shells_do(void)
{
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_error err = {0};

        NEED(sg_run(box, "kill -9 $$", NULL, NULL, &result, &err));
        CHECK_INT(result->exit_code, ==, 137);
        CHECK_INT(result->signal, ==, SIGKILL);
}

static void words_are_not_interpreted(void)
{
        static const char *const argv[] = {"printf", "%s|", "a b", "$HOME", "it's", NULL};
        const struct sg_pair env[] = {{"X", "1"}, {NULL, NULL}};
        const struct sg_command_options options = {.env = env, .cwd = "/tmp", .user = "root"};
        FREE_BLOCK struct sg_result *words = NULL, *where = NULL;
        struct sg_error err = {0};

        NEED(sg_run_argv(box, argv, NULL, NULL, &words, &err));
        CHECK_STR(words->out, "a b|$HOME|it's|");
        NEED(sg_run(box, "echo $X $PWD $(id -un)", &options, NULL, &where, &err));
        CHECK_STR(where->out, "1 /tmp root\n");
}

static void output_comes_by_callback_and_input_passes_through(void)
{
        static struct text text;
        static char input[300000];
        const struct sg_command_options options = {
                .on_stdout = collect, .arg = &text, .input = input, .input_len = sizeof(input)};
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_error err = {0};

        memset(input, 'x', sizeof(input));
        NEED(sg_run(box, "cat", &options, NULL, &result, &err));
        CHECK_INT(text.total, ==, sizeof(input));
        CHECK_INT(result->out_len, ==, 0);
        CHECK_INT(result->exit_code, ==, 0);
}

static void input_comes_from_a_file(void)
{
        char name[] = "/tmp/sandglass-library-XXXXXX";
        int fd = mkstemp(name);
        const struct sg_command_options options = {.reads_fd = true, .input_fd = fd};
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_error err = {0};
        int r;

        (void)unlink(name);
        CHECK(fd >= 0 && ftruncate(fd, 100001) == 0);
        r = sg_run(box, "wc -c", &options, NULL, &result, &err);
        (void)close(fd);
        NEED(r);
        CHECK_STR(result->out, "100001\n");
}

static void kept_output_has_a_limit(void)
{
        const struct sg_command_options options = {.kept_max = 1000};
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_error err = {0};

        NEED(sg_run(box, "head -c 5000 /dev/zero | tr '\\0' z", &options, NULL, &result, &err));
        CHECK_INT(result->out_len, ==, 1000);
        CHECK(result->is_cut);
}

static void a_command_that_takes_too_long_is_killed(void)
{
        const struct sg_command_options options = {.timeout_ms = 300, .tag = "slow"};
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_error err = {0};
        bool is_there = true;

        CHECK_INT(sg_run(box, "sleep 1000", &options, NULL, &result, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_TIMEOUT);
        while (is_there) { /* until it is reaped */
                FREE_BLOCK struct sg_process_list *list = NULL;

                NEED(sg_process_list(box, NULL, &list, &err));
                is_there = false;
                for (size_t i = 0; i < list->count; i++)
                        is_there |= strcmp(list->items[i].tag, "slow") == 0;
        }
}

/* Some of these limits pass before the start is told. */
static void a_command_that_nobody_waits_for_is_killed_however_early(void)
{
        const struct sg_command_options options = {.timeout_ms = SG_NO_TIMEOUT};
        struct sg_error err = {0};
        bool is_there = true;

        for (uint32_t ms = 1; ms <= 12; ms++) {
                const struct sg_call call = {.timeout_ms = ms};

                CHECK_INT(sg_run(box, "exec sleep 98701", &options, &call, NULL, &err), <, 0);
                CHECK_INT(err.kind, ==, SG_TIMEOUT);
        }
        while (is_there) { /* until they are reaped */
                FREE_BLOCK struct sg_process_list *list = NULL;

                NEED(sg_process_list(box, NULL, &list, &err));
                is_there = false;
                for (size_t i = 0; i < list->count; i++)
                        for (const char *const *arg = list->items[i].args; *arg; arg++)
                                is_there |= strstr(*arg, "sleep 98701") != NULL;
        }
}

static int refuse(const char *bytes, size_t len, void *arg)
{
        (void)bytes, (void)len, (void)arg;
        return -1;
}

static void a_callback_can_end_the_wait(void)
{
        const struct sg_command_options options = {.on_stdout = refuse, .timeout_ms = SG_NO_TIMEOUT};
        struct sg_error err = {0};

        CHECK_INT(sg_run(box, "echo x; sleep 1000", &options, NULL, NULL, &err), ==, -ECANCELED);
        CHECK_INT(err.kind, ==, SG_CANCELLED);
}

static void commands_run_in_the_background_and_take_input(void)
{
        static struct text text;
        const struct sg_command_options options = {.has_input = true, .on_stdout = collect, .arg = &text};
        FREE_BLOCK struct sg_process_list *list = NULL;
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_command *command;
        struct sg_error err = {0};
        bool is_listed = false;

        NEED(sg_command_start(box, "read a; echo got $a; cat; exit 3", &options, NULL, &command, &err));
        NEED(sg_process_list(box, NULL, &list, &err));
        for (size_t i = 0; i < list->count; i++)
                is_listed |= list->items[i].pid == sg_command_pid(command) &&
                             strcmp(list->items[i].command, "/bin/bash") == 0 && list->items[i].args[2];
        CHECK(is_listed);
        NEED(sg_command_send(command, "one\n", 4, NULL, &err));
        NEED(sg_process_send(box, sg_command_pid(command), false, "two\n", 4, NULL, &err));
        NEED(sg_command_close_input(command, NULL, &err));
        NEED(sg_command_wait(command, NULL, &result, &err));
        CHECK_INT(result->exit_code, ==, 3);
        CHECK_STR(text.bytes, "got one\ntwo\n");
        CHECK_INT(sg_command_send(command, "x", 1, NULL, &err), <, 0);
        sg_command_free(command);
}

static void waiting_has_a_limit_and_the_command_goes_on(void)
{
        const struct sg_call brief = {.timeout_ms = 50};
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_command *command;
        struct sg_error err = {0};

        NEED(sg_command_start(box, "sleep 1000", NULL, NULL, &command, &err));
        CHECK_INT(sg_command_wait(command, &brief, &result, &err), ==, -ETIMEDOUT);
        CHECK_INT(err.kind, ==, SG_TIMEOUT);
        CHECK_INT(sg_command_poll(command, &err), ==, 0);
        NEED(sg_command_signal(command, SIGTERM, NULL, &err));
        NEED(sg_command_wait(command, NULL, &result, &err));
        CHECK_INT(result->signal, ==, SIGTERM);
        CHECK_INT(sg_process_signal(box, sg_command_pid(command), SIGKILL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        sg_command_free(command);
}

static void a_command_can_be_polled(void)
{
        static struct text text;
        const struct sg_command_options options = {.on_stdout = collect, .arg = &text};
        struct sg_command *command;
        struct sg_error err = {0};
        int r = 0;

        NEED(sg_command_start(box, "for i in 1 2 3; do echo $i; done", &options, NULL, &command, &err));
        while (r == 0) {
                struct pollfd p = {.fd = sg_command_fd(command), .events = POLLIN};

                CHECK_INT(poll(&p, 1, 20000), ==, 1);
                r = sg_command_poll(command, &err);
        }
        CHECK_INT(r, ==, 1);
        CHECK_STR(text.bytes, "1\n2\n3\n");
        sg_command_free(command);
}

static void one_can_listen_again(void)
{
        static struct text text;
        const struct sg_command_options options = {.on_stdout = collect, .arg = &text};
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_command *first, *second;
        struct sg_error err = {0};
        uint32_t pid;

        NEED(sg_command_start(box, "mkfifo /tmp/gate; echo before; read x </tmp/gate; echo after",
                              &(struct sg_command_options){0}, NULL, &first, &err));
        pid = sg_command_pid(first);
        sg_command_free(first);
        NEED(sg_command_attach(box, pid, SG_FROM_KEPT, &options, NULL, &second, &err));
        NEED(sg_run(box, "until test -p /tmp/gate; do :; done; echo go >/tmp/gate", NULL, NULL, NULL, &err));
        NEED(sg_command_wait(second, NULL, &result, &err));
        CHECK_STR(text.bytes, "before\nafter\n");
        CHECK_INT(sg_command_attach(box, 999999, SG_FROM_NOW, NULL, NULL, &first, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        sg_command_free(second);
}

static void a_terminal_has_a_size_that_can_change(void)
{
        static struct text text;
        const struct sg_command_options options = {
                .has_terminal = true, .columns = 90, .rows = 30, .on_stdout = collect, .arg = &text};
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_command *shell;
        struct sg_error err = {0};

        NEED(sg_command_start(box, NULL, &options, NULL, &shell, &err));
        NEED(sg_command_resize(shell, 101, 31, NULL, &err));
        NEED(sg_command_send(shell, "echo size: $(stty size); exit 5\n", 32, NULL, &err));
        NEED(sg_command_wait(shell, NULL, &result, &err));
        CHECK_INT(result->exit_code, ==, 5);
        CHECK(strstr(text.bytes, "size: 31 101"));
        sg_command_free(shell);
}

/* ---- cancelling ---- */

static void *cancel_soon(void *arg)
{
        sg_cancel_now(arg);
        return NULL;
}

static void a_call_is_cancelled_from_another_thread(void)
{
        const struct sg_command_options options = {.timeout_ms = SG_NO_TIMEOUT};
        struct sg_call call = {0};
        struct sg_error err = {0};
        pthread_t thread;

        NEED(sg_cancel_create(&call.cancel, &err));
        CHECK_INT(pthread_create(&thread, NULL, cancel_soon, call.cancel), ==, 0);
        CHECK_INT(sg_run(box, "sleep 1000", &options, &call, NULL, &err), ==, -ECANCELED);
        (void)pthread_join(thread, NULL);
        sg_cancel_reset(call.cancel);
        NEED(sg_run(box, "true", &options, &call, NULL, &err));
        sg_cancel_free(call.cancel);
}

/* ---- files ---- */

static void files_are_written_and_read(void)
{
        FREE_BLOCK char *got = NULL;
        FREE_BLOCK struct sg_file *file = NULL;
        struct sg_error err = {0};
        size_t n;

        NEED(sg_file_write(box, "dir/a file", "hello\0there", 11, NULL, NULL, &err));
        NEED(sg_file_read(box, "/home/user/dir/a file", NULL, NULL, &got, &n, &err));
        CHECK_INT(n, ==, 11);
        CHECK(memcmp(got, "hello\0there", 12) == 0);
        NEED(sg_file_stat(box, "dir/a file", NULL, NULL, &file, &err));
        CHECK_STR(file->name, "a file");
        CHECK_STR(file->path, "/home/user/dir/a file");
        CHECK_INT(file->type, ==, SG_FILE_REGULAR);
        CHECK_INT(file->size, ==, 11);
        CHECK_INT(file->mode, ==, 0644);
        CHECK_STR(file->owner, "user");
        CHECK_INT(file->modified_ms, >, 1600000000000);
        CHECK_INT(sg_file_read(box, "dir/a file", &(struct sg_file_options){.max = 5}, NULL, &got, &n, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_TOO_LARGE);
        CHECK_INT(sg_file_read(box, "nowhere", NULL, NULL, &got, &n, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        CHECK_INT(sg_file_read(box, "", NULL, NULL, &got, &n, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
}

static void directories_are_made_listed_renamed_removed(void)
{
        const struct sg_file_options deep = {.depth = 3};
        FREE_BLOCK struct sg_file_list *list = NULL, *after = NULL;
        struct sg_error err = {0};

        NEED(sg_file_mkdir(box, "tree/sub", NULL, NULL, &err));
        CHECK_INT(sg_file_mkdir(box, "tree/sub", NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_CONFLICT);
        NEED(sg_file_write(box, "tree/sub/x", "", 0, NULL, NULL, &err));
        NEED(sg_file_list(box, "tree", &deep, NULL, &list, &err));
        CHECK_INT(list->count, ==, 2);
        CHECK_STR(list->items[1].path, "/home/user/tree/sub/x");
        NEED(sg_file_rename(box, "tree/sub", "tree/other", NULL, NULL, &err));
        NEED(sg_file_remove(box, "tree/other", NULL, NULL, &err));
        NEED(sg_file_remove(box, "tree/other", NULL, NULL, &err));
        NEED(sg_file_list(box, "tree", NULL, NULL, &after, &err));
        CHECK_INT(after->count, ==, 0);
}

static void files_go_by_descriptors_and_other_users(void)
{
        const struct sg_file_options root = {.user = "root"};
        FREE_BLOCK struct sg_file *file = NULL;
        FREE_BLOCK char *url = NULL;
        struct sg_error err = {0};
        char back[16] = "";
        int pipes[2], self = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);

        CHECK(self >= 0 && pipe(pipes) == 0);
        NEED(sg_file_upload(box, "comm", self, &root, NULL, &err));
        NEED(sg_file_stat(box, "/root/comm", NULL, NULL, &file, &err));
        CHECK_STR(file->owner, "root");
        NEED(sg_file_download(box, "comm", pipes[1], &root, NULL, &err));
        CHECK_INT(read(pipes[0], back, sizeof(back) - 1), ==, (int)file->size);
        CHECK_STR(back, "library\n");
        NEED(sg_file_url(box, "/root/comm", false, "root", 60, &url, &err));
        CHECK(strstr(url, "&signature=v1_") && strstr(url, "&signature_expiration="));
        CHECK_INT(sg_file_download(box, "nowhere", pipes[1], NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        (void)close(self);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
}

struct seen {
        char names[1000];
        unsigned types;
};

static int see(const struct sg_event *event, void *arg)
{
        struct seen *s = arg;

        s->types |= 1u << event->type;
        (void)snprintf(s->names + strlen(s->names), sizeof(s->names) - strlen(s->names), "%s ", event->name);
        return strcmp(event->name, "sub/last") == 0 ? -1 : 0;
}

static void directories_are_watched(void)
{
        static struct seen seen;
        const struct sg_watch_options options = {.on_event = see, .arg = &seen, .is_recursive = true};
        struct sg_watch *watch;
        struct sg_error err = {0};

        NEED(sg_file_mkdir(box, "watched/sub", NULL, NULL, &err));
        NEED(sg_watch_open(box, "watched", &options, NULL, &watch, &err));
        CHECK_INT(sg_watch_poll(watch, &err), ==, 0);
        NEED(sg_file_write(box, "watched/one", "x", 1, NULL, NULL, &err));
        NEED(sg_file_remove(box, "watched/one", NULL, NULL, &err));
        NEED(sg_file_write(box, "watched/sub/last", "x", 1, NULL, NULL, &err));
        CHECK_INT(sg_watch_wait(watch, NULL, &err), ==, -ECANCELED);
        CHECK(strstr(seen.names, "one ") && strstr(seen.names, "sub/last "));
        CHECK((seen.types & 1u << SG_EVENT_CREATE) && (seen.types & 1u << SG_EVENT_REMOVE));
        sg_watch_free(watch);
        CHECK_INT(sg_watch_open(box, "nowhere", &options, NULL, &watch, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
}

/* ---- copies ---- */

static void sandboxes_are_paused_and_resumed(void)
{
        FREE_BLOCK struct sg_info *info = NULL;
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_command *sleeper;
        struct sg_error err = {0};
        uint32_t pid;

        NEED(sg_command_start(box, "sleep 1234", NULL, NULL, &sleeper, &err));
        pid = sg_command_pid(sleeper);
        sg_command_free(sleeper);
        NEED(sg_sandbox_pause(client, sg_sandbox_id(box), false, NULL, &err));
        CHECK_INT(sg_sandbox_pause(client, sg_sandbox_id(box), false, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_CONFLICT);
        NEED(sg_sandbox_get(client, sg_sandbox_id(box), NULL, &info, &err));
        CHECK_INT(info->state, ==, SG_STATE_PAUSED);
        CHECK_INT(sg_run(box, "true", NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_CONFLICT);
        NEED(sg_sandbox_resume(client, sg_sandbox_id(box), 600, NULL, &err));
        NEED(sg_process_signal(box, pid, SIGKILL, NULL, &err));
        NEED(sg_run(box, "echo back", NULL, NULL, &result, &err));
        CHECK_STR(result->out, "back\n");
}

static void sandboxes_are_forked(void)
{
        struct sg_fork forks[2] = {0};
        struct sg_error err = {0};

        NEED(sg_file_write(box, "mark", "1", 1, NULL, NULL, &err));
        NEED(sg_sandbox_fork(client, sg_sandbox_id(box), 2, 600, NULL, forks, &err));
        for (int i = 0; i < 2; i++) {
                FREE_BLOCK struct sg_result *result = NULL;

                CHECK(forks[i].box);
                NEED(sg_run(forks[i].box, "cat mark; echo x >mark", NULL, NULL, &result, &err));
                CHECK_STR(result->out, "1");
                NEED(sg_sandbox_kill(client, sg_sandbox_id(forks[i].box), NULL, &err));
                sg_sandbox_free(forks[i].box);
        }
        CHECK_INT(sg_sandbox_fork(client, "i00000000000000000000", 1, 0, NULL, forks, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
}

static void snapshots_are_made_listed_rolled_back_to_and_deleted(void)
{
        FREE_BLOCK struct sg_snapshot *made = NULL;
        FREE_BLOCK struct sg_snapshot_list *list = NULL;
        FREE_BLOCK char *mark = NULL;
        struct sg_sandbox *copy;
        struct sg_error err = {0};

        NEED(sg_file_write(box, "mark", "then", 4, NULL, NULL, &err));
        NEED(sg_snapshot_create(client, sg_sandbox_id(box), "library-test", NULL, &made, &err));
        NEED(sg_snapshot_list(client, sg_sandbox_id(box), NULL, &list, &err));
        CHECK_INT(list->count, ==, 1);
        CHECK_STR(list->items[0].id, made->id);
        NEED(sg_sandbox_create(client, &(struct sg_create_options){.template_name = made->id}, NULL, &copy, &err));
        NEED(sg_file_read(copy, "mark", NULL, NULL, &mark, NULL, &err));
        CHECK_STR(mark, "then");
        NEED(sg_sandbox_kill(client, sg_sandbox_id(copy), NULL, &err));
        sg_sandbox_free(copy);
        NEED(sg_file_write(box, "mark", "now", 3, NULL, NULL, &err));
        NEED(sg_sandbox_rollback(client, sg_sandbox_id(box), made->id, NULL, &err));
        sg_free(mark);
        mark = NULL;
        NEED(sg_file_read(box, "mark", NULL, NULL, &mark, NULL, &err));
        CHECK_STR(mark, "then");
        CHECK_INT(sg_sandbox_rollback(client, sg_sandbox_id(box), "no-such", NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
}

static void a_snapshot_does_not_cut_a_command_off(void)
{
        static struct text text;
        const struct sg_command_options options = {.has_input = true, .on_stdout = collect, .arg = &text};
        FREE_BLOCK struct sg_snapshot *made = NULL;
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_command *command;
        struct sg_error err = {0};

        NEED(sg_command_start(box, "echo before; read x; echo after", &options, NULL, &command, &err));
        NEED(sg_snapshot_create(client, sg_sandbox_id(box), NULL, NULL, &made, &err));
        NEED(sg_process_send(box, sg_command_pid(command), false, "go\n", 3, NULL, &err));
        NEED(sg_command_wait(command, NULL, &result, &err));
        CHECK_STR(text.bytes, "before\nafter\n");
        sg_command_free(command);
        CHECK_INT(sg_snapshot_delete(client, "no-such-snapshot", NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
}

/* ---- everything else ---- */

static void there_is_no_code_interpreter_in_base(void)
{
        struct sg_code_result *result;
        struct sg_error err = {0};

        CHECK_INT(sg_run_code(box, "1", 1, NULL, NULL, &result, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_UNAVAILABLE);
        CHECK(strstr(err.message, "no code interpreter"));
}

static void other_requests_are_json_both_ways(void)
{
        const struct sg_request_options port = {.box = box, .port = 49983};
        FREE_BLOCK struct sg_answer *templates = NULL, *health = NULL;
        FREE_BLOCK char *name = NULL;
        struct sg_error err = {0};

        NEED(sg_request(client, "GET", "/templates", NULL, NULL, NULL, &templates, &err));
        CHECK_INT(templates->status, ==, 200);
        CHECK_INT(templates->body[0], ==, '[');
        NEED(sg_request(client, "GET", "/health", NULL, &port, NULL, &health, &err));
        CHECK_INT(health->status, ==, 204);
        CHECK_INT(sg_request(client, "GET", "/no-such-route", NULL, NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.http_status, ==, 404);
        CHECK_INT(sg_request(client, "GET", "/a b", NULL, NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        NEED(sg_encode("a/b c", &name, &err));
        CHECK_STR(name, "a%2Fb%20c");
}

static void a_wrong_key_is_denied(void)
{
        const struct sg_client_options options = {.api_key = "e2b_0000000000000000000000000000000000000000"};
        FREE_BLOCK struct sg_info_list *list = NULL;
        struct sg_client *stranger;
        struct sg_error err = {0};

        NEED(sg_client_open_from_file(env_file, &options, &stranger, &err));
        CHECK_INT(sg_sandbox_list(stranger, NULL, NULL, &list, &err), ==, -EACCES);
        CHECK_INT(err.kind, ==, SG_DENIED);
        sg_client_free(stranger);
}

static void *run_many(void *arg)
{
        int *failures = arg;

        for (int i = 0; i < 20; i++) {
                FREE_BLOCK struct sg_result *result = NULL;

                if (sg_run(box, "echo many", NULL, NULL, &result, NULL) < 0 || strcmp(result->out, "many\n") != 0)
                        ++*failures;
        }
        return NULL;
}

static void one_client_serves_many_threads(void)
{
        pthread_t threads[8];
        int failures[8] = {0}, total = 0;

        for (int i = 0; i < 8; i++)
                CHECK_INT(pthread_create(&threads[i], NULL, run_many, &failures[i]), ==, 0);
        for (int i = 0; i < 8; i++) {
                (void)pthread_join(threads[i], NULL);
                total += failures[i];
        }
        CHECK_INT(total, ==, 0);
}

static int open_fds(void)
{
        int n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* Pages of program files come sixteen at a time, whenever another function is called first. */
static long own_memory_kib(void)
{
        FILE *f = fopen("/proc/self/smaps_rollup", "re");
        char line[128];
        long kib = -1;

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "Anonymous: %ld", &kib) == 1)
                        break;
        if (f)
                (void)fclose(f);
        return kib;
}

static void commands_leave_nothing_behind(void)
{
        struct sg_error err = {0};
        int fds = 0;
        long kib = 0;

        for (int i = 0; i < 600; i++) {
                FREE_BLOCK struct sg_result *result = NULL;

                NEED(sg_run(box, "true", NULL, NULL, &result, &err));
                if (i == 100) {
                        fds = open_fds();
                        kib = own_memory_kib();
                }
        }
        CHECK_INT(open_fds(), ==, fds);
        CHECK_INT(kib, >, 0);
        CHECK_INT(own_memory_kib() - kib, <, 256);
}

static void a_killed_sandbox_is_gone(void)
{
        struct sg_error err = {0};

        NEED(sg_sandbox_kill(client, sg_sandbox_id(box), NULL, &err));
        CHECK_INT(sg_run(box, "true", NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        CHECK_INT(sg_file_read(box, "x", NULL, NULL, &(char *){NULL}, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        sg_sandbox_free(box);
        sg_client_free(client);
}

int main(int argc, char **argv)
{
        if (argc != 2)
                return 2;
        env_file = argv[1];
        RUN(a_sandbox_is_created_with_variables_and_metadata);
        if (!box)
                return tap_done();
        RUN(its_time_limit_can_be_set);
        RUN(one_can_be_opened_connected_to_or_assumed);
        RUN(a_sandbox_that_is_not_there_is_not_found);
        RUN(ports_have_hosts_and_urls);
        RUN(output_and_exit_code_come_back);
        RUN(a_signal_is_told_as_shells_do);
        RUN(words_are_not_interpreted);
        RUN(output_comes_by_callback_and_input_passes_through);
        RUN(input_comes_from_a_file);
        RUN(kept_output_has_a_limit);
        RUN(a_command_that_takes_too_long_is_killed);
        RUN(a_command_that_nobody_waits_for_is_killed_however_early);
        RUN(a_callback_can_end_the_wait);
        RUN(commands_run_in_the_background_and_take_input);
        RUN(waiting_has_a_limit_and_the_command_goes_on);
        RUN(a_command_can_be_polled);
        RUN(one_can_listen_again);
        RUN(a_terminal_has_a_size_that_can_change);
        RUN(a_call_is_cancelled_from_another_thread);
        RUN(files_are_written_and_read);
        RUN(directories_are_made_listed_renamed_removed);
        RUN(files_go_by_descriptors_and_other_users);
        RUN(directories_are_watched);
        RUN(sandboxes_are_paused_and_resumed);
        RUN(sandboxes_are_forked);
        RUN(snapshots_are_made_listed_rolled_back_to_and_deleted);
        RUN(a_snapshot_does_not_cut_a_command_off);
        RUN(there_is_no_code_interpreter_in_base);
        RUN(other_requests_are_json_both_ways);
        RUN(a_wrong_key_is_denied);
        RUN(one_client_serves_many_threads);
        RUN(commands_leave_nothing_behind);
        RUN(a_killed_sandbox_is_gone);
        return tap_done();
}
