#include "engine/namespace/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/jobs/job.h"
#include "engine/jobs/job_answer.h"
#include "engine/namespace/dial.h"
#include "engine/namespace/firewall_watch.h"
#include "engine/namespace/leftovers.h"
#include "engine/namespace/probe.h"
#include "engine/namespace/rules.h"
#include "engine/namespace/start.h"
#include "engine/net/firewall.h"

#define SLOTS_SPARE 64u               /* with fewer free slots, none is used for what is made ahead */
#define OLD_MOUNTS "stall/old-mounts" /* for tests: with this file, mounts are made as on Linux 6.1 */

/* ------------------------------------------------------------- the host */

/* So that what the host lacks is named, not shown as some failed call later. */
static int namespaces_probe(struct err *err)
{
        struct probe_result results[PROBES_MAX];
        const struct probe_result *missing = probe_find_missing(results, probe_all(results));

        if (!missing)
                return 0;
        return err_set(err, ERR_UNAVAILABLE, "%s: %s; %s", missing->name, missing->detail, missing->fix);
}

struct namespaces *namespaces_create(struct engine *e)
{
        struct namespaces *n = calloc(1, sizeof(*n));

        if (!n)
                return NULL;
        n->engine = e;
        n->host_netns = -1;
        n->instance.lock = -1;
        n->table_events.fd = -1;
        return n;
}

struct namespaces *namespaces_free(struct namespaces *n)
{
        if (!n)
                return NULL;
        close_fd(&n->host_netns);
        free(n); /* the lock on the instance's number goes with the process */
        return NULL;
}

static int namespaces_find_ways(struct namespaces *n, struct err *err)
{
        char text[120];
        int r = mount_ways_find(&n->ways, err);

        if (r < 0)
                return r;
        if (faccessat(n->engine->data_dir, OLD_MOUNTS, F_OK, 0) == 0)
                n->ways = (struct mount_ways){0};
        mount_ways_describe(&n->ways, text, sizeof(text));
        log_info("mounts.tried", "use=\"%s\"", text);
        return 0;
}

