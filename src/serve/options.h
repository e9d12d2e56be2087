/* options.h - the command line of `sandglass serve` and its config file, into one checked configuration. */
#pragma once
#include <stdbool.h>

#include "model/conf.h"

struct err;

#define SERVE_DEFAULT_DATA "/var/lib/sandglass"
#define SERVE_DEFAULT_GROUP "sandglass"

struct serve_options {
        struct conf conf;
        bool domain_is_given; /* else the domain follows the TLS port */
        bool uids_are_given;  /* else the users sandglass, sandglass-edge and so on are looked up */
        bool check;           /* run a first sandbox and greet */
        char *mirror;         /* owned; where the base template comes from; NULL: the host's own */
        const char *notify;   /* borrowed from the environment: where the service manager listens; NULL: nowhere */
        bool help;
};

/* argv[0] is "serve".  ERR_INVALID names the option or key.  Options win over the config file. */
int serve_options_parse(int argc, char **argv, struct serve_options *ret, struct err *err);
void serve_options_done(struct serve_options *o);
/* Wrong use: say what is wrong and print the usage; the exit code.  `which` is what getopt_long() returned last: ':', '?', or -1
 * when an argument is too many. */
int usage_fault(const char *command, const char *usage, int which, char **argv);
/* A path made absolute against the working directory, malloc'd; NULL out of memory. */
char *path_absolute(const char *path);
