/* sandglass.h - libsandglass: sandboxes of a Sandglass server, or of any other server that speaks E2B's protocol.
 *
 *      struct sg_error err;
 *      struct sg_client *client;
 *      struct sg_sandbox *box;
 *      struct sg_result *result;
 *
 *      if (sg_client_open_from_env(NULL, &client, &err) < 0 ||
 *          sg_sandbox_create(client, NULL, NULL, &box, &err) < 0 ||
 *          sg_run(box, "uname -a", NULL, NULL, &result, &err) < 0)
 *              return fprintf(stderr, "%s\n", err.message), 1;
 *      fwrite(result->out, 1, result->out_len, stdout);
 *
 * The rules for all of it:
 *
 * Results.  A function that can fail returns 0, or a negative errno; then *err (NULL: not told) says why.  What a function
 * writes through a parameter called ret is written on success only.
 *
 * Memory.  What a function returns through ret is one block of memory, with all that it points to: sg_free().  Objects (struct
 * sg_client, sg_sandbox, sg_command, sg_watch, sg_cancel) have a function of their own.  Freeing NULL is fine.  Strings and
 * structs that are given to a function are copied, or used until it returns.
 *
 * Options.  Zero is the default of every field.  NULL stands for options that are all zero.  `reserved` must be zero.
 *
 * Threads.  There is no global state.  A client and a sandbox may be used by several threads at once; a command, a watch by one
 * at a time.  Callbacks come in the thread that waits, out of the function that waits.  A callback may call any function but
 * one that waits for, or frees, the same command or watch.  After fork(), the child must not use objects of the parent.
 *
 * Waiting.  Every function with a `call` has a time limit, and may be cancelled from another thread or a signal handler.
 * Within the time limit, requests are repeated at most four times, with growing pauses:
 *   - any request while no connection comes about, and after an answer of 429 or 503 that says when to ask again (Retry-After);
 *   - one that can be repeated without harm also when the connection is cut, and when the API answers 502, 503 or 504.
 * So a request that begins something (create, run, fork, snapshot) is not sent twice.  A 429 that names no time is a limit that
 * waiting does not lift, and a sandbox that answers 502, 503 or 504 is asked once.  A body that comes from a descriptor is sent
 * once.
 *
 * The library prints nothing, never ends the process, and leaves signals as they are.  Text is UTF-8.
 * Link with -lsandglass (pkg-config sandglass). */
#ifndef SANDGLASS_H
#define SANDGLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SG_API __attribute__((visibility("default")))

struct sg_client;
struct sg_sandbox;
struct sg_command;
struct sg_watch;
struct sg_cancel;

/* The version of the library, "1.2.3". */
SG_API const char *sg_version(void);

/* Releases a block that a function has returned. */
SG_API void sg_free(const void *block);

/* ---- errors ---- */

enum sg_error_kind {
        SG_OK,
        SG_INVALID,     /* an argument is wrong; nothing was sent, or the server says so */
        SG_NOT_FOUND,   /* no such sandbox, file, process, template, snapshot */
        SG_CONFLICT,    /* it exists already, or is in the wrong state (paused, for example) */
        SG_LIMIT,       /* a limit is reached: of the team (429), or memory of this process (system_error ENOMEM) */
        SG_NO_SPACE,    /* the disk is full, here or there */
        SG_TOO_LARGE,   /* an answer or a file has more bytes than allowed */
        SG_DENIED,      /* the key, the token or the server's certificate is not accepted */
        SG_TIMEOUT,     /* the time limit has passed */
        SG_UNAVAILABLE, /* the server or the sandbox cannot be reached, or cut the connection; later it may work */
        SG_CANCELLED,   /* by the caller: sg_cancel, or a callback that returned a negative number */
        SG_UNSUPPORTED, /* this server does not have this call */
        SG_INTERNAL,    /* the server failed, or its answer makes no sense */
};

struct sg_error {
        enum sg_error_kind kind;
        int http_status;        /* of the answer; 0: there was none */
        int system_error;       /* an errno; 0: none */
        uint32_t retry_after_s; /* when the server wants to be asked again; 0: it did not say */
        char message[256];      /* for people, on one line; ends in "..." where it was cut */
};

