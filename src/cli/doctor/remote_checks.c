#include "cli/doctor/remote_checks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/doctor/addresses.h"
#include "io/cert_facts.h"
#include "io/tls.h"
#include "model/conf.h"
#include "sandglass.h"

#define SAMPLE_LABEL "3000-i0123456789" /* as a sandbox's port would be called: found through a wildcard entry only */
#define NAME_ROOM 300
#define PATIENCE_S 10
#define SOON_DAYS 14
#define ANSWER_MAX (1u << 20)

static void name_below(const struct remote_env *env, const char *label, char out[NAME_ROOM])
{
        (void)snprintf(out, NAME_ROOM, "%s.%.250s", label, env->host);
}

static bool is_local_name(const struct remote_env *env)
{
        return strcmp(env->host, "localhost") == 0 || str_ends(str_of(env->host), ".localhost");
}

static void check_domain_name(const struct remote_env *env, struct check_result *ret)
{
        if (is_local_name(env))
                check_say(ret, CHECK_MISSING, "start the server with a domain of yours: --domain sandbox.example.com",
                          "%s means this machine, on every machine", env->domain);
        else
                check_say(ret, CHECK_OK, NULL, "%s; clients use port %u", env->host, env->port);
}

/* ---- names ---- */

static struct addrinfo *look_up(const char *name, uint16_t port, int *ret_fault)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
        struct addrinfo *list = NULL;
        char service[8];

        (void)snprintf(service, sizeof(service), "%u", port);
        *ret_fault = getaddrinfo(name, service, &hints, &list);
        return *ret_fault ? NULL : list;
}

static void address_text(const struct addrinfo *a, char out[INET6_ADDRSTRLEN])
{
        if (getnameinfo(a->ai_addr, a->ai_addrlen, out, INET6_ADDRSTRLEN, NULL, 0, NI_NUMERICHOST) != 0)
                (void)snprintf(out, INET6_ADDRSTRLEN, "?");
}

static bool resolves(const struct remote_env *env, const char *label, struct addresses *ret_addresses,
                     struct check_result *ret)
{
        char name[NAME_ROOM], text[INET6_ADDRSTRLEN];
        struct addrinfo *list;
        int fault;

        name_below(env, label, name);
        list = look_up(name, env->port, &fault);
        if (!list) {
                check_say(ret, CHECK_MISSING, "add DNS entries for *.DOMAIN that lead to the server (A, AAAA)",
                          "%.120s: %s", name, gai_strerror(fault));
                return false;
        }
        for (const struct addrinfo *a = list; a; a = a->ai_next) {
                address_text(a, text);
                addresses_add(ret_addresses, text);
        }
        freeaddrinfo(list);
        return true;
}

static void check_names_resolve(const struct remote_env *env, struct check_result *ret)
{
        char api_text[CHECK_TEXT_MAX / 2], any_text[CHECK_TEXT_MAX / 2];
        struct addresses api = {0}, any = {0};

        if (!resolves(env, "api", &api, ret) || !resolves(env, SAMPLE_LABEL, &any, ret))
                return;
        addresses_format(&api, api_text, sizeof(api_text));
        addresses_format(&any, any_text, sizeof(any_text));
        if (!addresses_equal(&api, &any))
                check_say(ret, CHECK_NOTE, "both must lead to the server", "api.DOMAIN is %s, but *.DOMAIN is %s",
                          api_text, any_text);
        else
                check_say(ret, CHECK_OK, NULL, "*.%.80s is %s", env->host, any_text);
}

/* ---- on the server's own machine ---- */

static void check_listening(const struct remote_env *env, struct check_result *ret)
{
        struct str host;
        uint16_t port = 0;

        if (!env->listen || !env->tls_listen) {
                check_say(ret, CHECK_NOTE, NULL,
                          "the server is not on this machine, or its data directory is not known");
                return;
        }
        (void)conf_split_address(str_of(env->tls_listen), &host, &port);
        if (conf_is_loopback(env->tls_listen))
                check_say(ret, CHECK_MISSING, "start the server with --tls-listen 0.0.0.0:PORT (or [::]:PORT)",
                          "TLS is only on %s, which other machines cannot reach", env->tls_listen);
        else if (!conf_is_loopback(env->listen))
                check_say(ret, CHECK_NOTE, "keep --listen on 127.0.0.1, or on a network that you trust",
                          "TLS on %s; plain HTTP on %s, where keys can be read on the way", env->tls_listen,
                          env->listen);
        else if (port != env->port)
                check_say(ret, CHECK_NOTE,
                          "--domain NAME:PORT with the TLS port, or a forwarding from one port to the other",
                          "TLS on %s, but clients use port %u", env->tls_listen, env->port);
        else
                check_say(ret, CHECK_OK, NULL, "TLS on %s, plain HTTP on %s", env->tls_listen, env->listen);
}

