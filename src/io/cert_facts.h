/* cert_facts.h - what a server's certificate says and whether clients will accept it: of a file, or as a server shows it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;

#define CERT_WORDS_MAX 160

struct cert_facts {
        int64_t begins_s, ends_s;        /* since 1970 */
        bool covers_name;                /* is it for the name that was asked for? */
        char issuer[CERT_WORDS_MAX];     /* for people */
        char distrusted[CERT_WORDS_MAX]; /* why the chain is not trusted, at this moment; "": it is */
};

/* The certificate in a file of PEM, leaf first, then its chain.  ca_pem_path: the authorities; NULL: the system's. */
int cert_facts_of_file(const char *cert_pem_path, const char *name, const char *ca_pem_path, struct cert_facts *ret,
                       struct err *err);
/* Shake hands as a client that wants to reach `name`, on a connected socket that blocks with time limits (SO_RCVTIMEO,
 * SO_SNDTIMEO); borrowed.  A certificate that is not accepted is no failure: *ret says so. */
int cert_facts_of_server(int fd, const char *name, const char *ca_pem_path, struct cert_facts *ret, struct err *err);