/* "not_found"; static text. */
SG_API const char *sg_error_name(enum sg_error_kind kind);

/* ---- time limits and cancelling ---- */

#define SG_NO_TIMEOUT UINT32_MAX

/* How to wait for one call. */
struct sg_call {
        uint32_t timeout_ms;      /* for all of it, with repetitions; 0: the client's; SG_NO_TIMEOUT: none */
        struct sg_cancel *cancel; /* NULL: it cannot be cancelled */
        /* Called about every tick_ms while the call waits, in its thread.  NULL: not called. */
        void (*on_tick)(void *arg);
        void *tick_arg;
        uint32_t tick_ms; /* at least 10 */
        uintptr_t reserved[2];
};

/* Cancels calls: all that name it end with SG_CANCELLED, and so do later ones until sg_cancel_reset().  It must outlive them. */
SG_API int sg_cancel_create(struct sg_cancel **ret, struct sg_error *err);
/* Cancelled as long as `fd` (borrowed: a signalfd, a pipe, a socket) is readable, or after sg_cancel_now(). */
SG_API int sg_cancel_create_fd(int fd, struct sg_cancel **ret, struct sg_error *err);
SG_API void sg_cancel_now(struct sg_cancel *cancel); /* from any thread, also from a signal handler */
SG_API void sg_cancel_reset(struct sg_cancel *cancel);
SG_API void sg_cancel_free(struct sg_cancel *cancel);

/* ---- clients ---- */

struct sg_pair { /* arrays of pairs end with one whose name is NULL */
        const char *name, *value;
};

struct sg_client_options {
        const char *api_key;      /* NULL: none is sent */
        const char *access_token; /* sent as "Authorization: Bearer"; NULL: none */
        const char *domain;       /* "host[:port]"; NULL: e2b.app */
        const char *api_url;      /* NULL: https://api.<domain> */
        /* Where all sandboxes are reached, with headers that say which one.  NULL: https://<port>-<id>.<domain>. */
        const char *sandbox_url;
        /* PEM: authorities to trust besides the system's (SSL_CERT_FILE, SSL_CERT_DIR: instead of these); NULL: none. */
        const char *ca_file;
        const char *user_agent;        /* a name to be told besides the library's */
        const struct sg_pair *headers; /* sent with each request to the API */
        uint32_t timeout_ms;           /* of calls that name none; 0: 60 s; SG_NO_TIMEOUT: none */
        uint32_t retries;              /* at most; 0: 4; SG_NO_RETRIES: none */
        uint32_t kept_connections_max; /* kept open between calls; 0: 16 */
        uintptr_t reserved[4];
};
#define SG_NO_RETRIES UINT32_MAX

SG_API int sg_client_open(const struct sg_client_options *options, struct sg_client **ret, struct sg_error *err);

/* From the environment: E2B_API_URL, E2B_SANDBOX_URL, E2B_DOMAIN, E2B_API_KEY, E2B_ACCESS_TOKEN; whom to trust besides the
 * system's authorities (or those of SSL_CERT_FILE) is in the file that NODE_EXTRA_CA_CERTS names.  Where neither E2B_API_URL, E2B_DOMAIN nor E2B_API_KEY is set: from the file
 * SANDGLASS_DATA/env, else ./data/env, else /var/lib/sandglass/env.  What `options` (may be NULL) names counts instead.
 * SG_INVALID: there is no key anywhere. */
SG_API int sg_client_open_from_env(const struct sg_client_options *options, struct sg_client **ret,
                                   struct sg_error *err);
/* From the file that a server writes at its start, <data directory>/env. */
SG_API int sg_client_open_from_file(const char *env_file, const struct sg_client_options *options,
                                    struct sg_client **ret, struct sg_error *err);
/* Sandboxes, commands and watches of the client must have been freed. */
SG_API void sg_client_free(struct sg_client *client);

SG_API const char *sg_client_domain(const struct sg_client *client);
SG_API const char *sg_client_api_url(const struct sg_client *client);