static long days_left(const struct cert_facts *f)
{
        return (long)((f->ends_s - clock_real_ms() / 1000) / (24 * 3600));
}

/* What both the file and the server may have to be told. */
static void judge_certificate(const struct remote_env *env, const struct cert_facts *f, struct check_result *ret)
{
        long days = days_left(f);

        if (f->ends_s * 1000 < clock_real_ms())
                check_say(ret, CHECK_MISSING, "renew the certificate; the server notices the new files by itself",
                          "the certificate has expired (%ld days ago)", -days);
        else if (!f->covers_name)
                check_say(ret, CHECK_MISSING, "get a certificate for *.DOMAIN (and DOMAIN)",
                          "the certificate is not for *.%.100s", env->host);
        else if (f->distrusted[0])
                check_say(ret, env->authority ? CHECK_NOTE : CHECK_MISSING,
                          "put the whole chain into the file, the server's own certificate first; a private authority "
                          "must be "
                          "known to all clients",
                          "not trusted: %s", f->distrusted);
        else if (days < SOON_DAYS)
                check_say(ret, CHECK_NOTE, "renew the certificate; the server notices the new files by itself",
                          "for *.%.80s by %.40s, for %ld more days only", env->host, f->issuer, days);
        else if (env->authority)
                check_say(ret, CHECK_NOTE, "give clients the authority's certificate, or use one with --tls-cert",
                          "for *.%.60s, %ld days; only clients that know %.60s accept it", env->host, days,
                          env->authority);
        else
                check_say(ret, CHECK_OK, NULL, "for *.%.80s by %.40s, for %ld more days", env->host, f->issuer, days);
}

static void check_certificate_file(const struct remote_env *env, struct check_result *ret)
{
        struct tls_context *t = NULL;
        struct cert_facts f;
        struct err err = {0};
        char name[NAME_ROOM];

        if (!env->tls_cert || !env->tls_key) {
                check_say(ret, CHECK_OK, NULL, env->listen ? "from the server's own authority" : "not known here");
                return;
        }
        name_below(env, SAMPLE_LABEL, name);
        if (cert_facts_of_file(env->tls_cert, name, NULL, &f, &err) < 0) {
                check_say(ret, CHECK_MISSING, "see `tls_cert` and `tls_key` in docs/server.md", "%s", err.msg);
                return;
        }
        if (access(env->tls_key, R_OK) < 0) {
                check_say(ret, CHECK_NOTE, "sudo sandglass doctor --remote", "%.120s: %s", env->tls_key,
                          strerror(errno));
                return;
        }
        if (tls_context_create(&(struct tls_options){.cert_pem_path = env->tls_cert, .key_pem_path = env->tls_key}, &t,
                               &err) < 0)
                check_say(ret, CHECK_MISSING,
                          "the key must be the one of the certificate; the server keeps the pair before", "%s",
                          err.msg);
        else
                judge_certificate(env, &f, ret);
        t = tls_context_free(t);
}

/* ---- from here to the server ---- */

static int connect_to(const struct addrinfo *a, int *ret_fd)
{
        const struct timeval patience = {.tv_sec = PATIENCE_S};
        AUTO_CLOSE int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
            connect(fd, a->ai_addr, a->ai_addrlen) < 0)
                return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* Each address that a client may choose: how many can be reached.  *ret_fd is to the first of them; what is wrong with one that
 * cannot be reached is in *ret. */
