/* challenge.h - what a registry asks for when it answers 401: the header WWW-Authenticate (RFC 7235).  Pure. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

enum challenge_kind { CHALLENGE_NONE, CHALLENGE_BASIC, CHALLENGE_BEARER };

#define CHALLENGE_TEXT_MAX 1024

struct challenge {
        enum challenge_kind kind;
        char realm[CHALLENGE_TEXT_MAX];   /* Bearer: URL of the token service */
        char service[CHALLENGE_TEXT_MAX]; /* Bearer; "" when there is none */
        char scope[CHALLENGE_TEXT_MAX];   /* Bearer; "" when there is none */
};

/* The best that the header offers: Bearer with a realm, else Basic, else CHALLENGE_NONE.  Text that is too long, or not well
 * formed, ends what is looked at. */
void challenge_parse(struct str header, struct challenge *ret);
