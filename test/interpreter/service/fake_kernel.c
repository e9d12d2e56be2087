/* A kernel that does what the code says: one command per line.  For the tests of the service.
 *
 *   print TEXT            a line on stdout
 *   flood COUNT BYTES     COUNT messages of BYTES bytes each
 *   raw TYPE CONTENT      a message of this type with this content, byte by byte (\xNN stands for one byte)
 *   result TEXT           an execute_result
 *   fail NAME VALUE       an error, published and answered
 *   answer-only NAME      an error that is only answered
 *   exit STATUS           the process ends
 *   sleep                 until an interrupt, which is an error
 *   deaf                  for ever, whatever comes
 *   busy FILE             until the file exists
 *   child                 starts a process that outlives the kernel; prints its pid
 *   twice, no-answer, no-idle, abort, wrong-key         what the end of this execution looks like
 *   drop COUNT            the next COUNT executions are answered as aborted, and do not run
 *   silent                prints the silent executions so far
 *   unsigned TEXT         a line whose signature is wrong
 *   garbage               a message that is no Jupyter message
 *   pid, cwd, env NAME, size    prints these (size: of the code)
 *   late TEXT             a line after idle
 * FAKE_START in the environment: "die" (says why on stderr), "hang", "mute" (answers, but publishes nothing),
 * "brittle" (dies of a silent execution). */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "wire/sha256.h"

#define PARTS_MAX 16
#define FRAME_MAX (64u << 20)
#define FLOOD_MAX (512u << 20)

static volatile sig_atomic_t is_interrupted;
static void *threads, *shell, *control, *output;
static char key[200];
static int count;
static struct buf silent = BUF_INIT(1 << 20); /* a JSON list without its brackets */
static bool is_deaf, is_brittle;
static unsigned dropped; /* so many of the next executions */

struct request {
        char identity[256];
        size_t identity_len;
        char *header;
        json_t *content;
        char type[64];
};

/* ---- sending ---- */

static void sign(const char *header, const char *parent, struct str content, char out[SHA256_HEX_LEN + 1])
{
        AUTO_BUF struct buf all = BUF_INIT(FLOOD_MAX + FRAME_MAX);
        uint8_t mac[SHA256_LEN];

        (void)buf_addc(&all, header);
        (void)buf_addc(&all, parent);
        (void)buf_addc(&all, "{}");
        (void)buf_add(&all, content.p, content.n);
        hmac_sha256(str_of(key), buf_at(&all), all.len, mac);
        hex_encode(mac, sizeof(mac), out);
}

static void send_signed(void *to, const struct request *rq, const char *type, struct str content, const char *signature)
{
        char header[400], date[CLOCK_TEXT_MAX], right[SHA256_HEX_LEN + 1];
        static unsigned number;

        clock_format(clock_real_ns(), date);
        (void)snprintf(header, sizeof(header),
                       "{\"msg_id\": \"fake-%u\", \"msg_type\": \"%s\", \"username\": \"\", \"session\": \"s\", "
                       "\"date\": \"%s\", \"version\": \"5.3\"}",
                       number++, type, date);
        sign(header, rq->header, content, right);
        if (to != output)
                (void)zmq_send(to, rq->identity, rq->identity_len, ZMQ_SNDMORE);
        else
                (void)zmq_send(to, type, strlen(type), ZMQ_SNDMORE);
        (void)zmq_send(to, "<IDS|MSG>", 9, ZMQ_SNDMORE);
        (void)zmq_send(to, signature ? signature : right, SHA256_HEX_LEN, ZMQ_SNDMORE);
        (void)zmq_send(to, header, strlen(header), ZMQ_SNDMORE);
        (void)zmq_send(to, rq->header, strlen(rq->header), ZMQ_SNDMORE);
        (void)zmq_send(to, "{}", 2, ZMQ_SNDMORE);
        (void)zmq_send(to, content.p, content.n, 0);
}

static void send_text(void *to, const struct request *rq, const char *type, const char *content)
{
        send_signed(to, rq, type, str_of(content), NULL);
}

static void send_json(void *to, const struct request *rq, const char *type, json_t *content)
{
        AUTO_FREE char *text = json_dumps(content, JSON_COMPACT);

        json_decref(content);
        send_text(to, rq, type, text);
}

static void publish_state(const struct request *rq, const char *state)
{
        send_json(output, rq, "status", json_pack("{s:s}", "execution_state", state));
}

static void print_line(const struct request *rq, const char *text)
{
        json_t *line = json_sprintf("%s\n", text);

        send_json(output, rq, "stream", json_pack("{s:s, s:o}", "name", "stdout", "text", line));
}

/* ---- receiving ---- */

