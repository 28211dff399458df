#include "scenario/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/options.h"
#include "sim/audit.h"
#include "sim/disk.h"
#include "sim/link.h"
#include "sim/name.h"
#include "sim/node.h"
#include "sim/socket.h"
#include "sim/trace.h"
#include "sys/fork.h"
#include "sys/misuse.h"
#include "task/dump.h"
#include "task/runtime.h"

static bool is_down(const coir_host *host)
{
    return host->sim->kind->is_down(host);
}

static int step(struct coir_sim *sim)
{
    ci_check(!sim->stepping, "host.h 1");
    sim->stepping = true;
    int rc = sim->kind->step(sim);
    sim->stepping = false;
    return rc;
}

static void trace_task(void *arg, int depth, const char *name, const char *waits_for, int cancelled,
                       const struct ci_task *task)
{
    (void)task;
    ci_world_trace(arg, NULL, "%*s%s waits for %s%s", 2 * depth + 2, "", name, waits_for,
                   cancelled ? " (cancelled)" : "");
}

/* Traces what each task waits for. */
static void dump(struct coir_sim *sim)
{
    if (sim->kind->dump)
        sim->kind->dump();
    for (const coir_host *host = sim->hosts; host; host = host->next)
        if (host->runtime)
            ci_runtime_dump(host->runtime, trace_task, &sim->world);
}

/* ---- starting ---- */

/* A host whose run has ended hands its name, its address and its disk to the next host of that
 * name. */
static void replace(const struct coir_sim *sim, const char *name)
{
    for (const coir_host *host = sim->hosts; host; host = host->next)
        if (is_down(host) && strcmp(host->node->name, name) == 0)
            host->node->dead = true;
}

/* A longer name could not be looked up, so no other host could connect to this one. */
static bool is_name(const char *name)
{
    return name && *name && strlen(name) < sizeof((struct ci_node *)NULL)->name;
}

static coir_host *start(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg)
{
    replace(sim, name);
    coir_host *host = calloc(1, sizeof *host);
    struct ci_node *node = host ? ci_world_add_node(&sim->world, name) : NULL;
    if (!node) {
        free(host);
        return NULL;
    }
    *host = (coir_host){.sim = sim, .node = node, .fn = fn, .arg = arg};
    if (sim->kind->start(host) < 0) {
        free(host);
        return NULL;
    }
    *sim->hosts_tail = host;
    sim->hosts_tail = &host->next;
    ci_world_trace(&sim->world, node, "up");
    return host;
}

coir_host *coir_sim_host(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg)
{
    if (ci_forked())
        return NULL;
    if (!sim || !is_name(name) || !fn) {
        (void)CI_MISUSE(-EINVAL, "sim, name or fn is NULL, or name is empty or too long");
        return NULL;
    }
    return start(sim, name, fn, arg);
}

int coir_sim_host_main(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!sim || !is_name(name) || !fn)
        return CI_MISUSE(-EINVAL, "sim, name or fn is NULL, or name is empty or too long");
    if (sim->stepping)
        return CI_MISUSE(-EBUSY,
                         "a task of a host cannot run another host to its end; use coir_sim_host");
    const coir_host *host = start(sim, name, fn, arg);
    if (!host)
        return -ENOMEM;
    int rc = 0;
    while (rc == 0 && !is_down(host))
        rc = step(sim);
    if (rc < 0) {
        ci_world_trace(&sim->world, host->node, "gave up: %s", coir_strerror(rc));
        dump(sim);
        return rc;
    }
    rc = sim->kind->result(host);
    ci_world_trace(&sim->world, host->node, "down result=%d", rc);
    return rc;
}

/* ---- crashes, stops and faults of hosts ---- */

/* `host` NULL: every host. */
static bool is_of(const coir_sim *sim, const coir_host *host)
{
    return !host || host->sim == sim;
}

