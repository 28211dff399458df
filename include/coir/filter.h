/* Streams over streams: what a program reads and writes is transformed on its way to and from
 * another stream, the transport. TLS (coir/tls.h) is one; compression and framing are others.
 *
 * A filter is six or seven functions that never suspend. They move bytes between the caller's
 * memory and the transport by coir_try_read and coir_try_write, and answer -EAGAIN where the
 * transport has nothing or takes nothing. Waiting, cancellation, deadlines, futures and coir_select
 * are coir's: the stream that coir_filter_new makes works in every call of coir/stream.h. */
#ifndef COIR_FILTER_H
#define COIR_FILTER_H

#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of a filter; initialise it with COIR_FILTER_KIND. Each runs on the stream's worker,
 * must not suspend, and is not called from inside another one. `arg` is the filter's own state. The
 * transport must not be closed, waited on or used by anybody else while the filter stands on it. */
typedef struct coir_filter_kind {
    size_t size; /* sizeof(coir_filter_kind), set by COIR_FILTER_KIND */

    /* Reads at most `len` bytes: the count, 0 at the end of the stream, or a negative error.
     * -EAGAIN: there is nothing; it is called again when the transport is ready for one of *events,
     * which the caller has set to COIR_READ and the function may change. */
    ssize_t (*read)(void *buf, size_t len, int *events, void *arg);

    /* Takes at most `len` bytes, at least one: the count, or a negative error. What it has taken
     * and could not hand to the transport it keeps, and `flush` sends it. -EAGAIN: it takes nothing
     * now; *events is COIR_WRITE at first. One that changes it needs `writable`. */
    ssize_t (*write)(const void *buf, size_t len, int *events, void *arg);

    /* Hands what is kept to the transport: 0 when nothing is left, -EAGAIN, or a negative error,
     * after which it is not called again, and the stream's writes fail, with write's error or this
     * one. Called after each read and write, and whenever the transport takes bytes again. */
    int (*flush)(void *arg);

    /* Whether a read would return something other than -EAGAIN; as `read` otherwise. */
    bool (*readable)(int *events, void *arg);

    /* Ends the writing direction: what is to be sent for it is kept for `flush`. 0 or an error. */
    int (*end)(void *arg);

    /* Frees the state. The last call; the transport is closed afterwards. */
    void (*free)(void *arg);

    /* [always] Whether a write would return something other than -EAGAIN, where nothing is kept:
     * for a filter whose output may wait for input. *events as of `write`. */
    bool (*writable)(int *events, void *arg);
} coir_filter_kind;

#define COIR_FILTER_KIND(read, write, flush, readable, end, free)            \
    {                                                                        \
        sizeof(coir_filter_kind), read, write, flush, readable, end, free, 0 \
    }

/* Makes a stream of a filter over `transport`, which belongs to the new stream from now on. Closing
 * the new stream calls `end`, sends what is kept, calls `free` and closes the transport. A task of
 * the background scope does so where that takes time, at most 5 s: while the transport does not
 * take what is kept, and, over TCP, while what was written has not arrived. What the peer sends
 * until then is discarded: unread, it would reset the connection, which loses what has not arrived.
 * (Where the peer has ended first, nothing is waited for.) Until coir_filter_new has succeeded,
 * both `arg` and the transport are the caller's.
 * Suspends: no.  Threads: owner of the transport.  Owns: *ret_stream is the caller's to close.
 * Errors: -ENOMEM; -EXDEV; -EBUSY a call waits on the transport, or another stream stands on it;
 * -ESRCH outside of a worker; -EINVAL no transport, no ret_stream, or a function is missing;
 * -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_filter_new(const coir_filter_kind *kind, void *arg, coir_stream *transport,
                             coir_stream **ret_stream);

/* Returns the `arg` of a stream that was made with `kind`, or NULL if it was made otherwise.
 * Suspends: no.  Threads: any. */
COIR_API void *coir_filter_arg(const coir_stream *stream, const coir_filter_kind *kind);

#ifdef __cplusplus
}
#endif

#endif
