/* The seam: everything nondeterministic crosses here. A driver belongs to one thread's loop; above
 * it there is no system call.
 *
 * 1. An operation is its caller's struct. Between a start that returned false and its completion it
 * belongs to the driver, with the memory that it points at: `pending` is not 0. It completes
 * exactly once.
 * 2. start returns true when the operation completed at once: `result` is set, and `done` is not
 * called.
 * 3. Otherwise `done` is called later, from inside wait, close or forget, never from inside start
 * or cancel.
 * 4. cancel is a request, which may be repeated. True: withdrawn, `result` is -ECANCELED and `done`
 * will not be called. False: `done` will be called, with -ECANCELED, or with the real result if
 * that came first.
 * 5. A CI_OP_WATCH calls `done` each time its events hold, until it is cancelled; a cancel always
 * withdraws it.
 * 6. A write with `lazy` set has no waiting caller: if it is carried out in full, its completion
 *    may be delayed until the next event, for half a second at most, and not while there is
 *    something to read from its stream. Any other result is reported as for any write.
 *
 * wake makes the wait in progress, or the next one, return; of the functions here it is the only
 * one that other threads may call. A descriptor is closed by the driver that it was used with last;
 * other drivers that used it forget it before.
 */
#ifndef CI_DRIVER_DRIVER_H
#define CI_DRIVER_DRIVER_H

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/check.h"
#include "base/memory.h"
#include "coir/base.h"
#include "coir/socket.h"
#include "driver/event.h"
#include "sys/datagram_call.h"
#include "sys/file_call.h"
#include "sys/lookup.h"
#include "sys/passed.h"

enum ci_op_kind {
    CI_OP_READ,   /* buf, len: the count, 0 at the end */
    CI_OP_WRITE,  /* data, len: the count */
    CI_OP_READV,  /* iov, count */
    CI_OP_WRITEV, /* iov, count */
    /* message: one datagram, with its sender's address; of a stream that is read exactly: bytes and
       control data */
    CI_OP_RECEIVE,
    CI_OP_SEND, /* message: one datagram, to its address; on a stream: bytes and control data */
    /* Attempts, `no_wait` is set: datagrams, count: how many, COIR_DATAGRAMS_MAX at most */
    CI_OP_RECEIVE_MANY,
    CI_OP_SEND_MANY,
    /* len = a number that no other listener of the process has: the new descriptor */
    CI_OP_ACCEPT,
    CI_OP_CONNECT, /* address, count = its length. -EAGAIN: the backlog of a Unix socket is full */
    CI_OP_POLL,    /* events (CI_EVENT_END too) of a descriptor of coir's: those that hold */
    CI_OP_FOREIGN, /* events of a descriptor of the program's: the kernel is asked each time */
    CI_OP_WATCH,   /* as CI_OP_FOREIGN, reported repeatedly, level-triggered */
    CI_OP_FILE,    /* call: of a kind that is in ci_driver.file_calls */
};

struct ci_op {
    struct ci_op *next; /* for the driver while pending */
    void (*done)(struct ci_op *op);
    coir_fd fd;
    uint8_t kind;
    uint8_t pending;  /* not 0 while it belongs to the driver, which uses it for its state */
    bool no_wait : 1; /* -EAGAIN instead of waiting */
    bool lazy : 1;    /* a write: see 6; the driver may clear this */
    bool exact : 1;   /* a read, or a poll before one: nothing is read ahead */
    /* a poll, after a system call of the caller's that would have blocked: the descriptor may be
     * armed for this wait alone, so that nothing else wakes the worker */
    bool once : 1;
    bool peek : 1; /* a CI_OP_READ with no_wait: the bytes stay, for the next read */
    /* a CI_OP_RECEIVE_MANY: also what the options of the socket ask for; without it, descriptors
     * that come with a datagram are closed by the system; a read: descriptors may come with the
     * bytes, and are closed */
    bool ancillary : 1;
    /* a CI_OP_ACCEPT: other processes accept from the socket, too; that this driver is woken for a
     * connection keeps no other one from being woken */
    bool shared : 1;
    uint8_t events; /* enum coir_events */
    int32_t result;
    int32_t count;
    union {
        void *buf;
        const void *data;
        const struct iovec *iov;
        const struct sockaddr *address;
        struct msghdr *message;
        coir_datagram *datagrams;
        const struct ci_file_call *call;
    };
    size_t len;
};

