/* Listeners: one descriptor that every worker of a runtime accepts from, and who gets which
 * connection.
 *
 * 1. Each worker has a seat. A seat counts the connections of the listener that the worker has
 * open, until they are closed or detached.
 * 2. Whichever worker the kernel wakes, the connection goes to an idle one that has fewer, if there
 * is one: it is put aside (a spare), reserved for that worker's seat, and the worker is told. A
 * worker that is busy is given nothing, so it keeps nobody waiting.
 * 3. What is not reserved is for whoever accepts next. A seat without an accept has nothing
 * reserved, once it has been told.
 * 4. The record goes when the listener is closed, the last of its connections too, and no message
 * to a seat is under way.
 */
#ifndef CI_IO_LISTENER_H
#define CI_IO_LISTENER_H

#include "io/io.h"
#include "sys/lock.h"

struct accept_op;

struct ci_seat {
    /* the worker's; the counts are read by others */
    CI_CACHE_ALIGNED coir_listener *listener;
    struct ci_worker *worker;
    struct accept_op *accepts; /* those that wait */
    uint32_t waiting;          /* how many */
    uint32_t live;             /* connections that are open */
    uint64_t taken;            /* ever */
    uint32_t probe;            /* where the next look at the others begins */
    uint32_t streak;           /* connections for which it did not have to wait */
    uint32_t in_vain;          /* how often it let the others catch up, and they did not */
    uint64_t waited_for;       /* what they had taken when it last did */

    /* guarded by the listener's lock */
    uint32_t reserved; /* spares that are for this seat; read by others */
    bool told;         /* the message is under way */
    struct ci_message message;
};

struct coir_listener {
    coir_fd fd;      /* -1: it listens no more */
    uint32_t serial; /* no other listener of the process has it */
    bool is_unix;
    bool was_passed; /* another process may listen on the same socket: it is only closed */
    const coir_allocator *allocator;
    size_t size;
    int32_t refs;
    struct ci_lock lock; /* guards what follows */
    coir_fd *spare;      /* connections that were accepted and that nobody has yet */
    size_t spare_count, spare_room;
    size_t reserved; /* of them */
    int seat_count;
    struct ci_seat seats[]; /* by worker */
};

#endif