/* What holds for one directory of a file system holds for all of them. */
static bool is_same_file_system(int dir, int other)
{
        struct stat a, b;

        return fstat(dir, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev;
}

static int namespaces_check_owners(const struct engine *e, struct err *err)
{
        int r = mount_ways_check_owners(e->proc_dir, e->data_dir, e->conf->data_dir, err);

        if (r < 0 || is_same_file_system(e->data_dir, e->layers_dir))
                return r;
        return mount_ways_check_owners(e->proc_dir, e->layers_dir, e->conf->images_dir, err);
}

static int namespaces_open(struct engine *e, struct err *err)
{
        struct namespaces *n = e->namespaces;
        int r;

        n->host_netns = sys_ns_open(e->proc_dir, 0, "net");
        if (n->host_netns < 0)
                return err_sys(err, n->host_netns, "open own network namespace");
        if ((r = namespaces_find_ways(n, err)) < 0 || (r = namespaces_check_owners(e, err)) < 0)
                return r;
        if ((r = instance_take(e->data_dir, &n->instance, err)) < 0 ||
            (r = cgroups_open(n->instance.name, &n->cgroups, err)) < 0)
                return r;
        pool_init(&n->pool, e->loop, &n->instance, e->conf->pool_size);
        return 0;
}

static int namespaces_begin(struct engine *e, struct err *err)
{
        struct namespaces *n = e->namespaces;
        struct cell_maker_conf maker = {
                .instance = &n->instance,
                .cgroups = &n->cgroups,
                .limits = e->default_limits,
                .ways = n->ways,
                .envd_binary = e->envd_binary,
        };
        int r;

        firewall_watch_start(n); /* with the rules of the adopted; without a firewall there are no links at all */
        maker.has_link = n->firewall != NULL;
        r = pool_start(&n->pool, &maker, err);
        if (r < 0)
                return r;
        leftovers_return(n);
        pool_refill(&n->pool);
        return 0;
}

static void namespaces_end(struct engine *e)
{
        struct namespaces *n = e->namespaces;

        firewall_watch_stop(n);
        pool_done(&n->pool);
        leftovers_remove(n);
        n->firewall = firewall_free(n->firewall);
}

static void namespaces_describe(const struct engine *e, json_t *info)
{
        const struct namespaces *n = e->namespaces;
        json_t *more = json_pack("{s:i,s:I,s:I,s:i,s:b,s:s,s:s}", "pool_ready", (int)n->pool.ready_count, "pool_hits",
                                 (json_int_t)n->pool.hits, "pool_misses", (json_int_t)n->pool.misses, "instance",
                                 (int)n->instance.number, "network", n->firewall != NULL, "network_why",
                                 n->firewall_why, "passage", n->passage_keeper.last.text);

        (void)json_object_update(info, more);
        json_decref(more);
}

/* Creates come first: each takes a slot, and cells have some. */
static bool namespaces_has_room(const struct engine *e)
{
        return slots_free_count(&e->namespaces->pool.slots) >= SLOTS_SPARE;
}

/* ------------------------------------------------------------- one guest: its life */

static void namespace_init(struct guest *g)
{
        namespace_of(g)->netns = namespace_of(g)->mntns = -1;
}

static struct ask *namespace_give_up(struct guest *g)
{
        struct namespace_guest *ng = namespace_of(g);
        struct ask *a = ng->start ? TAKE_PTR(ng->start->ask) : NULL;

        ng->start = start_free(ng->start);
        return a;
}

static bool namespace_reserve(struct guest *g, const struct kind_facts *facts)
{
        return slots_mark_used(&g->engine->namespaces->pool.slots, facts->namespace.slot);
}

static int check_uid_range(struct namespaces *n, const struct namespace_facts *f, struct err *err)
{
        uint32_t base;
        int r = instance_uid_base(&n->instance, f->slot, &base, err);

        if (r < 0)
                return r;
        return base == f->uid_base ? 0 : err_set(err, ERR_CONFLICT, "its record belongs elsewhere");
}

static int namespace_adopt(struct guest *g, const struct record *r, int pidfd, struct err *err)
{
        struct engine *e = g->engine;
        const struct namespace_facts *f = &r->facts.namespace;
        int x = check_uid_range(e->namespaces, f, err);
        AUTO_CLOSE int netns = -1;

        if (x < 0)
                return x;
        netns = sys_ns_open(e->proc_dir, r->pid, "net");
        if (netns < 0 && (sys_pidfd_is_dead(pidfd) || sys_is_ending(e->proc_dir, r->pid)))
                return err_set(err, ERR_NOT_FOUND, "process %d is ending", r->pid);
        if (netns < 0)
                return err_sys(err, netns, "open network namespace");
        if (guest_slot(g) != f->slot && !namespace_reserve(g, &r->facts))
                return err_set(err, ERR_CONFLICT, "slot %u is another's", f->slot);
        namespace_of(g)->netns = TAKE_FD(netns);
        return 0;
}

/* CRIU was given more memory and processes for itself (job_restore.c), and the job process that lowers both again may have died
 * before. */
static void limit_again(struct guest *g)
{
        struct plan_limits raised = g->record.limits;
        struct err err = {0};

        if (!g->record.facts.namespace.is_restored || !raised.memory_bytes)
                return;
        raised.memory_bytes = raised.pids = 0; /* whatever they are: these two are written */
        if (cgroups_limit(&g->engine->namespaces->cgroups, guest_slot(g), &raised, &g->record.limits, &err) < 0)
                log_error("limits.left", "sandbox=%s error=\"%s\"", g->record.id, err.msg);
}

static int namespace_thaw(struct guest *g)
{
        return cgroups_freeze(&g->engine->namespaces->cgroups, guest_slot(g), false);
}

static int namespace_go_on(struct guest *g, struct err *err)
{
        struct plan_net net = g->record.net;
        int r;

        limit_again(g);
        r = namespace_thaw(g); /* the job process that froze it is gone */
        if (r < 0 && r != -EOPNOTSUPP)
                return err_sys(err, r, "thaw slot %u", guest_slot(g));
        if (!g->engine->namespaces->firewall || namespace_of(g)->has_rules)
                return 0; /* at start they are loaded with everybody's */
        g->record.net = (struct plan_net){0};
        r = rules_set(g, &net, err);
        if (r < 0)
                g->record.net = net;
        return r;
}

/* Its last process would take its mounts down before the kernel tells of its end: RCU waits that whoever waits for the end waits
 * for.  While we hold the namespace, they stay, and the slot cleaner takes them down.  Not where the files are used again: another
 * overlay may be made of them at once. */
static void namespace_kill(struct guest *g)
{
        struct namespace_guest *ng = namespace_of(g);

        if (g->are_files_worthless && ng->mntns < 0)
                ng->mntns = sys_ns_open(g->engine->proc_dir, g->record.pid, "mnt");
        if (guest_slot(g))
                cgroups_kill(&g->engine->namespaces->cgroups, guest_slot(g));
}

static void namespace_release(struct guest *g)
{
        struct namespace_guest *ng = namespace_of(g);
        struct slots *slots = &g->engine->namespaces->pool.slots;

        rules_remove(g);
        if (g->record.facts.namespace.is_restored) /* its network namespace was made for it alone */
                slots_close_later(slots, &ng->netns, 1);
        if (guest_slot(g))
                slots_return(slots, guest_slot(g), TAKE_FD(ng->netns));
        slots_close_later(slots, &ng->mntns, 1);
        g->record.facts.namespace.slot = 0;
}

/* ------------------------------------------------------------- one guest: pause, copy, resume */

static struct job_namespace job_facts(const struct guest *g)
{
        const struct namespaces *n = g->engine->namespaces;
        const struct namespace_facts *f = &g->record.facts.namespace;

        return (struct job_namespace){.slot = f->slot,
                                      .uid_base = f->uid_base,
                                      .pid = g->record.pid,
                                      .address = n->firewall ? instance_address(&n->instance, f->slot) : 0,
                                      .envd = g->record.envd};
}

static void namespace_pause(const struct guest *g, struct job *job)
{
        job->pause.namespace = job_facts(g);
}

static void namespace_copy(const struct guest *g, struct job *job)
{
        job->copy.namespace = job_facts(g);
}

static int namespace_resume(struct guest *g, struct job *job, struct err *err)
{
        struct namespaces *n = g->engine->namespaces;
        struct namespace_facts *f = &g->record.facts.namespace;
        unsigned slot = slots_take_bare(&n->pool.slots);
        int r;

        if (!slot)
                return err_set(err, ERR_LIMIT, "all %u slots of this server are in use", SLOTS_MAX - SLOT_FIRST);
        f->slot = slot;
        f->is_restored = true;
        r = instance_uid_base(&n->instance, slot, &f->uid_base, err);
        job->restore.namespace = (struct job_namespace){.slot = slot, .uid_base = f->uid_base, .envd = ""};
        return r;
}

static void namespace_hand_over(const struct guest *g, struct job *job)
{
        job->hand_over.namespace = job_facts(g);
}

static int namespace_resumed(struct guest *g, struct job_answer *answer, struct err *err)
{
        if (answer->netns < 0)
                return err_set(err, ERR_INTERNAL, "its job process kept the network namespace");
        namespace_of(g)->netns = TAKE_FD(answer->netns);
        return 0;
}

/* ------------------------------------------------------------- one guest: looking */

static int namespace_stats(const struct guest *g, struct guest_usage *ret, struct err *err)
{
        struct cgroup_usage u = {0};
        int r = cgroups_usage(&g->engine->namespaces->cgroups, guest_slot(g), &u, err);

        if (r == 0)
                *ret = (struct guest_usage){u.memory_bytes, u.memory_cache, u.memory_limit, u.cpu_us, u.pids};
        return r;
}

const struct engine_ops namespace_ops = {
        .kind = ENGINE_NAMESPACE,
        .isolation = "namespace",
        .guest_bytes = sizeof(struct namespace_guest),
        .probe = namespaces_probe,
        .open = namespaces_open,
        .begin = namespaces_begin,
        .end = namespaces_end,
        .describe = namespaces_describe,
        .has_room = namespaces_has_room,
        .init = namespace_init,
        .start = start_begin,
        .give_up = namespace_give_up,
        .reserve = namespace_reserve,
        .adopt = namespace_adopt,
        .go_on = namespace_go_on,
        .kill = namespace_kill,
        .release = namespace_release,
        .pause = namespace_pause,
        .copy = namespace_copy,
        .resume = namespace_resume,
        .resumed = namespace_resumed,
        .thaw = namespace_thaw,
        .hand_over = namespace_hand_over,
        .dial = dial,
        .stats = namespace_stats,
        .set_net = rules_set,
};