/* For drivers' start: the operation has completed at once. */
static inline bool ci_op_complete(struct ci_op *op, int32_t result)
{
    op->result = result;
    return true;
}

/* From a list that it is in. */
static inline void ci_op_remove(struct ci_op **list, const struct ci_op *op)
{
    while (*list != op)
        list = &(*list)->next;
    *list = op->next;
}

/* Of the events that hold, those with which an operation that waits for events completes. */
static inline int32_t ci_op_events(const struct ci_op *op, uint32_t ready)
{
    uint32_t events = ready & (op->events | COIR_HANGUP | COIR_EVENT_ERROR);
    return (int32_t)(op->events & COIR_READ && ready & CI_EVENT_END ? events | COIR_READ : events);
}

struct ci_listen {
    const struct sockaddr *address;
    socklen_t address_len;
    int backlog;
    bool reuse_port, ipv6_only;
    bool without_lock;           /* driver/unix.h 1 */
    unsigned mode, owner, group; /* of the file of a Unix socket; 0: as the system makes it */
};

/* A datagram socket that is bound to `address`. With a peer it is connected: it receives from the
 * peer alone, and -ECONNREFUSED is reported if no socket has the peer's address. */
struct ci_datagram {
    const struct sockaddr *address, *peer; /* peer NULL: none */
    socklen_t address_len, peer_len;
    struct ci_datagram_options options;
};

/* Bytes that were read ahead of a stream's readers, while the stream moves to another driver. */
struct ci_ahead {
    const coir_allocator *allocator;
    size_t len, at; /* at: how many of the bytes have been read by now */
    int error;      /* after the bytes; 0: none */
    char bytes[];
};

static inline void ci_ahead_free(struct ci_ahead *ahead)
{
    if (ahead)
        ci_free(ahead->allocator, ahead, sizeof *ahead + ahead->len);
}

struct ci_driver {
    const struct ci_driver_kind *kind;
    size_t pending; /* operations that may still complete */
    /* bit N: it has calls on files of kind N (enum ci_file_kind); another thread makes the others.
     * A simulated driver has all that are possible. */
    uint32_t file_calls;
    /* Called by wait for a listener that has something to accept while none of its accepts waits:
     * the kernel may have woken this driver alone. As `done`, it may start and forget anything.
     * NULL: nobody is told. */
    void (*unwanted)(struct ci_driver *driver, coir_fd listener);
    bool calling; /* debug builds: start or cancel runs */
};

struct ci_driver_kind {
    const char *name;
    bool simulated;
    bool (*start)(struct ci_driver *driver, struct ci_op *op);
    bool (*cancel)(struct ci_driver *driver, struct ci_op *op);
    /* Attempt a read from a stream, or a write to it, that has no other in flight, without an
     * operation: the result; -EAGAIN: it has to be started as one. `ancillary`: of a read, as in
     * struct ci_op. NULL functions: each has to be started. */
    ssize_t (*read_now)(struct ci_driver *driver, coir_fd fd, void *buf, size_t len,
                        bool ancillary);
    ssize_t (*write_now)(struct ci_driver *driver, coir_fd fd, const void *data, size_t len);

    /* Waits for events until `deadline` (0: not at all; COIR_NEVER: without end) and completes
     * operations. 0, or a negative error that has persisted: no wait works any more. */
    int (*wait)(struct ci_driver *driver, coir_time deadline);
    void (*wake)(struct ci_driver *driver);
    coir_time (*now)(struct ci_driver *driver);
    coir_time (*wall)(struct ci_driver *driver); /* since 1970 */
    uint64_t (*random)(struct ci_driver *driver);

