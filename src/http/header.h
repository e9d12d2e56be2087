/* header.h - one header of a request or an answer, as server.h and client.h take them. */
#pragma once

struct http_header {
        const char *name, *value;
}; /* lists end with {NULL, NULL}; a list may be NULL */
