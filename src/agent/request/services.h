/* services.h - which servers a template starts: /etc/sandglass/services.json (docs/internals/services.md).  Pure. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define SERVICES_FILE "/etc/sandglass/services.json"
#define SERVICES_FILE_MAX (64u << 10) /* bytes; a larger one counts as none */
#define SERVICES_MAX 16
#define SERVICE_NAME_MAX 65
#define SERVICE_PATH_MAX 1024
#define SERVICE_TOKEN_LEN 64

enum token_goes { TOKEN_NOWHERE, TOKEN_AS_BEARER, TOKEN_AS_TKN };

struct service {
        char name[SERVICE_NAME_MAX];
        uint16_t port;
        char path[SERVICE_PATH_MAX];       /* of its URL */
        char token_file[SERVICE_PATH_MAX]; /* "": it takes no token */
        enum token_goes token_goes;
        char token[SERVICE_TOKEN_LEN + 1]; /* "": not known, or none */
};

struct services {
        struct service all[SERVICES_MAX];
        size_t count;
};

/* ERR_INVALID: it is not of this form; *ret has no services then. */
int services_decode(const json_t *file, struct services *ret, struct err *err);
void services_make_tokens(struct services *s); /* random ones, for those that take one */
/* obj with "ports", "services", "mcp_url" and so on, for the sandbox of that id; obj is released when it cannot be whole. */
json_t *services_show(json_t *obj, const struct services *s, const char *id, const char *domain);
