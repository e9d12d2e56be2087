#include "envd/process/authorities.h"

#include <stddef.h>
#include <unistd.h>

#include "base/auto.h"

/* engine/storage/host_layer.h puts them there. */
#define ADDED "/etc/sandglass/ca.pem"
#define ALL "/etc/sandglass/bundle.pem"
#define SYSTEM                                                                                                         \
        "/etc/ssl/certs/ca-certificates.crt" /* has them too, and what update-ca-certificates adds in the sandbox */

/* Programs that know the system's bundle need no variable; many bring a list of their own. */
static const char *const for_all[] = {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
                                      "PIP_CERT",      "GIT_SSL_CAINFO", "AWS_CA_BUNDLE"};
static const char *const for_added[] = {"NODE_EXTRA_CA_CERTS", "DENO_CERT"};

int authorities_put(json_t *env)
{
        const char *all;

        if (access(ADDED, R_OK) < 0)
                return 0;
        all = access(SYSTEM, R_OK) == 0 ? SYSTEM : ALL;
        for (size_t i = 0; i < ARRAY_LEN(for_all); i++)
                if (json_object_set_new(env, for_all[i], json_string(all)) < 0)
                        return -1;
        for (size_t i = 0; i < ARRAY_LEN(for_added); i++)
                if (json_object_set_new(env, for_added[i], json_string(ADDED)) < 0)
                        return -1;
        return 0;
}