/* ---- sandboxes ---- */

enum sg_toggle { SG_DEFAULT, SG_YES, SG_NO };

struct sg_create_options {
        const char *template_name;            /* name, id, snapshot, each with ":tag" if you like; NULL: "base" */
        uint32_t timeout_s;                   /* how long it lives; 0: the server's default (300) */
        const struct sg_pair *env, *metadata; /* NULL: none */
        enum sg_toggle pauses_at_end;         /* at the end of its time it is paused, not killed */
        enum sg_toggle keeps_memory;          /* ... with its memory; needs pauses_at_end */
        enum sg_toggle resumes_on_request;    /* paused, a request to one of its ports lets it run again */
        enum sg_toggle internet;              /* may it connect to the internet? */
        enum sg_toggle secure;                /* are requests to it checked for its token?  By default yes */
        const char *network_json;             /* the field "network" of the API, a JSON object; NULL: none */
        const char *extra_json;               /* a JSON object with further fields of the request; NULL: none */
        uintptr_t reserved[4];
};

/* *ret speaks for the sandbox; sg_sandbox_free() leaves the sandbox as it is. */
SG_API int sg_sandbox_create(struct sg_client *client, const struct sg_create_options *options,
                             const struct sg_call *call, struct sg_sandbox **ret, struct sg_error *err);
/* To a sandbox that is there; a paused one is resumed.  It lives at least timeout_s from now on (0: 300). */
SG_API int sg_sandbox_connect(struct sg_client *client, const char *id, uint32_t timeout_s, const struct sg_call *call,
                              struct sg_sandbox **ret, struct sg_error *err);
/* The same, but nothing about the sandbox changes: a paused one stays paused. */
SG_API int sg_sandbox_open(struct sg_client *client, const char *id, const struct sg_call *call,
                           struct sg_sandbox **ret, struct sg_error *err);

struct sg_identity {
        const char *id;
        const char *access_token;  /* NULL: it has none */
        const char *traffic_token; /* NULL: its ports are open */
        const char *domain;        /* NULL: the client's */
        uintptr_t reserved[2];
};
/* The same without a request: the caller knows it already. */
SG_API int sg_sandbox_assume(struct sg_client *client, const struct sg_identity *identity, struct sg_sandbox **ret,
                             struct sg_error *err);
SG_API void sg_sandbox_free(struct sg_sandbox *box);

/* As long as `box`.  Tokens and the version are "" where there is none, or none is known. */
SG_API const char *sg_sandbox_id(const struct sg_sandbox *box);
SG_API const char *sg_sandbox_access_token(const struct sg_sandbox *box);
SG_API const char *sg_sandbox_traffic_token(const struct sg_sandbox *box);
SG_API const char *sg_sandbox_domain(const struct sg_sandbox *box);
SG_API const char *sg_sandbox_envd_version(const struct sg_sandbox *box);
SG_API struct sg_client *sg_sandbox_client(const struct sg_sandbox *box);

/* "3000-i0k3v9zq2m4x7c1b5n8t6.example.com", and with "https://" before it. */
SG_API int sg_sandbox_host(const struct sg_sandbox *box, uint16_t port, char **ret, struct sg_error *err);
SG_API int sg_sandbox_url(const struct sg_sandbox *box, uint16_t port, char **ret, struct sg_error *err);

enum sg_state { SG_STATE_OTHER, SG_STATE_RUNNING, SG_STATE_PAUSED };

struct sg_info {
        const char *id, *template_id;
        const char *alias;                 /* of the template; "" if none */
        const char *domain, *envd_version; /* "" if not told */
        enum sg_state state;
        int64_t started_ms, ends_ms; /* Unix time; 0: not told */
        uint32_t cpu_count, memory_mib, disk_mib;
        const struct sg_pair *metadata; /* never NULL */
        const char *json;               /* the server's answer */
};
struct sg_info_list {
        size_t count;
        const struct sg_info *items;
};

SG_API int sg_sandbox_get(struct sg_client *client, const char *id, const struct sg_call *call, struct sg_info **ret,
                          struct sg_error *err);

