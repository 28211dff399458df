/* Connecting: to one address (connect.c), and to the addresses of a name, whichever answers first
 * (race.c). */
#ifndef CI_IO_CONNECT_H
#define CI_IO_CONNECT_H

#include "io/io.h"
#include "sys/lookup.h"
#include "task/sleep.h"

struct ci_race;

/* How a connection is made. */
struct ci_connect_how {
    bool has_local, fast_open;
    coir_time attempt_timeout;
    struct sockaddr_storage local; /* to connect from */
};

struct ci_connect_op {
    coir_future future;
    union {
        struct ci_io_op io;
        struct ci_sleep_op pause; /* while the backlog of a Unix socket is full */
    };
    coir_stream **ret_stream;
    coir_fd fd;
    bool late;                        /* the timer has fired */
    const struct ci_connect_how *how; /* NULL: nothing was asked for */
    struct ci_runnable *runnable;
    struct ci_timer timer;
    struct sockaddr_storage address;
};

/* The future of a connection to `address`, which is copied; `how` is not. */
coir_future *ci_connect_init(struct ci_connect_op *op, const struct sockaddr_storage *address,
                             const struct ci_connect_how *how, coir_stream **ret_stream);

/* A connection to the host and port of `where`; NULL: out of memory. The future must be awaited,
 * and then freed, whatever its result. */
struct ci_race *ci_race_new(struct ci_worker *worker, const struct ci_where *where,
                            const struct ci_connect_how *how, coir_stream **ret_stream);
coir_future *ci_race_future(struct ci_race *race);

/* Returns the result. */
int ci_race_free(struct ci_race *race);

#endif
