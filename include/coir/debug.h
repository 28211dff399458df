/* Routes by which a person looks into a server while it runs: its metrics, as text and as a stream
 * of events, a page of the program's own that shows them, and a recorded trace. */
#ifndef COIR_DEBUG_H
#define COIR_DEBUG_H

#include <coir/web.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds GET routes below a prefix that begins and ends with a slash: `prefix` itself, with the page
 * (HTML; NULL: there is none; borrowed until the router is freed), `prefix`metrics (coir/metrics.h,
 * and the counters of coir_http_counters_get, for Prometheus), `prefix`events (the same text as a
 * server-sent event, twice a second), and `prefix`tasks (a coir_dump as JSON; the query
 * format=text: as text). The page may load what is of this server only (Content-Security-Policy).
 * `traces`: also POST `prefix`trace, which traces the workers for a second (the query ms=N: N
 * milliseconds, 10,000 at most) and answers with the trace as JSON; 409 while they are traced
 * already, unless by the flight recorder, whose events are sent then. Dumps and traces are made by
 * threads of coir_offload, in a file without a name in /tmp: they wait while all of these are busy,
 * and fail where there is no room. coir_dump itself needs neither, nor does SIGQUIT (coir_main).
 *
 * They answer clients on this machine alone (by a loopback address, or a Unix socket), and only
 * when they ask for localhost or a number: a page elsewhere could point a name of its own at this
 * machine. All others get 403; so does a POST from another site's page. A proxy on this machine
 * passes requests from anywhere: keep the prefix from it.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL no router, or a prefix without the slashes or of more than 200 bytes; those of
 * coir_route. */
COIR_API int coir_route_debug(coir_router *router, const char *prefix, const char *page,
                              bool traces);

/* Adds a GET route for Prometheus: the metrics of coir/metrics.h, and the counters of
 * coir_http_counters_get. It answers whoever reaches the server.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL no router, or no path; those of coir_route. */
COIR_API int coir_route_metrics(coir_router *router, const char *path);

#ifdef __cplusplus
}
#endif

#endif
