#include "envd/process/process_event.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/large_buffer.h"
#include "wire/base64.h"
#include "wire/connect.h"

#define EVENT_WRAP_MAX 160
#define DATA_BEGIN_MAX 32

static LARGE_BUFFER uint8_t raw[OUTPUT_READ_MAX];
static LARGE_BUFFER char event[CONNECT_ENVELOPE_HEAD + EVENT_WRAP_MAX + BASE64_LEN(OUTPUT_READ_MAX)];

uint8_t *process_event_read_buffer(void)
{
        return raw;
}

static struct str envelope_finish(size_t len) /* the payload is in place: put the head before it */
{
        connect_envelope_head((uint8_t *)event, 0, (uint32_t)len);
        return (struct str){event, CONNECT_ENVELOPE_HEAD + len};
}

static char *
event_data_begin(enum output_kind kind, const void *p,
                 size_t n) /* writes the envelope up to the end of the bytes; returns where the rest goes */
{
        static const struct str before[] = {
                [OUTPUT_STDOUT] = {"{\"event\":{\"data\":{\"stdout\":\"", 28},
                [OUTPUT_STDERR] = {"{\"event\":{\"data\":{\"stderr\":\"", 28},
                [OUTPUT_PTY] = {"{\"event\":{\"data\":{\"pty\":\"", 25},
        };
        char *at = event + CONNECT_ENVELOPE_HEAD;

        _Static_assert(sizeof("{\"event\":{\"data\":{\"stdout\":\"") == 29, "length of the literal above");
        _Static_assert(sizeof("{\"event\":{\"data\":{\"pty\":\"") == 26, "length of the literal above");
        memcpy(at, before[kind].p, before[kind].n);
        at += before[kind].n;
        return at + base64_encode(p, n, true, at);
}

struct str process_event_data(enum output_kind kind, const void *p, size_t n)
{
        char *at = event_data_begin(kind, p, n);

        memcpy(at, "\"}}}", 4);
        return envelope_finish((size_t)(at + 4 - event) - CONNECT_ENVELOPE_HEAD);
}

struct str process_event_data_at(enum output_kind kind, const void *p, size_t n, uint64_t offset, uint64_t dropped)
{
        char *at = event_data_begin(kind, p, n);

        if (dropped)
                at += snprintf(at, EVENT_WRAP_MAX - DATA_BEGIN_MAX,
                               "\",\"offset\":%" PRIu64 ",\"dropped\":%" PRIu64 "}}}", offset, dropped);
        else
                at += snprintf(at, EVENT_WRAP_MAX - DATA_BEGIN_MAX, "\",\"offset\":%" PRIu64 "}}}", offset);
        return envelope_finish((size_t)(at - event) - CONNECT_ENVELOPE_HEAD);
}

struct str process_event_keepalive(void)
{
        static const struct str text = {"{\"event\":{\"keepalive\":{}}}", 26};

        memcpy(event + CONNECT_ENVELOPE_HEAD, text.p, text.n);
        return envelope_finish(text.n);
}

struct str process_event_start(uint32_t pid)
{
        int n = snprintf(event + CONNECT_ENVELOPE_HEAD, EVENT_WRAP_MAX, "{\"event\":{\"start\":{\"pid\":%u}}}", pid);

        return envelope_finish((size_t)n);
}

struct str process_event_start_at(uint32_t pid, uint64_t offset, uint64_t dropped, uint64_t next, bool is_ended)
{
        int n = snprintf(event + CONNECT_ENVELOPE_HEAD, EVENT_WRAP_MAX,
                         "{\"event\":{\"start\":{\"pid\":%u,\"offset\":%" PRIu64 ",\"dropped\":%" PRIu64
                         ",\"next\":%" PRIu64 "%s}}}",
                         pid, offset, dropped, next, is_ended ? ",\"ended\":true" : "");

        return envelope_finish((size_t)n);
}

static const char *signal_name(int sig)
{
        static const char *const names[] = {
                [SIGHUP] = "hangup",
                [SIGINT] = "interrupt",
                [SIGQUIT] = "quit",
                [SIGILL] = "illegal instruction",
                [SIGTRAP] = "trace/breakpoint trap",
                [SIGABRT] = "aborted",
                [SIGBUS] = "bus error",
                [SIGFPE] = "floating point exception",
                [SIGKILL] = "killed",
                [SIGUSR1] = "user defined signal 1",
                [SIGSEGV] = "segmentation fault",
                [SIGUSR2] = "user defined signal 2",
                [SIGPIPE] = "broken pipe",
                [SIGALRM] = "alarm clock",
                [SIGTERM] = "terminated",
        };

        return sig > 0 && sig < (int)(sizeof(names) / sizeof(*names)) ? names[sig] : NULL;
}

void process_event_status_text(int code, int status, char out[PROCESS_EVENT_STATUS_MAX])
{
        const char *core = code == CLD_DUMPED ? " (core dumped)" : "", *name = signal_name(status);

        if (code == CLD_EXITED)
                (void)snprintf(out, PROCESS_EVENT_STATUS_MAX, "exit status %d", status);
        else if (name)
                (void)snprintf(out, PROCESS_EVENT_STATUS_MAX, "signal: %s%s", name, core);
        else
                (void)snprintf(out, PROCESS_EVENT_STATUS_MAX, "signal: signal %d%s", status, core);
}

json_t *process_event_end(int code, int status)
{
        char text[PROCESS_EVENT_STATUS_MAX];
        bool is_exit = code == CLD_EXITED, is_ok = is_exit && status == 0;
        json_t *end = json_object();

        process_event_status_text(code, status, text);
        if (!is_ok)
                (void)json_object_set_new(end, "exitCode", json_integer(is_exit ? status : -1));
        if (is_exit)
                (void)json_object_set_new(end, "exited", json_true());
        (void)json_object_set_new(end, "status", json_string(text));
        if (!is_ok)
                (void)json_object_set_new(end, "error", json_string(text));
        return json_pack("{s:{s:o}}", "event", "end", end); /* NULL when anything above is NULL */
}

json_t *process_event_end_at(int code, int status, uint64_t offset)
{
        json_t *ev = process_event_end(code, status), *end = json_object_get(json_object_get(ev, "event"), "end");

        if (json_object_set_new(end, "offset", json_integer((json_int_t)offset)) == 0)
                return ev;
        json_decref(ev);
        return NULL;
}
