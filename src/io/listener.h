/* The record of a listener: one descriptor that every worker of a runtime accepts from. accept.c
 * chooses the worker that gets a connection; seat.c keeps the seats of the workers, and the
 * connections on their way to one (spares); listener.c opens and closes.
 *
 * 1. Each worker has a seat. `live` of a seat counts the connections of the listener that its
 * worker has open, until they are closed or detached. Only that worker changes it.
 * 2. A connection that was accepted for another worker, or for any, is a spare. The listener's
 * `reserved` is the sum of those of its seats, and there are at least as many spares.
 * 3. A seat for which spares are reserved has an accept that waits, or a message to it is in
 * flight.
 * 4. The record is freed when the listener is closed and no seat is in use: no connection of it is
 * open, no accept of it is in progress, and no message to it is in flight.
 * 5. Under a limit `open` counts the connections that were admitted and have not been closed or
 * detached. One is admitted only while it is below the limit.
 *
 * The kernel wakes any of the workers. If an idle worker has fewer connections, the connection goes
 * to that one: it becomes a spare that is reserved for the worker's seat, and a message tells the
 * worker. A busy worker is given nothing, so that no client waits for it. A spare that is not
 * reserved goes to the worker that accepts next.
 *
 * When the listener is closed, other workers may have an accept in their drivers. Each of them is
 * told, and withdraws it; the last one closes the descriptor, so that no driver knows a descriptor
 * whose number is another's already.
 *
 * With epoll a worker stays registered when its accept has got a connection, as it mostly accepts
 * again at once. If it does not, it may be woken, alone, for a connection that others wait for. The
 * driver tells (`unwanted`), the connection becomes a spare, and the worker is registered no more.
 * With io_uring an accept may have been woken just before its wait was withdrawn, so one that ends
 * then, also with a spare, leaves no connection in the backlog that others wait for.
 *
 * A shared listener is registered so that its workers are woken beside one of the other process,
 * not in its place: a worker that is busy, or whose accept is withdrawn, would keep the connection
 * from that one. On io_uring it has polls instead of accepts.
 *
 * A listener is shut while it is paused, or full: accepts wait for it to open (admission.c). A
 * pause withdraws the accepts that wait in the drivers. When it becomes full they stay: one that
 * gets a connection makes it a spare, which waits as those in the backlog do, and waits itself.
 */
#ifndef CI_IO_LISTENER_H
#define CI_IO_LISTENER_H

#include <errno.h>

#include "io/io.h"
#include "sys/lock.h"
#include "task/metered.h"
#include "task/sleep.h"

/* An accept's wait for a listener that is shut. */
struct ci_opening {
    coir_future future;
    struct ci_runnable *runnable;
    struct ci_seat *seat;
    struct ci_opening *next; /* in the list of accepts that wait at the seat */
};

struct ci_accept_op {
    coir_future future;
    union {
        struct ci_io_op io;
        struct ci_sleep_op pause;
        struct ci_opening opening;
    };
    coir_listener *listener;
    coir_stream **ret_stream;
    struct ci_accept_op *next; /* of those that wait at the seat */
    coir_fd fd;                /* a connection, or an error */
    bool withdrawn;            /* its wait was, and no other has begun since */
};
CI_LEAVES_SPARE_WORDS(struct ci_accept_op, coir_open_op);
_Static_assert(sizeof(struct ci_accept_op) <= CI_FIBER_OP_WORDS * sizeof(uint64_t),
               "an accept is a case");

/* ci_accept_op.fd of a waiting accept that has been requested to look at the spares. */
enum { CI_LOOKS_AGAIN = -EINTR };

struct ci_seat {
    /* only its worker writes these; other workers read the counts */
    CI_CACHE_ALIGNED coir_listener *listener;
    struct ci_worker *worker;
    struct ci_accept_op *accepts; /* those that wait for the driver */
    struct ci_opening *openings;  /* those that wait for the listener to open */
    struct ci_list link; /* in its worker's list `seats`: from the first accept to the close */
    bool listed;         /* it is */
    bool shares;         /* its accepts know that the listener is shared */
    uint32_t waiting;    /* how many */
    uint32_t live;       /* connections that are open */
    uint32_t uses;   /* connections that are open, accepts in progress, and one while in the list */
    uint64_t taken;  /* connections, since the start */
    uint32_t probe;  /* where the next look at the others begins */
    uint32_t streak; /* connections in a row that were accepted without waiting */
    uint32_t refused;         /* errors of connections in a row */
    uint32_t in_vain;         /* pauses in a row in which the other workers took nothing */
    uint64_t taken_by_others; /* connections, when the last pause began */

    /* guarded by the listener's lock */
    uint32_t reserved; /* spares; read by other workers without the lock */
    bool told;         /* `message` is in flight */
    bool ends;         /* it is told to withdraw its accepts, because the listener closes */
    struct ci_message message;
};