void coir_sim_set_link(coir_sim *sim, const coir_host *a, const coir_host *b,
                       const coir_link *given)
{
    if (ci_forked())
        return;
    coir_link link = {0};
    int rc = sim && given && is_of(sim, a) && is_of(sim, b)
                 ? ci_options_read(&link, sizeof link, given)
                 : -EINVAL;
    if (rc < 0) {
        (void)CI_MISUSE(
            rc, "sim or link is NULL, link lacks its size, or a or b is of another simulation");
        return;
    }
    if (link.latency == COIR_NEVER) { /* what is under way for ever would never be sent again */
        link.latency = 0;
        link.cut = true;
    }
    ci_world_link(&sim->world, a ? a->node : NULL, b ? b->node : NULL, &link);
    sim->kind->links_changed(sim);
}

void coir_sim_set_faults(coir_sim *sim, const coir_host *host, const coir_faults *given)
{
    if (ci_forked())
        return;
    coir_faults faults = {0};
    int rc =
        sim && given && is_of(sim, host) ? ci_options_read(&faults, sizeof faults, given) : -EINVAL;
    if (rc < 0) {
        (void)CI_MISUSE(
            rc, "sim or faults is NULL, faults lacks its size, or host is of another simulation");
        return;
    }
    if (host) {
        host->node->faults = faults;
        return;
    }
    sim->world.everywhere = faults;
    for (host = sim->hosts; host; host = host->next)
        host->node->faults = faults;
}

int coir_sim_set_name(coir_sim *sim, const char *name, const coir_name_answer *given)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!sim || !name || !given)
        return CI_MISUSE(-EINVAL, "sim, name or answer is NULL");
    coir_name_answer answer = {0};
    int rc = ci_options_read(&answer, sizeof answer, given);
    return rc < 0 ? rc : ci_world_set_name(&sim->world, name, &answer);
}

void coir_sim_crash(coir_sim *sim, coir_host *host)
{
    if (ci_forked())
        return;
    if (!sim || !host || host->sim != sim) {
        (void)CI_MISUSE(-EINVAL, "sim or host is NULL, or the host is of another simulation");
        return;
    }
    ci_world_kill(&sim->world, host->node);
    sim->kind->links_changed(sim);
    sim->kind->cancel(host);
}

void coir_sim_stop(coir_sim *sim, coir_host *host)
{
    if (ci_forked())
        return;
    if (!sim || !host || host->sim != sim) {
        (void)CI_MISUSE(-EINVAL, "sim or host is NULL, or the host is of another simulation");
        return;
    }
    ci_world_trace(&sim->world, host->node, "stop");
    if (!is_down(host))
        sim->kind->stop(host);
}

bool coir_host_is_down(const coir_host *host)
{
    if (host)
        return is_down(host);
    (void)CI_MISUSE(-EINVAL, "host is NULL");
    return true;
}

/* ---- the end ---- */

/* Stops the hosts that are still up. A program that does not end when it is cancelled is abandoned,
 * and reported. */
static int stop_all(struct coir_sim *sim)
{
    int rc = 0;
    for (coir_host *host = sim->hosts; rc == 0 && host; host = host->next) {
        if (!is_down(host))
            sim->kind->stop(host);
        while (rc == 0 && !is_down(host))
            rc = step(sim);
        if (rc < 0)
            dump(sim);
    }
    return rc;
}

void ci_host_leave(void *arg, const char *what, size_t count)
{
    const struct ci_node *node = arg;
    ci_world_leave(node->world, node, "%s (%zu)", what, count);
}

/* Looks for what hosts have left open. All runs have ended. */
static void audit(struct coir_sim *sim)
{
    for (coir_host *host = sim->hosts; host; host = host->next)
        sim->kind->audit(host);
    ci_socket_audit(&sim->world);
    ci_disk_audit(&sim->world);
}

/* Frees the host's runtime, which must give back all its memory. */
static void free_host(coir_host *host)
{
    const struct ci_node *node = host->node;
    coir_runtime_free(host->runtime);
    if (node->memory)
        ci_world_leave(node->world, node, "memory (%zu bytes)", node->memory);
    free(host);
}

int ci_hosts_end(struct coir_sim *sim)
{
    int rc = stop_all(sim);
    if (rc == 0)
        audit(sim);
    if (sim->kind->close)
        sim->kind->close();
    if (rc < 0)
        return rc;
    while (sim->hosts) {
        coir_host *host = sim->hosts;
        sim->hosts = host->next;
        free_host(host);
    }
    return sim->world.left_count ? -COIR_ELEFT : 0;
}
