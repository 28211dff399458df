/* What everything in coir shares: time, errors, descriptors, memory.
 *
 * Functions return 0 or a count on success and a negative error on failure: -errno, or one of enum
 * coir_error. Out-parameters are written only on success. Each declaration says: Suspends  whether
 * the calling fiber may be parked. Functions marked COIR_SUSPENDS are for fibers only; called from
 * a loop callback or from a plain thread they return -ESRCH. Every one of them may also return
 * -ECANCELED (the task was cancelled) and -ETIME (a deadline passed: see coir/deadline.h); what it
 * was called on is unharmed then. Threads   from where it may be called: "any", "worker" (a thread
 * that runs a coir worker), "owner" (the worker or loop that the object belongs to). Owns      what
 * the call takes over or hands out, where it does. Errors    beyond those of COIR_SUSPENDS. Calls
 * that cannot be right, whatever else happens (suspending outside of a fiber, on what is not open,
 * started twice, without a function), get an error of their own; a debug build of coir (without
 * NDEBUG, or with a sanitizer) says which call it was, and from where, and aborts.
 */
#ifndef COIR_BASE_H
#define COIR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#ifndef COIR_API /* marks what is exported; a program that embeds coir.c may define it otherwise \
                  */
#define COIR_API __attribute__((visibility("default")))
#endif
#define COIR_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#define COIR_CLEANUP(function) __attribute__((__cleanup__(function)))
#else
#error "coir needs gcc, clang or a compiler that knows their attributes"
#endif

#define COIR_CONCAT_(a, b) a##b
#define COIR_CONCAT(a, b) COIR_CONCAT_(a, b)

/* Marks a function that may park the calling fiber. */
#define COIR_SUSPENDS COIR_API

/* A descriptor of the operating system. */
typedef int coir_fd;

/* Times and durations are nanoseconds. A point in time is on CLOCK_MONOTONIC, or on the simulator's
 * clock. COIR_NEVER is after every time and longer than every duration; as a deadline or a timeout
 * it means that there is none. Sums saturate at it. In an option that is a time, 0 means the
 * default, which its comment names. */
typedef int64_t coir_time;
#define COIR_NS ((coir_time)1)
#define COIR_US ((coir_time)1000)
#define COIR_MS ((coir_time)1000000)
#define COIR_S ((coir_time)1000000000)
#define COIR_NEVER ((coir_time)INT64_MAX)

/* A limit that is none, of a count or of bytes. */
#define COIR_UNLIMITED SIZE_MAX

/* Shapes. Structs that grow begin with `size`, which their initialiser sets: COIR_GO_OPTIONS for
 * coir_go_options. A program may have been compiled against an older coir, or a newer one: a
 * shorter struct of options is filled up with defaults, and a longer one is accepted if what this
 * version does not know of it is zero (-COIR_ENEWER otherwise). In every option 0 means the
 * default, which its comment names in brackets; "none" is COIR_NEVER for times, COIR_UNLIMITED for
 * counts and bytes. */

/* The time now, freshly read; on a simulated worker, the virtual time.
 * Suspends: no.  Threads: any. */
COIR_API coir_time coir_now(void);

/* The time `duration` from now, for deadlines. Saturates at COIR_NEVER.
 * Suspends: no.  Threads: any. */
COIR_API coir_time coir_in(coir_time duration);

/* Errors that errno has no name for. */
enum coir_error {
    COIR_EEND = 4097, /* the stream ended before all that was asked for had come */
    COIR_EADDRESS,    /* an address is empty, or not of the kind that is wanted */
    COIR_ENAME,       /* a host name is unknown */
    COIR_EPROTOCOL,   /* the peer broke the protocol */
    COIR_ETOOLARGE,   /* a limit of the configuration was passed */
    /* called in a child after fork() of a process that had a runtime, loop or poller: it may only
       exec or exit */
    COIR_EFORKED,
    COIR_EENDED, /* the run has ended: nothing more can be started in it */
    COIR_ELEFT,  /* a simulated host has ended and left something open */
    /* a struct that begins with its size has none, or none that can be: set it to its initialiser
     */
    COIR_EUNSIZED,
    /* a struct of options sets something that this version of coir does not know */
    COIR_ENEWER,
    /* the host of an address is neither a number nor a name that there could be */
    COIR_EHOST,
    COIR_EPORT,       /* the port of an address is missing, or no number from 0 to 65535 */
    COIR_EPATH,       /* the path of a unix: address does not begin with / or @, or is too long */
    COIR_EPASSED,     /* fd: or systemd: names no open socket, or one of another kind */
    COIR_ENAMESERVER, /* name servers did not answer, or failed: nothing is known about the name */
    COIR_ERROR_END
};

/* A short English text for a negative error (or its absolute value). Never NULL; static.
 * Suspends: no.  Threads: any. */
COIR_API const char *coir_strerror(int64_t error);

/* Where memory comes from. `alloc` gives `bytes` aligned to 64, or NULL; `free` gets the number
 * that was asked for. Both may be called from any worker of the runtime that they were given to.
 * Wakers, which may outlive a runtime, are from malloc. */
typedef struct coir_allocator {
    size_t size; /* sizeof(coir_allocator) */
    void *(*alloc)(size_t bytes, void *arg);
    void (*free)(void *memory, size_t bytes, void *arg);
    void *arg;
} coir_allocator;

#define COIR_ALLOCATOR(alloc, free, arg)         \
    {                                            \
        sizeof(coir_allocator), alloc, free, arg \
    }

/* What happens to a log line. Never suspends; may be called from any worker. */
enum coir_log_level { COIR_LOG_ERROR, COIR_LOG_WARNING, COIR_LOG_INFO, COIR_LOG_DEBUG };
typedef void coir_log_fn(enum coir_log_level level, const char *line, void *arg);

/* Interests and events on a descriptor. */
enum coir_events {
    COIR_READ = 1,       /* a read would not block: data, a connection, or the end of the stream */
    COIR_WRITE = 2,      /* a write would not block */
    COIR_HANGUP = 4,     /* both directions are gone; always reported */
    COIR_EVENT_ERROR = 8 /* an error is pending on the descriptor; always reported */
};

#ifdef __cplusplus
}
#endif

#endif
