/* The poller alone, for programs with an event loop of their own: which of many descriptors are
 * ready.
 *
 *   coir_poller_add(poller, fd, token, COIR_READ | COIR_EDGE);
 *   n = coir_poller_wait(poller, events, 64, coir_in(1 * COIR_S));
 *
 * A poller belongs to one thread at a time; only coir_source_set may be called from others. A
 * descriptor is taken out before it is closed. */
#ifndef COIR_POLLER_H
#define COIR_POLLER_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an interest is reported; added to COIR_READ and COIR_WRITE of enum coir_events. Without
 * either: as long as it holds (level-triggered). */
enum coir_trigger {
    /* when it begins to hold, or may hold again; over poll(2) as often as without */
    COIR_EDGE = 32,
    COIR_ONE_SHOT = 64 /* once, until the next coir_poller_modify */
};

/* A poller. It is made by coir_poller_new. */
typedef struct coir_poller coir_poller;

/* What coir_poller_wait reports of one descriptor or source. */
typedef struct coir_poller_event {
    uint64_t token; /* as given to coir_poller_add or coir_source_add */
    int events;     /* enum coir_events: those that hold */
} coir_poller_event;

/* Options of a poller. */
typedef struct coir_poller_options {
    size_t size;                     /* sizeof(coir_poller_options), set by COIR_POLLER_OPTIONS */
    const char *driver;              /* [epoll] "epoll", "io_uring" or "poll" */
    const coir_allocator *allocator; /* [malloc] copied */
} coir_poller_options;

#define COIR_POLLER_OPTIONS               \
    {                                     \
        sizeof(coir_poller_options), 0, 0 \
    }

/* Makes a poller: a set of descriptors, to be waited for together.
 * Suspends: no.  Threads: any.  Owns: *ret_poller is the caller's to free, after its sources.
 * Errors: -EINVAL unknown driver; -ENOMEM; -EMFILE; what keeps the one that was named from
 * working. */
COIR_API int coir_poller_new(coir_poller **ret_poller);

/* Makes a poller as its options say. As coir_poller_new.
 * Errors also: -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_poller_new_with(const coir_poller_options *options, coir_poller **ret_poller);

/* Frees a poller; its sources must have been removed, and each coir_source_set of them have
 * returned. Descriptors stay open. Takes NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_poller_free(coir_poller *poller);

/* Registers a descriptor with a poller. `interest` is of enum coir_events and enum coir_trigger;
 * `token` comes back with what is reported.
 * Suspends: no.  Threads: owner.  Owns: the descriptor stays the caller's.
 * Errors: -EEXIST it is registered; -EBADF; -EPERM a file that is always ready; -EINVAL no
 * interest, or no poller; -ENOMEM. */
COIR_API int coir_poller_add(coir_poller *poller, coir_fd fd, uint64_t token, int interest);

/* Changes the token and the interest of a registered descriptor.
 * Suspends: no.  Threads: owner.
 * Errors: -ENOENT it is not registered; -EBADF; -EINVAL no interest, or no poller; -ENOMEM. */
COIR_API int coir_poller_modify(coir_poller *poller, coir_fd fd, uint64_t token, int interest);

/* Takes a descriptor out of a poller; do this before it is closed.
 * Suspends: no.  Threads: owner.
 * Errors: -ENOENT it is not registered; -EINVAL no poller. */
COIR_API int coir_poller_remove(coir_poller *poller, coir_fd fd);

/* Waits until something is ready, or until `deadline`, and returns how many of `events` were
 * filled. COIR_HANGUP and COIR_EVENT_ERROR are reported always.
 * Suspends: no (it blocks).  Threads: owner.
 * Errors: -EINVAL no poller or no room for events; -EBUSY another thread waits; the system's, when
 * it refuses to wait. */
COIR_API int coir_poller_wait(coir_poller *poller, coir_poller_event *events, size_t events_max,
                              coir_time deadline);

/* Readiness of the program's own making: a source that any thread sets, and a poller reports. What
 * is set several times before it is reported is reported once. All sources of a poller share one
 * wake-up, which is sent only while the poller waits. It must be zero before it is first added. */
typedef struct coir_source {
    uint64_t opaque[12];
} coir_source;

/* Adds a source to a poller, which reports it with `token`.
 * Suspends: no.  Threads: owner.  Owns: the source is borrowed until it is removed.
 * Errors: -EBUSY it was added already; -EINVAL no source or no poller. */
COIR_API int coir_source_add(coir_source *source, coir_poller *poller, uint64_t token);

/* Removes a source from its poller. What was set and not reported yet will not be; a
 * coir_source_set at the same time may find it gone.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_source_remove(coir_source *source);

/* Makes a source's poller report events (enum coir_events), with those that were set before.
 * Suspends: no.  Threads: any.
 * Errors: -ENOENT it was not added; -EINVAL no source or no events. */
COIR_API int coir_source_set(coir_source *source, int events);

#ifdef __cplusplus
}
#endif

#endif