struct sg_list_options {
        bool only_running, only_paused; /* neither: both */
        const struct sg_pair *metadata; /* only those with these; NULL: all */
        size_t max;                     /* 0: all of them (at most 100,000) */
        uintptr_t reserved[2];
};
SG_API int sg_sandbox_list(struct sg_client *client, const struct sg_list_options *options, const struct sg_call *call,
                           struct sg_info_list **ret, struct sg_error *err);

/* SG_NOT_FOUND: there is none of this id (any more). */
SG_API int sg_sandbox_kill(struct sg_client *client, const char *id, const struct sg_call *call, struct sg_error *err);
/* It ends timeout_s from now. */
SG_API int sg_sandbox_set_timeout(struct sg_client *client, const char *id, uint32_t timeout_s,
                                  const struct sg_call *call, struct sg_error *err);
/* With its memory; files_only: without, the processes end.  SG_CONFLICT: it is paused already. */
SG_API int sg_sandbox_pause(struct sg_client *client, const char *id, bool files_only, const struct sg_call *call,
                            struct sg_error *err);
/* A paused one runs again, for timeout_s (0: 300); a running one goes on. */
SG_API int sg_sandbox_resume(struct sg_client *client, const char *id, uint32_t timeout_s, const struct sg_call *call,
                             struct sg_error *err);

struct sg_fork {
        struct sg_sandbox *box; /* NULL: there is none, and `error` says why */
        struct sg_error error;
};
/* `count` copies of a sandbox, memory and files; the original goes on.  forks[count] is the caller's, and then each `box`.
 * timeout_s 0: 300.  SG_UNSUPPORTED: the server cannot fork. */
SG_API int sg_sandbox_fork(struct sg_client *client, const char *id, uint32_t count, uint32_t timeout_s,
                           const struct sg_call *call, struct sg_fork *forks, struct sg_error *err);
/* Memory and files as they were in one of its snapshots.  SG_UNSUPPORTED: the server cannot roll back; E2B's cannot. */
SG_API int sg_sandbox_rollback(struct sg_client *client, const char *id, const char *snapshot_id,
                               const struct sg_call *call, struct sg_error *err);

/* ---- snapshots: sandboxes can be created from them, as from templates ---- */

struct sg_snapshot {
        const char *id;
        const char *name; /* the first of its names; "" if none */
};
struct sg_snapshot_list {
        size_t count;
        const struct sg_snapshot *items;
};
SG_API int sg_snapshot_create(struct sg_client *client, const char *sandbox_id, const char *name /* NULL: none */,
                              const struct sg_call *call, struct sg_snapshot **ret, struct sg_error *err);
SG_API int sg_snapshot_list(struct sg_client *client, const char *sandbox_id /* NULL: of all */,
                            const struct sg_call *call, struct sg_snapshot_list **ret, struct sg_error *err);
SG_API int sg_snapshot_delete(struct sg_client *client, const char *snapshot_id, const struct sg_call *call,
                              struct sg_error *err);

/* ---- commands ---- */

/* A piece of output.  0: go on; negative: the call that waits ends with SG_CANCELLED, the command goes on. */
typedef int sg_output_fn(const char *bytes, size_t len, void *arg);

#define SG_OUTPUT_MAX (16u << 20)

struct sg_command_options {
        const struct sg_pair *env; /* besides the sandbox's; NULL: none */
        const char *cwd, *user;    /* NULL: the sandbox's default */
        /* After this time the sandbox kills the command.  0: 60 s; SG_NO_TIMEOUT: never. */
        uint32_t timeout_ms;

        /* Output as it comes.  NULL: it is kept for the result, up to kept_max bytes of each. */
        sg_output_fn *on_stdout, *on_stderr;
        void *arg;       /* of the callbacks */
        size_t kept_max; /* 0: SG_OUTPUT_MAX; what is beyond is dropped, and the result says so */
        /* Output that was dropped while the connection was cut, for example by a snapshot of the sandbox; of a command that was
         * attached to with SG_FROM_KEPT or SG_KEPT_ONLY first what is not kept any more.  NULL: not told. */
        void (*on_lost)(uint64_t bytes, void *arg);

