/* handler_context.h - what every handler of a request needs, whatever the request is about.  One per process. */
#pragma once
#include <stdbool.h>

#include "envd/rpc/settings.h"

struct loop;

struct handler_context {
        struct loop *loop;        /* owned by main.c */
        struct settings settings; /* what the sandbox was told about itself */
        bool keep_user;           /* standalone without privileges: every user is the one the daemon runs as */
};
