/* registry_url.h - which URLs of registries are spoken to, and who gets credentials.  Pure.
 *
 * Rules: HTTPS, or plain HTTP where the operator allows it (on this machine, and insecure_registries).  A token or a password
 * goes to the registry that it is for, and to the token service that may speak for this registry, never to another host. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct conf;
struct err;
struct image_ref;

#define REGISTRY_URL_MAX 4096
#define REGISTRY_HOST_MAX 262
#define REGISTRY_ORIGIN_MAX (REGISTRY_HOST_MAX + 16)

struct registry_url {                 /* parts of an absolute http:// or https:// URL */
        bool is_plain;                /* http:// */
        char host[REGISTRY_HOST_MAX]; /* lower case; an IPv6 address with its brackets */
        uint16_t port;                /* also where the URL has none */
};

/* Strict: no user, no fragment, no blanks, no backslash, printable ASCII.  ERR_INVALID. */
int registry_url_parse(struct str url, struct registry_url *ret, struct err *err);
bool registry_url_is_same_origin(const struct registry_url *a, const struct registry_url *b);
/* Nobody but programs on this machine hears what is sent there. */
bool registry_url_is_local(const struct registry_url *u);

/* The origin to ask for the image: "https://registry-1.docker.io", a mirror, or "http://localhost:5000". */
int registry_origin(const struct conf *c, const struct image_ref *ref, char out[REGISTRY_ORIGIN_MAX], struct err *err);

/* May an answer of `from` send us on to `to`?  Never from HTTPS to plain HTTP, to plain HTTP only where the operator allows it,
 * and from another machine never to this one.  ERR_DENIED says which rule. */
int registry_may_follow(const struct conf *c, const struct registry_url *from, const struct registry_url *to,
                        struct err *err);

/* May the password for `registry` go to the token service `realm`, that the registry named?  The same host, a domain
 * above it, or Docker's own pair of hosts; encrypted, or on this machine.  Whoever owns the domain above a registry can answer in its name anyway. */
bool registry_may_send_password(const struct registry_url *registry, const struct registry_url *realm);
