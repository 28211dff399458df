/* The record of a listener: one descriptor that every worker of a runtime accepts from, and who
 * gets which connection.
 *
 * 1. Each worker has a seat. `live` of a seat counts the connections of the listener that its
 * worker has open, until they are closed or detached. Only that worker changes it.
 * 2. A connection that was accepted for another worker, or for any, is a spare. The listener's
 * `reserved` is the sum of those of its seats, and there are at least as many spares.
 * 3. A seat for which spares are reserved has an accept that waits, or a message to it is in
 * flight.
 * 4. The record is freed when the listener is closed and no seat is in use: no connection of it is
 * open, no accept of it is in progress, and no message to it is in flight.
 *
 * Whichever worker the kernel wakes, the connection goes to an idle worker that has fewer, if there
 * is one: it becomes a spare that is reserved for that worker's seat, and a message tells the
 * worker. A busy worker is given nothing, so that no client waits for it. A spare that is not
 * reserved goes to whichever worker accepts next.
 */
#ifndef CI_IO_LISTENER_H
#define CI_IO_LISTENER_H

#include <errno.h>

#include "io/io.h"
#include "sys/lock.h"
#include "task/sleep.h"

struct ci_accept_op {
    coir_future future;
    union {
        struct ci_io_op io;
        struct ci_sleep_op pause;
    };
    coir_listener *listener;
    coir_stream **ret_stream;
    struct ci_accept_op *next; /* of those that wait at the seat */
    coir_fd fd;
};
CI_LEAVES_SPARE_WORDS(struct ci_accept_op, coir_open_op);
_Static_assert(sizeof(struct ci_accept_op) <= CI_FIBER_OP_WORDS * sizeof(uint64_t),
               "an accept is a case");

/* ci_accept_op.fd of one that waits, when it has been asked to look at the spares. */
enum { CI_LOOKS_AGAIN = -EINTR };

struct ci_seat {
    /* only its worker writes these; other workers read the counts */
    CI_CACHE_ALIGNED coir_listener *listener;
    struct ci_worker *worker;
    struct ci_accept_op *accepts; /* those that wait */
    uint32_t waiting;             /* how many */
    uint32_t live;                /* connections that are open */
    uint32_t uses;                /* connections that are open, and accepts in progress */
    uint64_t taken;               /* connections, since the start */
    uint32_t probe;               /* where the next look at the others begins */
    uint32_t streak;              /* connections in a row that an accept did not wait for */
    uint32_t in_vain;             /* pauses in a row in which the other workers took nothing */
    uint64_t taken_by_others;     /* connections, when the last pause began */

    /* guarded by the listener's lock */
    uint32_t reserved; /* spares; read by other workers without the lock */
    bool told;         /* `message` is in flight */
    struct ci_message message;
};

struct coir_listener {
    coir_fd fd;      /* -1: closed */
    uint32_t serial; /* unique in the process */
    bool is_unix;
    /* another process may listen on the same socket: it is closed, but not shut down, and its file
     * is not removed */
    bool was_passed;
    const coir_allocator *allocator;
    size_t size;
    int32_t refs; /* one until it is closed, one for each seat in use, one for each message */
    struct ci_lock lock; /* guards what follows */
    coir_fd *spare;      /* connections */
    size_t spare_count, spare_room;
    size_t reserved; /* of the spares */
    int seat_count;
    struct ci_seat seats[]; /* by the number of the worker */
};

/* A record that is not closed; NULL: out of memory. */
coir_listener *ci_listener_new(coir_runtime *runtime, coir_fd fd);
void ci_listener_unref(coir_listener *listener);

/* Around an accept of the calling worker. */
void ci_seat_use(struct ci_seat *seat);
void ci_seat_unuse(struct ci_seat *seat);

/* Counts a new stream at the seat of its worker, until ci_seat_leave. */
void ci_seat_take(struct ci_seat *seat, coir_stream *stream);

/* The next spare that the seat may have, or -EAGAIN. With `last`, when no worker accepts any more,
 * it may also have those that are reserved for other seats. */
coir_fd ci_spare_take(struct ci_seat *seat, bool last);

/* Makes a connection a spare, reserved for `seat` where that is not NULL. -ENOMEM: the connection
 * is the caller's still. */
int ci_spare_put(coir_listener *listener, coir_fd fd, struct ci_seat *seat);

/* Tells every worker that has not been told to look, if there are spares that are not reserved. */
void ci_spare_tell_all(coir_listener *listener);

/* After an accept of the seat has ended: its other accepts look at the spares that are left; where
 * it has none, what was reserved for it is not reserved any more. */
void ci_seat_pass_on(struct ci_seat *seat);

#endif
