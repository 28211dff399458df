/* What the metrics show of a listener. The counts of its seats are read while their workers change
 * them: each is right by itself. */
#include <stdio.h>

#include "io/listener.h"

static const coir_listener *listener_of(const struct ci_metered *metered)
{
    return ci_container_of(metered, const coir_listener, metered);
}

static uint64_t accepted(const struct ci_metered *metered)
{
    const coir_listener *listener = listener_of(metered);
    uint64_t sum = 0;
    for (int i = 0; i < listener->seat_count; i++)
        sum += ci_load_relaxed(&listener->seats[i].taken);
    return sum;
}

static uint64_t live(const struct ci_metered *metered)
{
    const coir_listener *listener = listener_of(metered);
    uint64_t sum = 0;
    for (int i = 0; i < listener->seat_count; i++)
        sum += ci_load_relaxed(&listener->seats[i].live);
    return sum;
}

static uint64_t live_max(const struct ci_metered *metered)
{
    return listener_of(metered)->connections_max;
}

static uint64_t refused(const struct ci_metered *metered)
{
    return ci_load_relaxed(&listener_of(metered)->refused);
}

static uint64_t errors(const struct ci_metered *metered)
{
    return ci_load_relaxed(&listener_of(metered)->errors);
}

static uint64_t held(const struct ci_metered *metered)
{
    return ci_load_relaxed(&listener_of(metered)->spare_count);
}

static uint64_t is_paused(const struct ci_metered *metered)
{
    return (ci_load_relaxed(&listener_of(metered)->shut) & CI_LISTENER_PAUSED) != 0;
}

static uint64_t is_full(const struct ci_metered *metered)
{
    return (ci_load_relaxed(&listener_of(metered)->shut) & CI_LISTENER_FULL) != 0;
}

static const struct ci_metric metrics[] = {
    {"coir_listener_accepted_total", "counter", "Connections that were accepted.", accepted},
    {"coir_listener_refused_total", "counter", "Connections that were closed beyond a limit.",
     refused},
    {"coir_listener_accept_errors_total", "counter", "Errors of accept.", errors},
    {"coir_listener_connections_live", "gauge", "Connections that are open.", live},
    {"coir_listener_connections_max", "gauge", "The limit of these; 0: there is none.", live_max},
    {"coir_listener_connections_held", "gauge", "Connections that wait for a worker, or for room.",
     held},
    {"coir_listener_paused", "gauge", "1: it is paused.", is_paused},
    {"coir_listener_full", "gauge", "1: it waits for a connection to end.", is_full},
};

static const struct ci_metered_kind listener_kind = {"listener", metrics, ci_countof(metrics)};

void ci_listener_meter(coir_listener *listener, const char *address)
{
    snprintf(listener->name, sizeof listener->name, "%s", address);
    listener->metered.name = listener->name;
    ci_metered_add(&listener->metered, &listener_kind, listener->seats[0].worker->runtime);
}