static bool receive(void *from, struct request *rq, int flags)
{
        struct buf parts[PARTS_MAX];
        int n = 0, more = 1, delimiter = -1;

        *rq = (struct request){0};
        while (more) {
                zmq_msg_t part;

                (void)zmq_msg_init(&part);
                if (zmq_msg_recv(&part, from, n ? 0 : flags) < 0)
                        return false;
                more = zmq_msg_more(&part);
                if (n < PARTS_MAX) {
                        parts[n] = BUF_INIT(FRAME_MAX);
                        (void)buf_add(&parts[n], zmq_msg_data(&part), zmq_msg_size(&part));
                        if (delimiter < 0 && zmq_msg_size(&part) == 9 &&
                            memcmp(zmq_msg_data(&part), "<IDS|MSG>", 9) == 0)
                                delimiter = n;
                        n++;
                }
                (void)zmq_msg_close(&part);
        }
        if (delimiter == 1 && n >= 7) {
                json_t *header = json_loadb((char *)buf_at(&parts[3]), parts[3].len, 0, NULL);

                rq->identity_len = parts[0].len;
                memcpy(rq->identity, buf_at(&parts[0]), parts[0].len);
                rq->header = strdup(buf_cstr(&parts[3]));
                (void)snprintf(rq->type, sizeof(rq->type), "%s",
                               json_string_value(json_object_get(header, "msg_type")));
                json_decref(header);
                rq->content = json_loadb((char *)buf_at(&parts[6]), parts[6].len, JSON_ALLOW_NUL, NULL);
        }
        for (int i = 0; i < n; i++)
                buf_done(&parts[i]);
        return rq->header != NULL;
}

static void request_done(struct request *rq)
{
        free(rq->header);
        json_decref(rq->content);
}

/* ---- control ---- */

static void serve_control(void)
{
        struct request rq;

        if (!receive(control, &rq, ZMQ_DONTWAIT))
                return;
        if (strcmp(rq.type, "shutdown_request") == 0) {
                send_text(control, &rq, "shutdown_reply", "{\"status\":\"ok\",\"restart\":false}");
                _exit(0);
        }
        if (strcmp(rq.type, "interrupt_request") == 0) {
                is_interrupted = !is_deaf;
                send_text(control, &rq, "interrupt_reply", "{\"status\":\"ok\"}");
        }
        request_done(&rq);
}

/* Wait a moment; control messages are served. */
static void pause_ms(int ms)
{
        zmq_pollitem_t item = {.socket = control, .events = ZMQ_POLLIN};

        if (zmq_poll(&item, 1, ms) > 0)
                serve_control();
}

/* ---- commands ---- */

struct ending {
        bool is_twice, has_no_answer, has_no_idle, is_aborted, is_failed;
        char name[100], value[200];
        char late[200];
};

static void publish_error(const struct request *rq, struct ending *end, const char *name, const char *value)
{
        end->is_failed = true;
        (void)snprintf(end->name, sizeof(end->name), "%s", name);
        (void)snprintf(end->value, sizeof(end->value), "%s", value);
        send_json(output, rq, "error",
                  json_pack("{s:s, s:s, s:[s, s]}", "ename", name, "evalue", value, "traceback", "line 1", "line 2"));
}

static void flood(const struct request *rq, const char *argument)
{
        unsigned messages = 0, bytes = 0;
        AUTO_BUF struct buf content = BUF_INIT(FLOOD_MAX);
        uint8_t *text;

        (void)sscanf(argument, "%u %u", &messages, &bytes);
        (void)buf_addc(&content, "{\"name\":\"stdout\",\"text\":\"");
        if (buf_reserve(&content, bytes, &text) < 0)
                return;
        memset(text, 'x', bytes);
        buf_commit(&content, bytes);
        (void)buf_addc(&content, "\"}");
        for (unsigned i = 0; i < messages && !is_interrupted; i++)
                send_signed(output, rq, "stream", (struct str){(char *)buf_at(&content), content.len}, NULL);
}

static void publish_raw(const struct request *rq, char *argument)
{
        AUTO_BUF struct buf content = BUF_INIT(FRAME_MAX);
        char *text = strchr(argument, ' ');

        if (!text)
                return;
        *text++ = 0;
        while (*text) {
                if (text[0] == '\\' && text[1] == 'x') {
                        char byte = (char)(hex_value(text[2]) << 4 | hex_value(text[3]));

                        (void)buf_add(&content, &byte, 1);
                        text += 4;
                } else {
                        (void)buf_add(&content, text++, 1);
                }
        }
        send_signed(output, rq, argument, (struct str){(char *)buf_at(&content), content.len}, NULL);
}

