/* Sockets and acceptors of a loop, with callbacks (coir/loop_tcp.h).
 *
 * 1. Functions of the program are called from socket_call (in the turn, outside of the driver) and
 * from close only. Around each of them `calling` is counted: a socket that is closed meanwhile is
 * freed by the outermost.
 * 2. A direction has at most one operation. Its completion, at once or by the driver, sets `ended`
 * and makes the socket ready; nothing is started in the direction until that has been handled.
 * 3. Each write is in `queue` or in `finished`, from which it is reported; a write leaves `queue`
 * once. All completed writes are in `finished` before the first of them is reported: so closing in
 * a function does not change the outcome of what has been written.
 */
#ifndef CI_IO_LOOP_SOCKET_H
#define CI_IO_LOOP_SOCKET_H

#include "coir/loop_tcp.h"
#include "loop/loop.h"

struct ci_where;

enum { CI_LOOP_WRITE_PIECES = 16 }; /* writes in one call of the system */

struct ci_queued_write {
    struct ci_list link;
    const char *data;
    size_t len;
    coir_queued_write_fn *fn;
    void *arg;
    int result;
    bool is_end; /* of what is sent */
};

struct ci_direction {
    struct ci_op op;
    struct ci_timer timer;
    coir_time timeout;
    coir_socket *socket;
    bool ended; /* the operation has: its result is not handled yet */
    bool late;  /* the timer has fired */
};

struct coir_socket {
    struct ci_resident resident;
    coir_loop *loop;
    coir_fd fd;
    struct ci_direction in, out;

    coir_socket_fn *on_connect; /* NULL: connected */
    void *connect_arg;
    coir_socket_fn *on_read; /* NULL: no read */
    void *read_arg;

    struct ci_list queue, finished; /* of ci_queued_write */
    size_t queued;                  /* bytes */
    int error;                      /* what a write is refused with; 0: none */
    int failed;                     /* what a read is refused with: that of the connect */
    unsigned calling;
    bool closed;
    struct sockaddr_storage peer; /* while it connects */
    struct iovec pieces[CI_LOOP_WRITE_PIECES];
};

/* A socket over a descriptor, which it takes over when this succeeds: 0 or -ENOMEM. */
int ci_loop_socket_new(coir_loop *loop, coir_fd fd, coir_socket **ret_socket);

void ci_direction_init(struct ci_direction *direction, coir_socket *socket);

/* Starts the operation of a direction that has none. */
void ci_direction_start(struct ci_direction *direction, const struct ci_op *op);

/* Ends its operation, at once or when the driver lets it go. */
void ci_direction_cancel(struct ci_direction *direction);

/* Its result, once it has ended. */
int ci_direction_result(struct ci_direction *direction);

/* It counts anew for the operation in progress. */
void ci_direction_set_timeout(struct ci_direction *direction, coir_time timeout);
void ci_direction_stop_timer(struct ci_direction *direction);

/* Writes what is queued, if it can: nothing is being written, and the socket is connected. */
void ci_loop_socket_flush(coir_socket *socket);

/* The write in progress has ended. */
void ci_loop_socket_written(coir_socket *socket, int result);

/* All writes of the queue have failed, and later ones are refused. */
void ci_loop_socket_fail_writes(coir_socket *socket, int error);

/* Tells the outcomes of the writes that are finished. The socket may be closed afterwards. */
void ci_loop_socket_report(coir_socket *socket);

/* A number as an address of TCP. The errors of coir_socket_connect. */
int ci_loop_tcp_find(coir_loop *loop, const char *address, struct ci_where *ret_where);

#define CI_IS_FOREIGN(loop)      \
    (ci_loop_is_foreign(loop) && \
     CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post"))

#endif
