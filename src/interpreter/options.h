/* options.h - the command line of sandglass-interpreter. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

#define KERNEL_DIRS_MAX 64

struct options {
        const char *listen; /* "ADDR:PORT" */
        struct sockaddr_in envd;
        const char *home;
        const char *identity_file;
        unsigned start_ms_max;
        uint32_t output_max;                    /* bytes of one message of a kernel */
        char *kernel_dirs[KERNEL_DIRS_MAX + 1]; /* NULL-terminated, owned; first one first */
        bool is_detached;                       /* the parent is left when the port is open */
        bool wants_version, wants_help;
};

extern const char options_usage[];
/* ERR_INVALID names what is wrong. */
int options_parse(int argc, char **argv, struct options *ret, struct err *err);
void options_done(struct options *o);