    /* A descriptor that is readable when a wait would return at once; NULL: there is none. */
    coir_fd (*descriptor)(struct ci_driver *driver);

    /* Has memory for operations on descriptors below `count`, so that none needs more. 0 or
     * -ENOMEM. NULL: there is nothing to have. */
    int (*reserve)(struct ci_driver *driver, size_t count);

    /* The calls that never wait: a descriptor or 0, or a negative error. */
    int (*socket)(struct ci_driver *driver, int family);
    /* of a socket that is to be connected; port 0: the system chooses one when it is. NULL: it
     * cannot be bound */
    int (*bind)(struct ci_driver *driver, coir_fd fd, const struct sockaddr *address,
                socklen_t len);
    /* TCP fast open: of a socket that is to be connected (`queue` 0), or of a listener, with so
     * many requests at a time. NULL: there is no such thing */
    int (*fast_open)(struct ci_driver *driver, coir_fd fd, int queue);
    int (*datagram)(struct ci_driver *driver, const struct ci_datagram *datagram);
    int (*datagram_options)(struct ci_driver *driver, coir_fd fd, int family,
                            const struct ci_datagram_options *options);
    int (*datagram_join)(struct ci_driver *driver, coir_fd fd, const struct sockaddr_storage *group,
                         unsigned interface, bool leave);
    int (*listen)(struct ci_driver *driver, const struct ci_listen *listen);
    /* Of a listener: new connections are refused; those in its backlog can be accepted. */
    int (*refuse)(struct ci_driver *driver, coir_fd fd);
    /* closes what was bound; the file of a Unix socket is removed */
    void (*close_named)(struct ci_driver *driver, coir_fd fd);
    int (*shutdown_write)(struct ci_driver *driver, coir_fd fd);
    int (*option)(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option, int value);
    /* the value of an option; NULL functions: there is nothing to ask */
    int (*get_option)(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option);
    int (*tcp_info)(struct ci_driver *driver, coir_fd fd, coir_tcp_info *ret_info);
    /* of a connection: the bytes sent that a reset might still lose, or -EOPNOTSUPP */
    int (*unacknowledged)(struct ci_driver *driver, coir_fd fd);
    int (*address)(struct ci_driver *driver, coir_fd fd, bool peer,
                   struct sockaddr_storage *ret_address, socklen_t *ret_len);
    /* of a Unix socket's peer */
    int (*credentials)(struct ci_driver *driver, coir_fd fd, coir_credentials *ret_credentials);
    /* a socket of the program's: see ci_passed_take */
    int (*take)(struct ci_driver *driver, coir_fd fd, enum ci_passed kind);
    /* Resolves a name without blocking: 0 or an error, which takes effect after *ret_delay; -EAGAIN
     * if a resolver has to be asked. */
    int (*resolve)(struct ci_driver *driver, const char *host, int family, struct ci_ips *ret_ips,
                   coir_time *ret_delay);

    int (*file_size)(struct ci_driver *driver, coir_fd fd, int64_t *ret_size);

    /* Complete the descriptor's pending operations with -ECANCELED; close closes it, forget leaves
     * it open. A close may be delayed until the next wait or flush (NULL: none is). */
    void (*close)(struct ci_driver *driver, coir_fd fd);
    void (*flush)(struct ci_driver *driver);
    void (*forget)(struct ci_driver *driver, coir_fd fd);

    /* Move a descriptor that has no pending operation from one driver to another: detach returns
     * what was read ahead (NULL: nothing), adopt takes that over. NULL functions: nothing ever is
     * read ahead. Errors leave everything as it is: -EBUSY, -ENOMEM. */
    int (*detach)(struct ci_driver *driver, coir_fd fd, struct ci_ahead **ret_ahead);
    int (*adopt)(struct ci_driver *driver, coir_fd fd, struct ci_ahead *ahead);

