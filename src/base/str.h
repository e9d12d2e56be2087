/* str.h - text from outside: a pointer with a length, which may hold NUL; numbers and hex out of it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
        const char *p; /* borrowed */
        size_t n;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
#define STR_ARG(s) (int)(s).n, (s).p /* for "%.*s" */

static inline struct str str_of(const char *s) /* NULL gives the empty string */
{
        return (struct str){s ? s : "", s ? strlen(s) : 0};
}
static inline bool str_eq(struct str a, struct str b)
{
        return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool str_is(struct str a, const char *b)
{
        return str_eq(a, str_of(b));
}
bool str_ieq(struct str a, struct str b); /* ASCII letters compare without case */
bool str_iis(struct str a, const char *b);
bool str_starts(struct str s, const char *prefix);
bool str_ends(struct str s, const char *suffix);
struct str str_trim(struct str s); /* spaces and tabs at both ends */
/* Cut at the first `sep`: *head is what is before it, *s becomes what is after.  false (and all of s in *head, s empty)
 * when there is none. */
bool str_cut(struct str *s, char sep, struct str *head);
char *str_dup(struct str s); /* malloc'd C string, cut at no NUL; NULL out of memory */
bool str_has_nul(struct str s);
bool str_is_utf8(struct str s);
/* Same bytes?  Takes the same time whatever they are (the lengths are not secret). */
bool str_eq_secret(struct str a, struct str b);

/* Decimal digits only, no sign, no space, in [min, max]; otherwise -EINVAL or -ERANGE. */
int parse_u64(struct str s, uint64_t min, uint64_t max, uint64_t *ret);
int parse_u32(struct str s, uint32_t min, uint32_t max, uint32_t *ret);

/* 2n lower-case digits and a NUL into out (2n + 1 bytes). */
void hex_encode(const void *p, size_t n, char *out);
int hex_value(char c); /* of one digit, either case; -1: it is none */

/* n characters of [a-z0-9] from the kernel's random source and a NUL into out (n + 1 bytes). */
void random_id(char *out, size_t n);
void random_bytes(void *out, size_t n);
/* For libsandglass, which lives in programs that may refuse system calls: 0 or negative errno. */
int random_try(void *out, size_t n);
