/* Definitions that all of coir shares: time, errors, descriptors, memory.
 *
 * Functions return 0 or a count on success and a negative error on failure: -errno, or one of enum
 * coir_error, for all of which coir_strerror has a text. Out-parameters (ret_NAME) are written
 * only on success.
 *
 * The comment of each function has a contract:
 *
 *   Suspends       whether the calling fiber may be parked. Functions marked COIR_SUSPENDS are for
 *                  fibers only: called from a loop callback or a plain thread they return -ESRCH
 *                  (those that return nothing do nothing).
 *                  Each of them may return -ECANCELED (the task was cancelled) and -ETIME (a
 *                  deadline passed: see coir/deadline.h).
 *   Threads        from where it may be called: "any"; "worker", a thread that runs a coir worker;
 *                  "owner", the worker or loop that the object belongs to.
 *   Owns           what the call takes over or hands out, where it does.
 *   Errors         those beyond -ESRCH, -ECANCELED and -ETIME of COIR_SUSPENDS, and beyond those
 *                  of misuse.
 *   Cancel safety  what a call that suspends leaves behind when it returns -ECANCELED or -ETIME.
 *
 * A misuse (suspending outside of a fiber, using an object that is not open, starting twice,
 * passing NULL where there must be something) gets an error of its own: -EINVAL for NULL, -ESRCH
 * in a thread that Threads excludes, -EXDEV on another worker than the owner. It is named: the
 * call, what is wrong, and where it was made. A debug build of coir (without NDEBUG, or with a
 * sanitizer) prints that and aborts; any other logs it as an error (coir_config.log) if a worker
 * makes the call, once for what a place does again and again. Debug builds alone check whether the
 * arguments of coir_mutex_lock, coir_mutex_unlock, coir_channel_send, coir_channel_recv,
 * coir_case_send and coir_case_recv are NULL. In a child after fork() calls return -COIR_EFORKED.
 *
 * Structs that may grow begin with `size`, which their initialiser sets: COIR_GO_OPTIONS for
 * coir_go_options. A program may have been compiled against an older coir, or a newer one: a
 * shorter struct of options is completed with defaults, and a longer one is accepted if the fields
 * that this version does not know are zero (-COIR_ENEWER otherwise). In every option 0 means the
 * default, which its comment names in brackets; "none" is COIR_NEVER for times and COIR_UNLIMITED
 * for counts and bytes. */
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
#ifndef COIR_API
/* Marks a function that the library exports. A program that embeds coir.c may define it otherwise,
 * to hide coir inside of a shared library of its own. */
#define COIR_API __attribute__((visibility("default")))
#endif

/* Makes the compiler check arguments against a format, as for printf. */
#define COIR_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))

/* Calls `function` with the address of the variable when the variable goes out of scope. */
#define COIR_CLEANUP(function) __attribute__((__cleanup__(function)))
#else
#error "coir needs gcc, clang or a compiler that knows their attributes"
#endif

#define COIR_CONCAT_(a, b) a##b

/* Makes one identifier of two, after macros in them have been expanded. */
#define COIR_CONCAT(a, b) COIR_CONCAT_(a, b)

/* Marks a function that may park the calling fiber: for fibers only. */
#define COIR_SUSPENDS COIR_API

/* A descriptor of the operating system. */
typedef int coir_fd;

/* A time or a duration, in nanoseconds. A point in time is on CLOCK_MONOTONIC, or on the
 * simulator's clock. COIR_NEVER is after every time and longer than every duration; as a deadline
 * or a timeout it means that there is none. Sums saturate at it. */
typedef int64_t coir_time;
#define COIR_NS ((coir_time)1)
#define COIR_US ((coir_time)1000)
#define COIR_MS ((coir_time)1000000)
#define COIR_S ((coir_time)1000000000)
#define COIR_NEVER ((coir_time)INT64_MAX)

/* In an option that is a count or a number of bytes: no limit. */
#define COIR_UNLIMITED SIZE_MAX

/* The time now, freshly read from the clock; on a simulated worker, the virtual time.
 * Suspends: no.  Threads: any. */
COIR_API coir_time coir_now(void);

/* The point in time that is `duration` from now, for deadlines. Saturates at COIR_NEVER; a
 * negative duration counts as 0.
 * Suspends: no.  Threads: any. */
