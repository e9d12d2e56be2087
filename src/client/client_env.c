/* Clients that are described by the environment, or by the file that a server writes.  Besides this, the library
 * reads the environment for programs (modes/environment.h), and OpenSSL reads SSL_CERT_FILE. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "model/envfile.h"

/* NULL also for an empty one, which is how some shells take a variable back. */
static const char *variable(const char *name)
{
        const char *text = getenv(name);

        return text && text[0] ? text : NULL;
}

/* What the caller names counts. */
static struct sg_client_options with_defaults(const struct sg_client_options *given,
                                              const struct sg_client_options *usual)
{
        struct sg_client_options o = given ? *given : (struct sg_client_options){0};

        if (!o.api_key && !o.access_token) {
                o.api_key = usual->api_key;
                o.access_token = usual->access_token;
        }
        /* Addresses belong together: those of another server are of no use. */
        if (!o.domain && !o.api_url) {
                o.domain = usual->domain;
                o.api_url = usual->api_url;
                if (!o.sandbox_url)
                        o.sandbox_url = usual->sandbox_url;
        }
        if (!o.ca_file)
                o.ca_file = usual->ca_file;
        return o;
}

/* ---- the file ---- */

static int read_file(const char *path, struct envfile *ret, struct sg_error *err)
{
        AUTO_BUF struct buf text = BUF_INIT(ENVFILE_MAX);
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n;
        int r;

        if (fd < 0 && errno == ENOENT)
                return error_set(err, SG_NOT_FOUND, "there is no file '%s'", path);
        if (fd < 0)
                return error_sys(err, -errno, "open '%s'", path);
        do {
                n = buf_fill(&text, fd, buf_room(&text));
        } while (n > 0 || n == -EINTR);
        r = n < 0 ? (int)n : envfile_parse((struct str){(const char *)buf_at(&text), text.len}, ret);
        if (r == 0 && (!ret->api_url || !ret->api_key)) {
                envfile_done(ret);
                r = -EINVAL;
        }
        return r == -EINVAL ? error_set(err, SG_INVALID, "'%s' is not the file of a server", path)
               : r < 0      ? error_sys(err, r, "read '%s'", path)
                            : 0;
}

int sg_client_open_from_file(const char *env_file, const struct sg_client_options *options, struct sg_client **ret,
                             struct sg_error *err)
{
        struct sg_client_options usual, o;
        struct envfile file = {0};
        int r = check_text(env_file, "the name of the file", 4096, err);

        if (r == 0)
                r = read_file(env_file, &file, err);
        if (r < 0)
                return r;
        usual = (struct sg_client_options){.api_url = file.api_url,
                                           .sandbox_url = file.sandbox_url,
                                           .domain = file.domain,
                                           .api_key = file.api_key,
                                           .ca_file = file.ca_certs};
        o = with_defaults(options, &usual);
        r = sg_client_open(&o, ret, err);
        envfile_done(&file);
        return r;
}

/* ---- the environment ---- */

static int from_variables(const struct sg_client_options *options, struct sg_client **ret, struct sg_error *err)
{
        const char *url = variable("E2B_API_URL"), *domain = variable("E2B_DOMAIN"),
                   *sandbox = variable("E2B_SANDBOX_URL");
        const struct sg_client_options usual = {
                .api_key = variable("E2B_API_KEY"),
                .access_token = variable("E2B_ACCESS_TOKEN"),
                .domain = domain,
                .api_url = url,
                /* A server without a domain of its own is reached at one address. */
                .sandbox_url = sandbox  ? sandbox
                               : domain ? NULL
                                        : url,
                .ca_file = variable("NODE_EXTRA_CA_CERTS"), /* OpenSSL itself looks at SSL_CERT_FILE */
        };
        const struct sg_client_options o = with_defaults(options, &usual);

        if (!o.api_key && !o.access_token)
                return error_set(err, SG_INVALID, "there is no API key: set E2B_API_KEY");
        return sg_client_open(&o, ret, err);
}

int sg_client_open_from_env(const struct sg_client_options *options, struct sg_client **ret, struct sg_error *err)
{
        static const char *const usual[] = {"./data/env", "/var/lib/sandglass/env"};
        const char *data = variable("SANDGLASS_DATA");
        AUTO_FREE char *path = NULL;
        struct sg_error why = {0};
        int r = -ENOENT;

        if (variable("E2B_API_URL") || variable("E2B_DOMAIN") || variable("E2B_API_KEY") ||
            (options && (options->api_key || options->access_token)))
                return from_variables(options, ret, err);
        if (data && asprintf(&path, "%s/env", data) < 0)
                return error_no_memory(err);
        if (path)
                return sg_client_open_from_file(path, options, ret, err);
        for (size_t i = 0; i < ARRAY_LEN(usual) && r < 0; i++) {
                r = sg_client_open_from_file(usual[i], options, ret, &why);
                if (r < 0 && why.kind != SG_NOT_FOUND)
                        return error_pass(err, &why);
        }
        return r < 0 ? error_set(err, SG_INVALID,
                                 "there is no API key: set E2B_API_KEY, or start a server (its directory is ./data, "
                                 "/var/lib/sandglass or SANDGLASS_DATA)")
                     : 0;
}