struct coir_listener {
    coir_fd fd;      /* -1: closed */
    uint32_t serial; /* unique in the process */
    bool is_unix;
    /* another process may listen on the same socket: it is closed, but not shut down, and its file
     * is not removed */
    bool was_passed;
    bool is_shared; /* by coir_listener_share: what is in the backlog is another's to accept */
    bool closes_at_limit; /* connections beyond the limit, instead of leaving them in the backlog */
    size_t connections_max; /* 0: no limit */
    uint64_t refused;       /* connections that were closed, as they were beyond a limit */
    uint64_t errors;        /* of accept(2) */
    struct ci_metered metered;
    char name[64]; /* the address it was asked for, or the beginning of that */
    const coir_allocator *allocator;
    size_t size;
    int32_t refs; /* one until it is closed, one for each seat in use, one for each message */
    struct ci_lock lock; /* guards what follows */
    coir_fd *spare;      /* connections */
    size_t spare_count, spare_room;
    size_t reserved; /* of the spares */
    uint32_t shut;   /* enum ci_shut; read without the lock, too */
    size_t open;     /* connections, under a limit */
    bool closed;     /* by coir_listener_close; read without the lock, too */
    int32_t ending;  /* seats that have accepts to withdraw: the last one closes the descriptor */
    coir_time next_report;
    int seat_count;
    struct ci_seat seats[]; /* by the number of the worker */
};

/* What an error of an accept means for who accepts: try again at once, or after ci_accept_pause,
 * as the process or the system is short of something; or the listener has failed. A shortage is
 * logged once a minute. `refused` counts the errors of connections since the last connection: where
 * every accept is refused, as by a security module (EPERM), some of them are a shortage. */
enum ci_accept_error { CI_ACCEPT_AGAIN, CI_ACCEPT_LATER, CI_ACCEPT_FAILED };
enum ci_accept_error ci_accept_judge(coir_listener *listener, int error, uint32_t *refused);
extern const coir_time ci_accept_pause;

/* Counts an error of a connection. True: there were so many in a row that the next accept waits for
 * ci_accept_pause. */
bool ci_accept_refused_again(uint32_t *refused);

/* Errors of a connection that failed before it was accepted, not of the listener: accept(2) says to
 * retry. */
bool ci_accept_is_of_client(int error);

/* A number for CI_OP_ACCEPT. */
uint32_t ci_listener_serial(void);

/* Has the metrics of its runtime show it, until it is freed: what is counted of it. */
void ci_listener_meter(coir_listener *listener, const char *address);

/* Why a listener is shut. */
enum ci_shut { CI_LISTENER_PAUSED = 1, CI_LISTENER_FULL = 2 };

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

/* Makes a connection a spare, reserved for `seat` unless that is NULL. -ENOMEM, or -ECANCELED when
 * the listener is closed: the connection remains the caller's. */
int ci_spare_put(coir_listener *listener, coir_fd fd, struct ci_seat *seat);

/* Tells every worker that has not been told to look, if there are spares that are not reserved. */
void ci_spare_tell_all(coir_listener *listener);

/* Tells every worker to look whether the listener is shut, and at the spares. */
void ci_seat_tell_all(coir_listener *listener);

/* Marks the listener as closed, and has every seat end its accepts: the calling worker's now, the
 * others' by message. The descriptor is closed when all have. */
void ci_seat_end_all(coir_listener *listener);

/* A connection that was admitted is closed, or does not become a stream. */
void ci_seat_free_place(struct ci_seat *seat);

/* Withdraws the seat's accepts from the driver, which has the kernel not wake the worker for new
 * connections until it accepts again. */
void ci_seat_withdraw(struct ci_seat *seat);

/* ---- admission.c ---- */

/* The future of a wait for the listener to open: 0, or -ECANCELED after a close. */
coir_future *ci_opening_init(struct ci_opening *opening, struct ci_seat *seat);

/* Ends those waits of the seat, with 0 if the listener is open, or with an error. */
void ci_opening_end_all(struct ci_seat *seat, int error);

/* Whether one more connection may be open; it is counted then. `last`: the listener ends, and it
 * does not matter whether it is paused. */
enum ci_admission { CI_ADMITTED, CI_ADMITTED_LATER, CI_ADMITTED_NEVER };
enum ci_admission ci_admission_ask(coir_listener *listener, bool last);

/* One of those that are counted is closed. True: the listener opens, tell all seats. */
bool ci_admission_leave(coir_listener *listener);

void ci_admission_pause(coir_listener *listener, bool paused);

/* Whether a warning may be logged: once a minute for a listener. */
bool ci_listener_may_report(coir_listener *listener);

/* After an accept of the seat has ended: its other accepts look at the spares that are left. If it
 * has no other accept, the spares reserved for it become available to all. */
void ci_seat_pass_on(struct ci_seat *seat);

#endif