static unsigned reach_all(const struct remote_env *env, int *ret_fd, struct check_result *ret)
{
        char name[NAME_ROOM], text[INET6_ADDRSTRLEN];
        struct addrinfo *list;
        unsigned reached = 0;
        int fault;

        name_below(env, SAMPLE_LABEL, name);
        list = look_up(name, env->port, &fault);
        if (!list)
                check_say(ret, CHECK_MISSING, "see names", "the name cannot be found: %s", gai_strerror(fault));
        for (const struct addrinfo *a = list; a; a = a->ai_next) {
                AUTO_CLOSE int fd = -1;
                int r = connect_to(a, &fd);

                address_text(a, text);
                if (r < 0)
                        check_say(ret, CHECK_MISSING,
                                  r == -ECONNREFUSED ? "start the server, or let it listen there (--tls-listen)"
                                                     : "open the port in the firewalls on the way",
                                  "%s port %u: %s", text, env->port, strerror(-r));
                else if (reached++ == 0)
                        *ret_fd = TAKE_FD(fd);
        }
        if (list)
                freeaddrinfo(list);
        return reached;
}

static void check_reachable(const struct remote_env *env, struct check_result *ret)
{
        AUTO_CLOSE int fd = -1;
        unsigned reached = reach_all(env, &fd, ret);

        if (reached > 0 && ret->detail[0])
                ret->state = CHECK_NOTE; /* clients try the next address */
        else if (reached > 0)
                check_say(ret, CHECK_OK, NULL, "port %u can be reached from here", env->port);
}

static void check_handshake(const struct remote_env *env, struct check_result *ret)
{
        AUTO_CLOSE int fd = -1;
        struct cert_facts f;
        struct err err = {0};
        char name[NAME_ROOM];

        if (reach_all(env, &fd, ret) == 0)
                return;
        name_below(env, SAMPLE_LABEL, name);
        if (cert_facts_of_server(fd, name, env->authority, &f, &err) < 0)
                check_say(ret, CHECK_MISSING, "is it the server that listens there, and is this its TLS port?", "%s",
                          err.msg);
        else
                judge_certificate(env, &f, ret);
}

/* One request as a client makes it; its status, or 0 with *err set. */
static unsigned ask_api(const struct remote_env *env, const char *target, struct err *err)
{
        const struct sg_call call = {.timeout_ms = PATIENCE_S * 1000};
        const struct sg_request_options small = {.answer_max = ANSWER_MAX};
        struct sg_client *client = NULL;
        struct sg_answer *answer = NULL;
        struct sg_error why = {0};
        char url[NAME_ROOM + 16];
        unsigned status = 0;

        (void)snprintf(url, sizeof(url), "https://api.%.250s:%u", env->host, env->port);
        if (sg_client_open(
                    &(struct sg_client_options){
                            .api_url = url, .api_key = env->key, .ca_file = env->authority, .retries = SG_NO_RETRIES},
                    &client, &why) == 0 &&
            sg_request(client, "GET", target, NULL, &small, &call, &answer, &why) == 0)
                status = (unsigned)answer->status;
        else
                status = (unsigned)why.http_status;
        if (!status)
                (void)err_set(err, ERR_UNAVAILABLE, "%s", why.message);
        sg_free(answer);
        sg_client_free(client);
        return status;
}

static void check_api(const struct remote_env *env, struct check_result *ret)
{
        struct err err = {0};
        unsigned status = ask_api(env, "/health", &err);

        if (status == 0)
                check_say(ret, CHECK_MISSING, "see the checks above", "%s", err.msg);
        else if (status < 200 || status > 299)
                check_say(ret, CHECK_MISSING, "is it the server that answers, or a proxy in front of it?",
                          "https://api.%.80s answers with status %u", env->domain, status);
        else
                check_say(ret, CHECK_OK, NULL, "https://api.%.120s answers", env->domain);
}

static void check_key(const struct remote_env *env, struct check_result *ret)
{
        struct err err = {0};
        unsigned status;

        if (!env->key) {
                check_say(ret, CHECK_NOTE, "set E2B_API_KEY to try a key", "no key is known here");
                return;
        }
        status = ask_api(env, "/v2/sandboxes?limit=1", &err);
        if (status == 200)
                check_say(ret, CHECK_OK, NULL, "the key is accepted");
        else if (status == 401)
                check_say(ret, CHECK_MISSING, "`sandglass key create NAME` on the server makes another",
                          "the server does not know this key");
        else
                check_say(ret, CHECK_MISSING, "see the checks above", "status %u: %s", status, err.msg);
}

const struct remote_check remote_checks[] = {
        {"domain", check_domain_name},
        {"names", check_names_resolve},
        {"listening", check_listening},
        {"certificate file", check_certificate_file},
        {"port", check_reachable},
        {"certificate served", check_handshake},
        {"API", check_api},
        {"key", check_key},
        {NULL, NULL},
};
