/* control.h - the control role put together. */
#pragma once
#include <stdint.h>

#include "control/access/keys.h"
#include "control/access/tokens.h"
#include "control/access/user_door.h"
#include "control/api/api.h"
#include "control/build/builds_run.h"
#include "control/build/first_use.h"
#include "control/catalogue/build_log.h"
#include "control/catalogue/durable.h"
#include "control/catalogue/images.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/refs.h"
#include "control/catalogue/snapshots.h"
#include "control/catalogue/standby_wishes.h"
#include "control/catalogue/template_gc.h"
#include "control/catalogue/template_rows.h"
#include "control/catalogue/templates.h"
#include "control/catalogue/uploads.h"
#include "control/credentials/credential_socket.h"
#include "control/credentials/credentials.h"
#include "control/engine_link/engine_link.h"
#include "control/life/ended_files.h"
#include "control/life/layer_chains.h"
#include "control/life/lives.h"
#include "control/routes/route_server.h"
#include "store/store.h"

struct conf;
struct err;

struct control {
        const struct conf *conf; /* borrowed */
        struct loop *loop;       /* borrowed */
        struct store *store;     /* owned, as all below */
        struct keys keys;
        struct tokens tokens;
        struct user_door user_door;
        struct credentials credentials;
        struct credential_socket credential_socket;
        struct templates templates;
        struct engine_link engine;
        struct durable durable;
        struct refs refs;
        struct ended_files ended;
        struct snapshots snapshots;
        struct template_rows template_rows;
        struct layer_cache layer_cache;
        struct images images;
        struct build_logs build_logs;
        struct uploads uploads;
        struct template_gc template_gc;
        struct standby_wishes standby_wishes;
        struct lives lives;
        struct layer_chains layer_chains;
        struct builds_run builds;
        struct first_use first_use;
        struct route_server routes;
        struct api api;
};

/* Everything but the listening: with the store open, the engine being connected to, and nothing served yet.
 * now_ns: real time.  boot_ns: a clock that nobody sets. */
int control_init(struct control *c, const struct conf *conf, struct loop *loop, int64_t (*now_ns)(void),
                 int64_t (*boot_ns)(void), struct err *err);
int control_listen(struct control *c, struct err *err); /* on the sockets that conf names */
void control_done(struct control *c);                   /* also half-initialised */
