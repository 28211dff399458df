/* Only the poller, for programs that want no more: which of many descriptors are ready.
 *
 *   coir_poller_add(poller, fd, token, COIR_READ | COIR_EDGE);
 *   n = coir_poller_wait(poller, events, 64, coir_in(1 * COIR_S));
 *
 * A poller belongs to one thread at a time; only coir_source_set may be called from others. A
 * descriptor is taken out before it is closed.
 */
#ifndef COIR_POLLER_H
#define COIR_POLLER_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Beside COIR_READ and COIR_WRITE (enum coir_events) in an interest. Without either: as long as it
 * holds (level-triggered). */
enum coir_trigger {
    /* when it begins to hold, or may hold again; over poll(2) as often as without */
    COIR_EDGE = 32,
    COIR_ONE_SHOT = 64 /* once, until the next coir_poller_modify */
};

typedef struct coir_poller coir_poller;

typedef struct coir_poller_event {
    uint64_t token;
    int events; /* enum coir_events */
} coir_poller_event;

typedef struct coir_poller_options {
    size_t size;                     /* sizeof(coir_poller_options), set by COIR_POLLER_OPTIONS */
    const char *driver;              /* [epoll] "epoll", "io_uring" or "poll" */
    const coir_allocator *allocator; /* [malloc] copied */
} coir_poller_options;

#define COIR_POLLER_OPTIONS               \
    {                                     \
        sizeof(coir_poller_options), 0, 0 \
    }

/* Makes a poller.
 * Suspends: no.  Threads: any.  Owns: *ret_poller is the caller's to free, after its sources.
 * Errors: -EINVAL unknown driver; -ENOMEM; -EMFILE; what keeps the one that was named from
 * working. */
COIR_API int coir_poller_new(coir_poller **ret_poller);
COIR_API int coir_poller_new_with(const coir_poller_options *options, coir_poller **ret_poller);
COIR_API void coir_poller_free(coir_poller *poller);

/* Registers a descriptor, changes its token or interest, takes it out. It stays the caller's.
 * Suspends: no.  Threads: owner.
 * Errors: -EEXIST it is registered; -ENOENT it is not; -EBADF; -EPERM a file that is always
 * ready; -EINVAL no interest; -ENOMEM. */
COIR_API int coir_poller_add(coir_poller *poller, coir_fd fd, uint64_t token, int interest);
COIR_API int coir_poller_modify(coir_poller *poller, coir_fd fd, uint64_t token, int interest);
COIR_API int coir_poller_remove(coir_poller *poller, coir_fd fd);

/* Waits until something is ready, or until `deadline`: how many of `events` were filled.
 * COIR_HANGUP and COIR_EVENT_ERROR are reported always.
 * Suspends: no (it blocks).  Threads: owner.
 * Errors: -EINVAL; what the system says when it refuses to wait. */
COIR_API int coir_poller_wait(coir_poller *poller, coir_poller_event *events, size_t events_max,
                              coir_time deadline);

/* Readiness of the program's own making: a source that any thread sets, reported once for each time
 * that it was set since. All sources of a poller share one wake-up, which is sent only while the
 * poller waits. */
typedef struct coir_source {
    uint64_t opaque[12];
} coir_source;

/* Ties a source to a poller; unties it, which takes a report that was not given back.
 * Suspends: no.  Threads: owner.
 * Errors: -EBUSY it is tied already (a source must be zero before it is tied first). */
COIR_API int coir_source_add(coir_source *source, coir_poller *poller, uint64_t token);
COIR_API void coir_source_remove(coir_source *source);

/* Sets events (enum coir_events), to be reported with those that were set before.
 * Suspends: no.  Threads: any.
 * Errors: -ENOENT it is not tied. */
COIR_API int coir_source_set(coir_source *source, int events);

#ifdef __cplusplus
}
#endif

#endif