        /* What the command reads: these bytes and then the end; or all that comes from input_fd, and then its end; or what
         * sg_command_send() sends, until sg_command_close_input().  None of them: /dev/null. */
        const char *input;
        size_t input_len;
        bool reads_fd;
        int input_fd; /* borrowed; read while the command is waited for */
        bool has_input;

        /* A terminal of this size: the command reads what sg_command_send() or input_fd sends, all output is on_stdout's. */
        bool has_terminal;
        uint16_t columns, rows; /* 0: 80, 24 */

        const char *tag; /* a name for the process; NULL: none that others see */
        uintptr_t reserved[4];
};

struct sg_result {
        int exit_code;   /* 128 + number where a signal ended the command, as shells say it */
        int signal;      /* its number; 0: none */
        const char *out; /* standard output, followed by a NUL that is not counted; "" where a callback took it */
        size_t out_len;
        const char *err; /* standard error, likewise */
        size_t err_len;
        bool is_cut;         /* there was more output than kept_max */
        const char *message; /* the server's word for the end: "exit status 1", "signal: killed"; "" if none */
};

/* Run `command` with bash, as a login shell, and wait for its end.  A command that fails is no error: see exit_code.
 * SG_TIMEOUT: it took longer than timeout_ms of the options (or of the call: by default 10 s more).  Then, and when the call is
 * cancelled, the command is killed. */
SG_API int sg_run(struct sg_sandbox *box, const char *command, const struct sg_command_options *options,
                  const struct sg_call *call, struct sg_result **ret, struct sg_error *err);
/* The same for words that no shell interprets; argv ends with NULL. */
SG_API int sg_run_argv(struct sg_sandbox *box, const char *const *argv, const struct sg_command_options *options,
                       const struct sg_call *call, struct sg_result **ret, struct sg_error *err);

/* Start a command and do not wait for it.  command NULL: a login shell, for terminals.  The timeout of the command is none by
 * default.  After SG_TIMEOUT and SG_CANCELLED it is killed if it runs, unless it has a tag of yours.  The sandbox holds the command up once it has written more than the connection buffers: wait for it, or free it. */
SG_API int sg_command_start(struct sg_sandbox *box, const char *command, const struct sg_command_options *options,
                            const struct sg_call *call, struct sg_command **ret, struct sg_error *err);
SG_API int sg_command_start_argv(struct sg_sandbox *box, const char *const *argv,
                                 const struct sg_command_options *options, const struct sg_call *call,
                                 struct sg_command **ret, struct sg_error *err);

enum sg_attach_from {
        SG_FROM_NOW,
        SG_FROM_KEPT, /* what the server has kept of the output so far, and what follows; other servers keep nothing */
        SG_KEPT_ONLY, /* without what follows: the command counts as ended, with code 0 */
};
/* A command that runs already.  Of the options count callbacks, kept_max, what it shall read (input, input_fd, has_input), and
 * has_terminal, which says that it has a terminal. */
SG_API int sg_command_attach(struct sg_sandbox *box, uint32_t pid, enum sg_attach_from from,
                             const struct sg_command_options *options, const struct sg_call *call,
                             struct sg_command **ret, struct sg_error *err);
SG_API uint32_t sg_command_pid(const struct sg_command *command); /* inside the sandbox */
/* Wait for the end; callbacks get the output.  The call's time limit is none by default; SG_TIMEOUT and SG_CANCELLED leave the
 * command as it is, and it may be waited for again. */
SG_API int sg_command_wait(struct sg_command *command, const struct sg_call *call, struct sg_result **ret,
                           struct sg_error *err);
/* Give callbacks what is there now, without waiting.  1: the command has ended, or the connection broke: sg_command_wait() says
 * which; 0: not yet.  For event loops: sg_command_fd() is readable when there is something to do. */
SG_API int sg_command_poll(struct sg_command *command, struct sg_error *err);
SG_API int sg_command_fd(const struct sg_command *command); /* borrowed */

