/* serve.h - the process that serves: the loop, its kernels and contexts, the HTTP server. */
#pragma once

struct options;

struct serve_options {
        const struct options *options;
        int listen_fd;           /* taken */
        int guardian_fd;         /* taken; readable once the guardian has ended */
        const char *runtime_dir; /* for connection files */
};

enum serve_end {
        SERVE_STOPPED,  /* by a signal */
        SERVE_FAILED,   /* it could not serve */
        SERVE_ORPHANED, /* the guardian has ended */
};

/* Serve until one of these; all kernels have ended then. */
enum serve_end serve_run(const struct serve_options *opt);