    /* Stops reading ahead of a descriptor's readers, until the next read or poll that is not exact:
     * how many bytes that were read ahead are still to be read. NULL: nothing ever is. */
    size_t (*stop_ahead)(struct ci_driver *driver, coir_fd fd);

    /* Around the time in which a thread owns the driver, with nothing pending; NULL if the owner
     * makes no difference. begin is called before, by any thread, and may fail; end by the
     * owner. */
    int (*begin)(struct ci_driver *driver);
    void (*end)(struct ci_driver *driver);

    void (*free)(struct ci_driver *driver);
};

/* The drivers to try if none is named, the best first, then NULL; the one of them that is over a
 * selector; all names, for messages. */
extern const char *const ci_driver_choices[], *const ci_driver_selector, *const ci_driver_names;

/* The reason why a driver must not be chosen although it works; NULL: it may be chosen. */
const char *ci_driver_unfit(const char *name);

/* A driver by name, for the calling thread. 0, -EINVAL for an unknown name, -ENOMEM, -EMFILE,
 * ... */
int ci_driver_open(const char *name, const coir_allocator *allocator,
                   struct ci_driver **ret_driver);

/* Whether the name is known. */
bool ci_driver_known(const char *name);

/* For drivers: completes an operation that is in no list any more. */
static inline void ci_op_done(struct ci_driver *driver, struct ci_op *op)
{
    ci_check(op->pending, "driver/driver.h 1");
    ci_debug_check(!driver->calling, "driver/driver.h 3");
    op->pending = 0;
    driver->pending--;
    op->done(op);
}

static inline bool ci_driver_start(struct ci_driver *driver, struct ci_op *op)
{
    ci_check(!op->pending, "driver/driver.h 1");
    if (CI_DEBUG)
        driver->calling = true;
    bool completed = driver->kind->start(driver, op);
    if (CI_DEBUG)
        driver->calling = false;
    ci_debug_check(completed == !op->pending, "driver/driver.h 2");
    return completed;
}

static inline ssize_t ci_driver_read_now(struct ci_driver *driver, coir_fd fd, void *buf,
                                         size_t len, bool ancillary)
{
    return driver->kind->read_now ? driver->kind->read_now(driver, fd, buf, len, ancillary)
                                  : -EAGAIN;
}

static inline ssize_t ci_driver_write_now(struct ci_driver *driver, coir_fd fd, const void *data,
                                          size_t len)
{
    return driver->kind->write_now ? driver->kind->write_now(driver, fd, data, len) : -EAGAIN;
}

static inline bool ci_driver_cancel(struct ci_driver *driver, struct ci_op *op)
{
    ci_check(op->pending, "driver/driver.h 1");
    if (CI_DEBUG)
        driver->calling = true;
    bool withdrawn = driver->kind->cancel(driver, op);
    if (CI_DEBUG)
        driver->calling = false;
    ci_check(withdrawn == !op->pending && (!withdrawn || op->result == -ECANCELED),
             "driver/driver.h 4");
    ci_check(withdrawn || op->kind != CI_OP_WATCH, "driver/driver.h 5");
    return withdrawn;
}

static inline coir_time ci_driver_now(struct ci_driver *driver)
{
    return driver->kind->now(driver);
}

static inline int ci_driver_detach(struct ci_driver *driver, coir_fd fd,
                                   struct ci_ahead **ret_ahead)
{
    *ret_ahead = NULL;
    if (driver->kind->detach)
        return driver->kind->detach(driver, fd, ret_ahead);
    driver->kind->forget(driver, fd);
    return 0;
}

/* Closes at once. */
static inline void ci_driver_close(struct ci_driver *driver, coir_fd fd)
{
    driver->kind->close(driver, fd);
    if (driver->kind->flush)
        driver->kind->flush(driver);
}

/* Closes, at the latest in the next wait: for callers that return to the worker without running
 * anything else. */
static inline void ci_driver_close_soon(struct ci_driver *driver, coir_fd fd)
{
    driver->kind->close(driver, fd);
}

#endif