/* Until the command has taken the bytes; its output goes to the callbacks meanwhile.  SG_NOT_FOUND: it has ended.  SG_INVALID:
 * it reads something else (input, input_fd), or nothing. */
SG_API int sg_command_send(struct sg_command *command, const void *bytes, size_t len, const struct sg_call *call,
                           struct sg_error *err);
SG_API int sg_command_close_input(struct sg_command *command, const struct sg_call *call, struct sg_error *err);
SG_API int sg_command_resize(struct sg_command *command, uint16_t columns, uint16_t rows, const struct sg_call *call,
                             struct sg_error *err);
SG_API int sg_command_signal(struct sg_command *command, int number /* SIGTERM or SIGKILL */,
                             const struct sg_call *call, struct sg_error *err);
/* Stop listening; the command goes on. */
SG_API void sg_command_free(struct sg_command *command);

struct sg_process {
        uint32_t pid;
        const char *command;     /* the program */
        const char *const *args; /* ends with NULL, never NULL */
        const struct sg_pair *env;
        const char *cwd, *tag; /* "" if none */
};
struct sg_process_list {
        size_t count;
        const struct sg_process *items;
};
/* Commands that run, also those of other clients. */
SG_API int sg_process_list(struct sg_sandbox *box, const struct sg_call *call, struct sg_process_list **ret,
                           struct sg_error *err);
/* By number, from any thread. */
SG_API int sg_process_signal(struct sg_sandbox *box, uint32_t pid, int number, const struct sg_call *call,
                             struct sg_error *err);
SG_API int sg_process_send(struct sg_sandbox *box, uint32_t pid, bool is_terminal, const void *bytes, size_t len,
                           const struct sg_call *call, struct sg_error *err);

/* ---- files ---- */

enum sg_file_type { SG_FILE_OTHER, SG_FILE_REGULAR, SG_FILE_DIRECTORY };

struct sg_file {
        const char *name, *path;
        enum sg_file_type type; /* a symbolic link has the type of its target */
        uint64_t size;
        uint32_t mode;           /* permission bits */
        const char *permissions; /* "-rw-r--r--" */
        const char *owner, *group;
        int64_t modified_ms;     /* Unix time */
        const char *link_target; /* "": it is no symbolic link */
};
struct sg_file_list {
        size_t count;
        const struct sg_file *items;
};

struct sg_file_options {
        const char *user; /* whose home a relative path is in, and who owns new files; NULL: the sandbox's default */
        size_t max;       /* of sg_file_read(): more bytes are SG_TOO_LARGE; 0: 64 MiB */
        uint32_t depth;   /* of sg_file_list(): 0: 1, the entries of the directory itself */
        uintptr_t reserved[2];
};

/* *ret is followed by a NUL that ret_len (may be NULL) does not count. */
SG_API int sg_file_read(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                        const struct sg_call *call, char **ret, size_t *ret_len, struct sg_error *err);
/* Missing directories are made.  A write that fails half way leaves the beginning. */
SG_API int sg_file_write(struct sg_sandbox *box, const char *path, const void *bytes, size_t len,
                         const struct sg_file_options *options, const struct sg_call *call, struct sg_error *err);
/* From where `fd` is to its end.  By default without a time limit.  Descriptors may be of any kind, blocking or not: what waits
 * is the call, with its limit. */
SG_API int sg_file_upload(struct sg_sandbox *box, const char *path, int fd, const struct sg_file_options *options,
                          const struct sg_call *call, struct sg_error *err);
SG_API int sg_file_download(struct sg_sandbox *box, const char *path, int fd, const struct sg_file_options *options,
                            const struct sg_call *call, struct sg_error *err);
SG_API int sg_file_stat(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                        const struct sg_call *call, struct sg_file **ret, struct sg_error *err);
SG_API int sg_file_list(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                        const struct sg_call *call, struct sg_file_list **ret, struct sg_error *err);
/* SG_CONFLICT: it is there already. */
SG_API int sg_file_mkdir(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                         const struct sg_call *call, struct sg_error *err);
/* With all that is in it; what is not there is no error. */
SG_API int sg_file_remove(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                          const struct sg_call *call, struct sg_error *err);
SG_API int sg_file_rename(struct sg_sandbox *box, const char *from, const char *to,
                          const struct sg_file_options *options, const struct sg_call *call, struct sg_error *err);
