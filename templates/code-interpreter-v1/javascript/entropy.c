/* entropy.c - entropy.node: gives OpenSSL in this node new entropy.
 *
 * Keys, nonces and prime numbers come from OpenSSL's own generators, whose state is in memory. After a copy of the process was made
 * they would give each copy the same. New entropy in the first generator makes those of all threads draw from it again.
 * Built by the Dockerfile. OpenSSL is the one that node brings, so its function is only declared here. */
#include <errno.h>
#include <node_api.h>
#include <string.h>
#include <sys/random.h>

#define ENTROPY_BYTES 48

void RAND_add(const void *buf, int num, double randomness);

static napi_value renew(napi_env env, napi_callback_info info)
{
        unsigned char bytes[ENTROPY_BYTES];
        ssize_t n;

        (void)info;
        do {
                n = getrandom(bytes, sizeof(bytes), 0);
        } while (n < 0 && errno == EINTR);
        if (n != (ssize_t)sizeof(bytes)) {
                (void)napi_throw_error(env, NULL, "the kernel gives no random bytes");
                return NULL;
        }
        RAND_add(bytes, sizeof(bytes), sizeof(bytes));
        explicit_bzero(bytes, sizeof(bytes));
        return NULL;
}

NAPI_MODULE_INIT()
{
        napi_value function;

        (void)exports;
        if (napi_create_function(env, "renew", NAPI_AUTO_LENGTH, renew, NULL, &function) != napi_ok)
                return NULL;
        return function;
}
