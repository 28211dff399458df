/* The seam: everything nondeterministic crosses here. A driver belongs to one thread's loop; above
 * it there is no system call.
 *
 * 1. An operation is its caller's struct. Between a start that answered false and its completion it
 * belongs to the driver, with the memory that it points at; it completes exactly once.
 * 2. start answers true when the operation completed at once: `result` is set and `done` is not
 * called.
 * 3. Otherwise `done` is called later, from inside wait, close or forget, never from inside start
 * or cancel.
 * 4. cancel is a request, which may be made again. True: withdrawn, `result` is -ECANCELED and
 * `done` will not be called. False: `done` will be called, with -ECANCELED or with the real result
 * if that came first.
 * 5. A CI_OP_WATCH calls `done` each time its events hold, until it is cancelled, which always
 * withdraws it.
 * 6. wake makes the wait in progress, or the next one, return. It is the only function here that
 * other threads may call.
 * 7. A descriptor is closed by the driver that it was used with; other drivers that used it forget
 * it before.
 * 8. The completion of a lazy write that was carried out in full may be delayed by a sleep that
 *    nothing else ends, of half a second at most, but not while its stream has something to read.
 * Any other result of a lazy write is reported like that of any write.
 */
#ifndef CI_DRIVER_DRIVER_H
#define CI_DRIVER_DRIVER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/memory.h"
#include "coir/base.h"
#include "coir/socket.h"
#include "driver/event.h"
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
    /* len = a number that no other listener of the process has: the new descriptor */
    CI_OP_ACCEPT,
    CI_OP_CONNECT, /* address, count = its length. -EAGAIN: the backlog of a Unix socket is full */
    /* events on a descriptor of ours: those that hold. CI_EVENT_END may be asked for too */
    CI_OP_POLL,
    CI_OP_FOREIGN, /* events on anybody's descriptor: asked of the kernel each time */
    CI_OP_WATCH,   /* events on anybody's descriptor, again and again, level-triggered */
    /* of a file: buf, count, offset: how many bytes. Where the driver has these
       (ci_driver_kind.files) */
    CI_OP_READ_AT,
    CI_OP_WRITE_AT, /* data, count, offset */
    CI_OP_SYNC,     /* a file's bytes to the disk */
};

struct ci_op {
    struct ci_op *next; /* the driver's while pending */
    void (*done)(struct ci_op *op);
    coir_fd fd;
    uint8_t kind;
    uint8_t pending;  /* not 0 while it is the driver's, which may tell apart how */
    bool no_wait : 1; /* -EAGAIN instead of waiting */
    bool lazy : 1;    /* a write: its completion may be delayed, see 8; the driver may clear this */
    bool exact : 1;   /* a read, or a poll before one: nothing is received ahead of a reader */
    uint8_t events;   /* enum coir_events */
    int32_t result;
    int32_t count;
    union {
        void *buf;
        const void *data;
        const struct iovec *iov;
        const struct sockaddr *address;
        struct msghdr *message;
    };
    union {
        size_t len;
        int64_t offset;
    };
};

/* For start: the operation has completed at once. */
static inline bool ci_op_complete(struct ci_op *op, int32_t result)
{
    op->result = result;
    return true;
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
    unsigned mode, owner, group; /* of the file of a Unix socket; 0: as the system makes it */
};

/* A datagram socket is bound to `address`; with a peer it is connected to it: it receives from the
 * peer alone, and hears that it refuses
 * (-ECONNREFUSED). */
struct ci_datagram {
    const struct sockaddr *address, *peer; /* peer NULL: none */
    socklen_t address_len, peer_len;
};

/* What was read of a stream and not given to a reader yet. */
struct ci_ahead {
    const coir_allocator *allocator;
    size_t len, at; /* at: how many have been read since */
    int error;      /* behind the bytes; 0: none */
    char bytes[];
};

static inline void ci_ahead_free(struct ci_ahead *ahead)
{
    if (ahead)
        ci_free(ahead->allocator, ahead, sizeof *ahead + ahead->len);
}

struct ci_driver {
    const struct ci_driver_kind *kind;
    size_t pending; /* operations that may complete by themselves one day */
};

struct ci_driver_kind {
    const char *name;
    bool simulated;
    bool files; /* it has the operations on files; else another thread makes the calls */
    bool (*start)(struct ci_driver *driver, struct ci_op *op);
    bool (*cancel)(struct ci_driver *driver, struct ci_op *op);