/* A URL by which anybody can read (or, by POST of a form, write) this file, without a request.  lifetime_s 0: for ever. */
SG_API int sg_file_url(const struct sg_sandbox *box, const char *path, bool to_write,
                       const char *user /* NULL: default */, uint32_t lifetime_s, char **ret, struct sg_error *err);

/* ---- watches ---- */

enum sg_event_type {
        SG_EVENT_OTHER,
        SG_EVENT_CREATE,
        SG_EVENT_WRITE,
        SG_EVENT_REMOVE,
        SG_EVENT_RENAME,
        SG_EVENT_CHMOD
};

struct sg_event { /* as long as the callback */
        enum sg_event_type type;
        const char *name; /* below the directory that is watched; ".": the directory itself */
};
/* 0: go on; negative: the call that waits ends with SG_CANCELLED. */
typedef int sg_event_fn(const struct sg_event *event, void *arg);

struct sg_watch_options {
        sg_event_fn *on_event; /* must be there */
        void *arg;
        bool is_recursive;
        const char *user; /* NULL: the sandbox's default */
        uintptr_t reserved[2];
};
/* When it returns, the directory is watched. */
SG_API int sg_watch_open(struct sg_sandbox *box, const char *path, const struct sg_watch_options *options,
                         const struct sg_call *call, struct sg_watch **ret, struct sg_error *err);
/* Events to the callback, until the time limit (SG_TIMEOUT; none by default), cancelling, or the end of the sandbox. */
SG_API int sg_watch_wait(struct sg_watch *watch, const struct sg_call *call, struct sg_error *err);
/* What is there now, without waiting: how many events there were.  sg_watch_fd() is readable when there is something to do. */
SG_API int sg_watch_poll(struct sg_watch *watch, struct sg_error *err);
SG_API int sg_watch_fd(const struct sg_watch *watch); /* borrowed */
SG_API void sg_watch_free(struct sg_watch *watch);

/* ---- code, in sandboxes that have a code interpreter (template code-interpreter-v1) ---- */

struct sg_text { /* not NUL-terminated; p NULL: not there */
        const char *p;
        size_t n;
};

enum sg_code_event_type {
        SG_CODE_OTHER,
        SG_CODE_COUNT,  /* the kernel accepted the code: `count` */
        SG_CODE_STDOUT, /* `text` */
        SG_CODE_STDERR, /* `text` */
        SG_CODE_RESULT, /* a value or a display: `fields`, `is_main` */
        SG_CODE_ERROR,  /* `name`, `value`, `traceback` */
        SG_CODE_KEEPALIVE,
        SG_CODE_END, /* the last one */
};

enum sg_code_field { /* of a result */
                     SG_CODE_TEXT,
                     SG_CODE_HTML,
                     SG_CODE_MARKDOWN,
                     SG_CODE_SVG,
                     SG_CODE_PNG,
                     SG_CODE_JPEG,
                     SG_CODE_PDF,
                     SG_CODE_LATEX,
                     SG_CODE_JSON,
                     SG_CODE_JAVASCRIPT,
                     SG_CODE_DATA,
                     SG_CODE_CHART,
                     SG_CODE_FIELD_COUNT,
};
SG_API const char *sg_code_field_mime(enum sg_code_field field); /* "text/plain" */

struct sg_code_event { /* as long as the callback */
        enum sg_code_event_type type;
        struct sg_text json; /* all of it, a JSON object on one line */
        int64_t count;
        bool is_main; /* the value of the last expression */
        struct sg_text text, name, value, traceback;
        struct sg_text fields[SG_CODE_FIELD_COUNT]; /* each is JSON: strings in quotes, with escapes */
        struct sg_text extra;                       /* a JSON object {MIME type: value} */
};
/* 0: go on; negative: the run is interrupted, and the call ends with SG_CANCELLED. */
typedef int sg_code_event_fn(const struct sg_code_event *event, void *arg);