static void start_child(const struct request *rq)
{
        char text[32];
        pid_t pid = fork();

        if (pid == 0) {
                (void)execlp("sleep", "sleep", "1000", NULL);
                _exit(1);
        }
        (void)snprintf(text, sizeof(text), "%d", (int)pid);
        print_line(rq, text);
}

static void print_silent(const struct request *rq)
{
        (void)buf_cstr(&silent);
        print_line(rq, silent.len ? (char *)buf_at(&silent) : "");
}

static void sleep_until_interrupt(const struct request *rq, struct ending *end)
{
        while (!is_interrupted)
                pause_ms(10);
        publish_error(rq, end, "KeyboardInterrupt", "");
}

static void be_deaf(void)
{
        is_deaf = true;
        (void)signal(SIGINT, SIG_IGN);
        for (;;)
                pause_ms(1000);
}

static void print_fact(const struct request *rq, const char *command, const char *argument)
{
        char text[4096] = "";

        if (strcmp(command, "pid") == 0)
                (void)snprintf(text, sizeof(text), "%d", (int)getpid());
        else if (strcmp(command, "cwd") == 0)
                (void)!getcwd(text, sizeof(text));
        else if (strcmp(command, "size") == 0)
                (void)snprintf(text, sizeof(text), "%zu", json_string_length(json_object_get(rq->content, "code")));
        else
                (void)snprintf(text, sizeof(text), "%s", getenv(argument) ? getenv(argument) : "none");
        print_line(rq, text);
}

/* What was published is sent before the process ends. */
static void leave(int status)
{
        int for_ever = -1;

        (void)zmq_setsockopt(output, ZMQ_LINGER, &for_ever, sizeof(for_ever));
        (void)zmq_close(output);
        (void)zmq_close(shell);
        (void)zmq_close(control);
        (void)zmq_ctx_term(threads);
        _exit(status);
}

static void run_command(const struct request *rq, const char *command, char *argument, struct ending *end)
{
        if (strcmp(command, "print") == 0)
                print_line(rq, argument);
        else if (strcmp(command, "flood") == 0)
                flood(rq, argument);
        else if (strcmp(command, "raw") == 0)
                publish_raw(rq, argument);
        else if (strcmp(command, "result") == 0)
                send_json(output, rq, "execute_result",
                          json_pack("{s:{s:s}, s:{}, s:i}", "data", "text/plain", argument, "metadata",
                                    "execution_count", count));
        else if (strcmp(command, "fail") == 0)
                publish_error(rq, end, argument, "why");
        else if (strcmp(command, "answer-only") == 0) {
                end->is_failed = true;
                (void)snprintf(end->name, sizeof(end->name), "%s", argument);
        } else if (strcmp(command, "exit") == 0)
                leave(argument[0] - '0');
        else if (strcmp(command, "sleep") == 0)
                sleep_until_interrupt(rq, end);
        else if (strcmp(command, "deaf") == 0)
                be_deaf();
        else if (strcmp(command, "busy") == 0)
                while (access(argument, F_OK) < 0)
                        pause_ms(5);
        else if (strcmp(command, "child") == 0)
                start_child(rq);
        else if (strcmp(command, "drop") == 0)
                (void)parse_u32(str_of(argument), 0, 1000, &dropped);
        else if (strcmp(command, "silent") == 0)
                print_silent(rq);
        else if (strcmp(command, "unsigned") == 0)
                send_signed(output, rq, "stream", STR("{\"name\":\"stdout\",\"text\":\"forged\"}"),
                            "0000000000000000000000000000000000000000000000000000000000000000");
        else if (strcmp(command, "garbage") == 0)
                (void)zmq_send(output, "garbage", 7, 0);
        else if (strcmp(command, "late") == 0)
                (void)snprintf(end->late, sizeof(end->late), "%s", argument);
        else if (strcmp(command, "pid") == 0 || strcmp(command, "cwd") == 0 || strcmp(command, "env") == 0 ||
                 strcmp(command, "size") == 0)
                print_fact(rq, command, argument);
        end->is_twice |= strcmp(command, "twice") == 0;
        end->has_no_answer |= strcmp(command, "no-answer") == 0;
        end->has_no_idle |= strcmp(command, "no-idle") == 0;
        end->is_aborted |= strcmp(command, "abort") == 0;
}

static void run_code(const struct request *rq, const char *code, struct ending *end)
{
        AUTO_FREE char *text = strdup(code);
        char *state = NULL;

        for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
                char *argument = strchr(line, ' ');

                if (argument)
                        *argument++ = 0;
                run_command(rq, line, argument ? argument : line + strlen(line), end);
        }
}

static void note_silent(const char *code)
{
        json_t *text = json_string(code);
        AUTO_FREE char *quoted = json_dumps(text, JSON_ENCODE_ANY);

        json_decref(text);
        (void)buf_addf(&silent, "%s%s", silent.len ? "," : "", quoted);
}