COIR_API coir_time coir_in(coir_time duration);

/* Errors that errno has no name for. */
enum coir_error {
    COIR_EEND = 4097, /* the stream ended before all requested bytes had come */
    COIR_EADDRESS,    /* an address is empty, or of a kind that the call does not accept */
    COIR_ENAME,       /* a host name is unknown */
    COIR_EPROTOCOL,   /* the peer broke the protocol */
    COIR_ETOOLARGE,   /* a limit of the configuration was passed */
    /* called in a child after fork() of a process that had a runtime, loop or poller: it may only
       exec or exit */
    COIR_EFORKED,
    COIR_EENDED, /* the run has ended: nothing more can be started in it */
    COIR_ELEFT,  /* a simulated host has ended and left something open */
    /* the size in a struct is 0 or impossible: set the struct to its initialiser */
    COIR_EUNSIZED,
    /* a struct of options sets something that this version of coir does not know */
    COIR_ENEWER,
    /* the host of an address is neither a number nor a valid name */
    COIR_EHOST,
    COIR_EPORT,       /* the port of an address is missing, or no number from 0 to 65535 */
    COIR_EPATH,       /* the path of a unix: address does not begin with / or @, or is too long */
    COIR_EPASSED,     /* fd: or systemd: names no open socket, or one of another kind */
    COIR_ENAMESERVER, /* name servers did not answer, or failed: nothing is known about the name */
    COIR_EFULL,       /* a queue was full: its policy has dropped the item, or ended the queue */
    COIR_ETLS,        /* TLS has failed: the peer broke the protocol, or offers nothing in common */
    COIR_ETLS_TRUNCATED,    /* the connection ended without the peer having ended the TLS stream */
    COIR_ETLS_REFUSED,      /* the peer has refused the TLS connection by an alert */
    COIR_ETLS_KEY,          /* a private key is missing, locked, or another certificate's */
    COIR_ECERT,             /* a certificate cannot be used or verified */
    COIR_ECERT_HOST,        /* the certificate is another host's */
    COIR_ECERT_EXPIRED,     /* the certificate has expired */
    COIR_ECERT_NOT_YET,     /* the certificate is not valid yet */
    COIR_ECERT_UNTRUSTED,   /* no trusted authority has issued the certificate */
    COIR_ECERT_SELF_SIGNED, /* the certificate is signed by itself alone */
    COIR_ECERT_PURPOSE,     /* the certificate is for something else */
    COIR_ECERT_REVOKED,     /* the certificate was revoked */
    COIR_ERROR_END
};

/* An English text for an error. It takes the negative error or its absolute value. The text is
 * static, and never NULL.
 * Suspends: no.  Threads: any. */
COIR_API const char *coir_strerror(int64_t error);

/* Where memory comes from: a pair of functions, which may be called from any thread that works for
 * the runtime that they were given to or makes a call on it (coir_runtime_post, coir_metrics_text),
 * from several at once. Wakers, which may outlive a runtime, are from malloc. Initialise it
 * with COIR_ALLOCATOR. */
typedef struct coir_allocator {
    size_t size;                             /* sizeof(coir_allocator) */
    void *(*alloc)(size_t bytes, void *arg); /* aligned to 64 bytes; NULL: there is no memory */
    void (*free)(void *memory, size_t bytes, void *arg); /* bytes: as given to alloc */
    void *arg;                                           /* given to both */
} coir_allocator;

#define COIR_ALLOCATOR(alloc, free, arg)         \
    {                                            \
        sizeof(coir_allocator), alloc, free, arg \
    }

/* How important a log line is, the most important first. */
enum coir_log_level { COIR_LOG_ERROR, COIR_LOG_WARNING, COIR_LOG_INFO, COIR_LOG_DEBUG };

/* What a runtime calls with each of its log lines: it must not suspend, nor log. Workers call it,
 * and threads of the runtime that look after the workers or write files, also several at once. In
 * lines of coir itself control characters and bytes that are no UTF-8 stand as question marks. */
typedef void coir_log_fn(enum coir_log_level level, const char *line, void *arg);

/* Events to wait for on a descriptor or a stream, and those that hold: bits, to be added up. */
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
