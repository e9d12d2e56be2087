#include "client/lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/lookup.h"
#include "http/origin.h"
#include "io/tls.h"

#define LANE_IDLE_MS 60000u /* then its addresses may be old */

static struct lane *lane_free(struct lane *lane)
{
        if (!lane)
                return NULL;
        (void)http_client_free(lane->http);
        (void)loop_free(lane->loop);
        free(lane->url);
        free(lane);
        return NULL;
}

static void lanes_close(struct lane *list)
{
        while (list) {
                struct lane *next = list->next;

                (void)lane_free(list);
                list = next;
        }
}

void lanes_free(struct sg_client *client)
{
        lanes_close(TAKE_PTR(client->kept));
        client->kept_count = 0;
}

/* ---- kept ones ---- */

/* Unhooks the lane at *at. */
static struct lane *lane_unhook(struct sg_client *client, struct lane **at)
{
        struct lane *lane = *at;

        *at = lane->next;
        lane->next = NULL;
        client->kept_count--;
        return lane;
}

/* The newest one to this server; *ret_old: those that were kept too long. */
static struct lane *take_kept(struct sg_client *client, const char *url, struct lane **ret_old)
{
        uint64_t now = clock_mono_ms();
        struct lane *found = NULL;

        (void)pthread_mutex_lock(&client->mutex);
        for (struct lane **at = &client->kept; *at;) {
                struct lane *lane = *at;

                if (now - lane->idle_since_ms >= LANE_IDLE_MS) {
                        (void)lane_unhook(client, at);
                        lane->next = *ret_old;
                        *ret_old = lane;
                } else if (!found && strcmp(lane->url, url) == 0) {
                        found = lane_unhook(client, at);
                } else {
                        at = &lane->next;
                }
        }
        (void)pthread_mutex_unlock(&client->mutex);
        return found;
}

void lane_give_back(struct sg_client *client, struct lane *lane)
{
        struct lane *old = NULL;

        if (!lane)
                return;
        lane->idle_since_ms = clock_mono_ms();
        (void)pthread_mutex_lock(&client->mutex);
        if (!lane->is_broken && client->kept_max) {
                if (client->kept_count >= client->kept_max) {
                        struct lane **at = &client->kept;

                        while ((*at)->next)
                                at = &(*at)->next;
                        old = lane_unhook(client, at);
                }
                lane->next = client->kept;
                client->kept = lane;
                client->kept_count++;
                lane = NULL;
        }
        (void)pthread_mutex_unlock(&client->mutex);
        (void)lane_free(lane);
        (void)lane_free(old);
}

/* ---- new ones ---- */

static int client_tls_create(const struct sg_client *client, struct tls_context **ret, struct err *err)
{
        struct tls_context *tls = NULL;
        int r = tls_client_context_create(NULL, &tls, err);

        if (r == 0 && client->ca_file)
                r = tls_client_context_trust(tls, client->ca_file, err);
        if (r < 0)
                (void)tls_context_free(tls);
        else
                *ret = tls;
        return r;
}

static int client_tls(struct sg_client *client, struct tls_context **ret, struct sg_error *err)
{
        struct err why = {0};
        int r = 0;

        (void)pthread_mutex_lock(&client->mutex);
        if (!client->tls)
                r = client_tls_create(client, &client->tls, &why);
        *ret = client->tls;
        (void)pthread_mutex_unlock(&client->mutex);
        return r < 0 ? error_from(err, &why) : 0;
}

static int lane_open(struct lane *lane, struct sg_client *client, struct limit *l, struct sg_error *err)
{
        struct http_client_options opt = {.url = lane->url, .timeouts = {.idle_ms = HTTP_NO_TIMEOUT}};
        struct http_origin origin = {0};
        struct err why = {0};
        int r = http_origin_parse(lane->url, &origin, &why);

        if (r < 0)
                return error_from(err, &why);
        if (origin.is_tls)
                r = client_tls(client, &opt.tls, err);
        if (r == 0)
                r = lookup(origin.name, origin.port, l, &opt.addresses, err);
        http_origin_done(&origin);
        if (r < 0)
                return r;
        r = loop_create_quietly(&lane->loop);
        if (r < 0) {
                freeaddrinfo(opt.addresses);
                return error_sys(err, r, "event loop");
        }
        opt.loop = lane->loop;
        r = http_client_create(&opt, &lane->http, &why);
        return r < 0 ? error_from(err, &why) : 0;
}

int lane_take(struct sg_client *client, const char *url, struct limit *l, struct lane **ret, struct sg_error *err)
{
        struct lane *old = NULL, *lane = take_kept(client, url, &old);
        int r;

        lanes_close(old);
        if (!lane) {
                lane = calloc(1, sizeof(*lane));
                if (lane)
                        lane->url = strdup(url);
                r = lane && lane->url ? lane_open(lane, client, l, err) : error_no_memory(err);
                if (r < 0) {
                        (void)lane_free(lane);
                        return r;
                }
        }
        *ret = lane;
        return 0;
}