    /* Completes operations; sleeps for them until `deadline` (0: not at all, COIR_NEVER: without
     * end). 0, or a negative error that has persisted: nothing can be waited for any more. */
    int (*wait)(struct ci_driver *driver, coir_time deadline);
    void (*wake)(struct ci_driver *driver);
    coir_time (*now)(struct ci_driver *driver);
    coir_time (*wall)(struct ci_driver *driver); /* since 1970 */
    uint64_t (*random)(struct ci_driver *driver);

    /* A descriptor that is readable when wait has something to complete, or was woken; NULL: there
     * is none. */
    coir_fd (*descriptor)(struct ci_driver *driver);

    /* The calls that never wait: a descriptor or 0, or a negative error. */
    int (*socket)(struct ci_driver *driver, int family);
    int (*datagram)(struct ci_driver *driver, const struct ci_datagram *datagram);
    int (*listen)(struct ci_driver *driver, const struct ci_listen *listen);
    /* a listener: no new client gets through; those in its backlog are still there */
    int (*refuse)(struct ci_driver *driver, coir_fd fd);
    /* closes what was bound; the file of a Unix socket is removed */
    void (*close_named)(struct ci_driver *driver, coir_fd fd);
    int (*shutdown_write)(struct ci_driver *driver, coir_fd fd);
    int (*option)(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option, int value);
    int (*address)(struct ci_driver *driver, coir_fd fd, bool peer,
                   struct sockaddr_storage *ret_address, socklen_t *ret_len);
    /* of a Unix socket's peer */
    int (*credentials)(struct ci_driver *driver, coir_fd fd, coir_credentials *ret_credentials);
    /* a socket of the program's: see ci_passed_take */
    int (*take)(struct ci_driver *driver, coir_fd fd, enum ci_passed kind);
    /* What is known of a name without asking: 0 or an error, which are to be told after *ret_delay;
     * -EAGAIN: somebody has to be asked. */
    int (*resolve)(struct ci_driver *driver, const char *host, int family, struct ci_ips *ret_ips,
                   coir_time *ret_delay);

    /* On files: they may block for as long as a disk takes. */
    int (*open)(struct ci_driver *driver, const char *path, int flags, unsigned mode);
    int (*file_size)(struct ci_driver *driver, coir_fd fd, int64_t *ret_size);

    /* Pending operations complete with -ECANCELED; the descriptor goes, or stays open. A close may
     * be left to the next wait or flush (NULL: none is). */
    void (*close)(struct ci_driver *driver, coir_fd fd);
    void (*flush)(struct ci_driver *driver);
    void (*forget)(struct ci_driver *driver, coir_fd fd);

    /* A descriptor of which nothing is pending goes from one driver to another, with what was read
     * ahead (NULL: nothing was), which adopt takes over. NULL functions: nothing ever is. Errors
     * leave everything as it is: -EBUSY, -ENOMEM. */
    int (*detach)(struct ci_driver *driver, coir_fd fd, struct ci_ahead **ret_ahead);
    int (*adopt)(struct ci_driver *driver, coir_fd fd, struct ci_ahead *ahead);

    /* Around the time in which a thread owns the driver, with nothing pending; NULL where threads
     * make no difference. begin is called by any thread before, and may fail; end by the owner. */
    int (*begin)(struct ci_driver *driver);
    void (*end)(struct ci_driver *driver);

    void (*free)(struct ci_driver *driver);
};

/* What is tried where no driver is named, the best first, NULL at the end; the one of them that is
 * over a selector; and all the names there are, for people. */
extern const char *const ci_driver_choices[], *const ci_driver_selector, *const ci_driver_names;

/* Why a driver that may well work is not to be chosen; NULL: no reason. */
const char *ci_driver_unfit(const char *name);

/* A driver by name, for the calling thread. 0, -EINVAL for an unknown name, -ENOMEM, -EMFILE, ...
 */
int ci_driver_open(const char *name, const coir_allocator *allocator,
                   struct ci_driver **ret_driver);

/* Whether the name is known. */
bool ci_driver_known(const char *name);

static inline bool ci_driver_start(struct ci_driver *driver, struct ci_op *op)
{
    return driver->kind->start(driver, op);
}

static inline bool ci_driver_cancel(struct ci_driver *driver, struct ci_op *op)
{
    return driver->kind->cancel(driver, op);
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