static void answer(const struct request *rq, const struct ending *end)
{
        if (end->is_aborted)
                send_text(shell, rq, "execute_reply", "{\"status\":\"aborted\"}");
        else if (end->is_failed)
                send_json(shell, rq, "execute_reply",
                          json_pack("{s:s, s:i, s:s, s:s, s:[]}", "status", "error", "execution_count", count, "ename",
                                    end->name, "evalue", end->value, "traceback"));
        else
                send_json(shell, rq, "execute_reply",
                          json_pack("{s:s, s:i, s:{}}", "status", "ok", "execution_count", count, "user_expressions"));
}

static void execute(const struct request *rq)
{
        const char *code = json_string_value(json_object_get(rq->content, "code"));
        struct ending end = {0};

        is_interrupted = 0;
        publish_state(rq, "busy");
        if (dropped) {
                dropped--;
                end.is_aborted = true;
        } else if (json_is_true(json_object_get(rq->content, "silent"))) {
                if (is_brittle)
                        _exit(5);
                note_silent(code);
        } else {
                count++;
                send_json(output, rq, "execute_input", json_pack("{s:s, s:i}", "code", "", "execution_count", count));
                run_code(rq, code, &end);
        }
        for (int i = 0; i < 1 + end.is_twice && !end.has_no_answer; i++)
                answer(rq, &end);
        if (!end.has_no_idle)
                publish_state(rq, "idle");
        if (end.late[0])
                print_line(rq, end.late);
}

static void serve_shell(bool is_mute)
{
        struct request rq;

        if (!receive(shell, &rq, ZMQ_DONTWAIT))
                return;
        if (strcmp(rq.type, "kernel_info_request") == 0) {
                if (!is_mute)
                        publish_state(&rq, "busy");
                send_text(shell, &rq, "kernel_info_reply", "{\"status\":\"ok\",\"protocol_version\":\"5.3\"}");
                if (!is_mute)
                        publish_state(&rq, "idle");
        } else if (strcmp(rq.type, "execute_request") == 0) {
                execute(&rq);
        }
        request_done(&rq);
}

/* ---- start ---- */

static void on_interrupt(int signo)
{
        (void)signo;
        is_interrupted = 1;
}

static void *listen_on(int type, const json_t *file, const char *port)
{
        void *s = zmq_socket(threads, type);
        char address[64];
        int none = 0, wait = 1, queue = 100;

        (void)snprintf(address, sizeof(address), "tcp://127.0.0.1:%d",
                       (int)json_integer_value(json_object_get(file, port)));
        (void)zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof(none));
        (void)zmq_setsockopt(s, ZMQ_SNDHWM, &queue, sizeof(queue));
        if (type == ZMQ_XPUB) /* printing waits for a slow reader */
                (void)zmq_setsockopt(s, ZMQ_XPUB_NODROP, &wait, sizeof(wait));
        if (zmq_bind(s, address) < 0) {
                fprintf(stderr, "bind %s: %s\n", address, zmq_strerror(zmq_errno()));
                exit(1);
        }
        return s;
}

int main(int argc, char **argv)
{
        const char *start = getenv("FAKE_START") ? getenv("FAKE_START") : "";
        struct sigaction action = {.sa_handler = on_interrupt};
        json_t *file = argc == 2 ? json_load_file(argv[1], 0, NULL) : NULL;
        zmq_pollitem_t items[2];
        struct stat st;

        threads = zmq_ctx_new();
        if (!file || stat(argv[1], &st) < 0 || (st.st_mode & 0777) != 0600) {
                fprintf(stderr, "usage: fake_kernel CONNECTION_FILE (mode 0600)\n");
                return 2;
        }
        if (strcmp(start, "die") == 0) {
                fprintf(stderr, "a module is missing\n");
                return 3;
        }
        while (strcmp(start, "hang") == 0)
                (void)pause();
        is_brittle = strcmp(start, "brittle") == 0;
        (void)sigaction(SIGINT, &action, NULL);
        (void)snprintf(key, sizeof(key), "%s", json_string_value(json_object_get(file, "key")));
        shell = listen_on(ZMQ_ROUTER, file, "shell_port");
        control = listen_on(ZMQ_ROUTER, file, "control_port");
        output = listen_on(ZMQ_XPUB, file, "iopub_port");
        items[0] = (zmq_pollitem_t){.socket = shell, .events = ZMQ_POLLIN};
        items[1] = (zmq_pollitem_t){.socket = control, .events = ZMQ_POLLIN};
        for (;;) {
                (void)zmq_poll(items, 2, -1);
                serve_control();
                serve_shell(strcmp(start, "mute") == 0);
        }
}
