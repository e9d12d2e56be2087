/* platform.h - the platform behind `sandglass mcp`: a client of a server, and the sandboxes that were made for assistants.
 *
 * Tools are functions that wait (work.h); the protocol runs in the loop of mcp/protocol. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct err;
struct mcp;
struct mcp_backend;
struct sg_client;
struct started;
struct workers;

struct platform_options {
        const char *data_dir;  /* as for all commands; NULL: not given */
        const char *files_dir; /* upload_file and download_file stay below it; NULL: there are no such tools */
        bool kills_on_exit;    /* ... the sandboxes that were made here */
};

struct platform {
        struct sg_client *client; /* owned */
        struct workers *workers;  /* owned; NULL: not started */
        struct started *started;  /* owned; for all threads */
        int files_fd;             /* of files_dir; -1: none */
        bool kills_on_exit;
        json_t *made; /* owned; an object whose keys are the ids of sandboxes that were made here and not killed */
};

extern const struct mcp_backend platform_backend; /* mcp->user is the platform */

int platform_open(struct platform *p, const struct platform_options *opt, struct err *err);
/* Tool calls may come.  m has its loop. */
int platform_start(struct platform *p, struct mcp *m, struct err *err);
/* Cancels what is under way and waits for its end; kills sandboxes where asked to.  Fine when it was not opened. */
void platform_close(struct platform *p);