struct sg_code_options {
        const char *language;       /* NULL: that of the context, or python */
        const char *context;        /* id; NULL: the default one of the language.  Not both of them */
        const struct sg_pair *env;  /* for this run; NULL: none */
        sg_code_event_fn *on_event; /* NULL: events are only told by *ret */
        void *arg;
        size_t kept_max; /* of the JSON in *ret; 0: SG_OUTPUT_MAX */
        uintptr_t reserved[4];
};
struct sg_code_result {
        bool has_failed;                                  /* there was an error event */
        const char *out, *err;                            /* what was printed, NUL-terminated; cut at kept_max */
        const char *text;                                 /* the value of the last expression as text; "" if none */
        const char *error_name, *error_value, *traceback; /* "" if it has not failed */
        const char *results_json;                         /* a JSON array with all results; cut: those that fitted */
        bool is_cut;
};
/* The code may hold NUL-free UTF-8 up to 32 MiB.  The time limit of the call is that of the run (default 300 s); when it has
 * passed, or the call is cancelled, the run is interrupted.  ret NULL: only the callback is told. */
SG_API int sg_run_code(struct sg_sandbox *box, const char *code, size_t len, const struct sg_code_options *options,
                       const struct sg_call *call, struct sg_code_result **ret, struct sg_error *err);

struct sg_context {
        const char *id, *language, *cwd;
};
struct sg_context_list {
        size_t count;
        const struct sg_context *items;
};
SG_API int sg_context_create(struct sg_sandbox *box, const char *language /* NULL: python */,
                             const char *cwd /* NULL: home */, const struct sg_call *call, struct sg_context **ret,
                             struct sg_error *err);
SG_API int sg_context_list(struct sg_sandbox *box, const struct sg_call *call, struct sg_context_list **ret,
                           struct sg_error *err);
SG_API int sg_context_restart(struct sg_sandbox *box, const char *id, const struct sg_call *call, struct sg_error *err);
SG_API int sg_context_delete(struct sg_sandbox *box, const char *id, const struct sg_call *call, struct sg_error *err);

/* ---- everything else ---- */

struct sg_answer {
        int status;       /* 200 to 299 */
        const char *body; /* NUL-terminated */
        size_t body_len;
        const char *next_token; /* of the next page of a list; "": there is none */
};
/* A piece of the body of an answer of 2xx, instead of sg_answer.body.  0: go on; negative: the call ends with SG_CANCELLED. */
typedef int sg_body_fn(int status, const char *bytes, size_t len, void *arg);

struct sg_request_options {
        const struct sg_pair *headers; /* further ones; NULL: none */
        /* To which server: NULL: the REST API.  Else "https://host[:port]": no key is sent there.  `box`: to a port of it. */
        const char *url;
        struct sg_sandbox *box;
        uint16_t port;
        bool sends_fd; /* the body is what comes from body_fd to its end, instead of `body` */
        int body_fd;   /* borrowed */
        /* Told after each piece of it: how many bytes were sent so far.  NULL: not told. */
        void (*on_sent)(uint64_t bytes, void *arg);
        const char *content_type; /* NULL: application/json where there is a body */
        size_t answer_max;        /* 0: 16 MiB */
        sg_body_fn *on_body;      /* NULL: sg_answer.body */
        void *arg;
        enum sg_toggle repeats; /* may it be sent again?  By default GET, HEAD, PUT and DELETE without body_fd may */
        uintptr_t reserved[4];
};
/* One request: a method, a path with query ("/templates?limit=10"; its parts percent-encoded: sg_encode()), a body (JSON text;
 * NULL: none).  A status other than 2xx is an error in the server's words. */
SG_API int sg_request(struct sg_client *client, const char *method, const char *path, const char *body,
                      const struct sg_request_options *options, const struct sg_call *call, struct sg_answer **ret,
                      struct sg_error *err);
/* `text` percent-encoded, as one part of a path or a query. */
SG_API int sg_encode(const char *text, char **ret, struct sg_error *err);

#ifdef __cplusplus
}
#endif
#endif
