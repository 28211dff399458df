/* A WebSocket connection, of a server or a client.
 *
 * Receiving: ci_ws_advance parses what has come until there is a message, and never waits. The
 * future of a receive (ws_recv.c) and the session of a connection without a fiber (ws_session.c)
 * both loop over it and a wait for the stream.
 *
 * Sending: any task makes frames and pushes them into the write queue, which is the stream's
 * writer. Data frames go in turn (`turn`): one message at a time, also when it goes in parts or is
 * compressed with what was sent before. Pongs and the close frame go between any two frames.
 *
 * 1. One task at a time receives, on the owner: `receiving`. A session does so until it ends, also
 * before it has begun.
 * 2. While a receive waits and no byte of a message has come, there is no input buffer.
 * 3. The close frame is the last one in the queue, which takes no frame behind it, nor when the
 *    connection has ended (ci_write_queue_finish).
 * 4. When the connection has ended, `result` is what receives return: 0 or an error.
 * 5. A connection without a fiber has no task and no `awake` while it rests (task/rest.h): when it
 * has waited for a while, and nothing of a message has come. When bytes come, it has to end or the
 * server drains, it gets them again.
 * 6. There is a `sender` while something is sent. Any worker makes it; only the owner frees it,
 * while no call uses it, nor has the turn, and nothing is queued.
 */
#ifndef CI_WEB_WS_H
#define CI_WEB_WS_H

#include "base/list.h"
#include "base/time.h"
#include "coir/mutex.h"
#include "io/io.h"
#include "proto/utf8.h"
#include "proto/websocket_deflate.h"
#include "task/timer.h"
#include "web/limits.h"
#include "web/worker.h"
#include "web/ws_message.h"

struct ci_ws_inflater;
struct ci_ws_deflater;

/* What ci_ws_advance returns besides 0 and errors. */
enum { CI_WS_MESSAGE = 1, CI_WS_YIELD = 2 };

/* What a connection is made from. */
struct ci_ws_agreed {
    struct ci_http_worker *http;
    const coir_ws_options *options; /* complete: see ci_ws_options_read */
    struct ci_ws_deflate deflate;
    const char *protocol;
    size_t protocol_len;
    bool client;
    /* of a connection without a fiber; or NULL */
    coir_ws_message_fn *fn;
    void *arg;
    coir_scope *scope; /* of its task */
    size_t *places;    /* of a server: where its open connections are counted */
};

/* What connections share for which the same was agreed on: constant (ws_terms.c). */
struct ci_ws_terms {
    struct ci_list link; /* in ci_http_worker.terms */
    size_t users;        /* connections */
    struct ci_http_worker *http;
    coir_scope *scope;
    coir_ws_message_fn *fn; /* NULL: the connection has a fiber */
    size_t *places;         /* the server's; NULL: a client's */
    size_t items_max, bytes_max, message_max;
    coir_time ping_interval, ping_timeout, close_timeout;
    struct ci_ws_deflate deflate;
    uint8_t overflow;  /* enum coir_overflow */
    bool drops_frames; /* by the queue's policy */
    bool client;
    size_t protocol_len;
    char protocol[]; /* with a NUL */
};

/* Terms with a protocol of a usual length are objects of the pool ci_http_worker.agreed. */
enum { CI_WS_TERMS_SIZE = sizeof(struct ci_ws_terms) + 64 };

/* What a connection has while it does not rest: the owner's. */
struct ci_ws_awake {
    /* receiving */
    char *in; /* CI_HTTP_BUFFER bytes, or NULL */
    uint32_t in_at, in_end;
    struct ci_ws_frames frames;
    uint64_t left;             /* of the payload in progress */
    coir_ws_message *message;  /* as far as it has come; or NULL */
    coir_ws_message *control;  /* the same of a control frame */
    coir_ws_message *ready;    /* complete, not received yet */
    coir_ws_message *farewell; /* the peer's close frame */
    struct ci_ws_inflater *inflater;
    struct ci_utf8 utf8;
    uint8_t opcode; /* of the message in progress */
    bool in_frame, deflated, ready_last, in_parts;
    int16_t close_code;
    int result;
    struct ci_ws_sender *ended; /* ws->sender as it was before ci_ws_sender_end; or NULL */

    /* of a connection without a fiber (ws_session.c) */
    coir_ws *ws;
    struct ci_task *task;
    coir_future future;
    struct ci_call call;
};

/* What a connection has while something is sent. */
struct ci_ws_sender {
    coir_write_queue *queue;
    coir_mutex turn;
    const void *parts_by; /* the task that has the turn because it sends parts; or NULL. Who
                           * exchanges it for NULL gives the turn back */
    struct ci_ws_deflater *deflater;

    /* the owner's */
    uint64_t pushed; /* what the queue had been given when that was looked at last */
    uint64_t taken;  /* bytes that the peer had taken of the queue when it was pinged */
    bool was_queued; /* and whether there was more for it */
};

/* What it has all the time. An idle connection has nothing else, so each byte counts. */
struct coir_ws {
    coir_stream *stream;
    struct ci_ws_terms *terms;
    void *arg;                 /* of terms->fn */
    struct ci_list link;       /* in its server's list `sockets`; a client's is alone */
    struct ci_ws_awake *awake; /* NULL: it rests */
    struct ci_io_op io;        /* the wait of a connection without a fiber */

    /* silence */
    struct ci_timer timer;
    coir_time since;    /* when the peer was heard last, or pinged */
    coir_time close_by; /* when a receive ends at the latest */

    /* any worker's */
    struct ci_ws_sender *sender; /* atomic; NULL: there is none now (ws_sender.c) */
    uint32_t senders;            /* atomic: calls that use it; CI_WS_FREEING */
    bool sent_close;             /* atomic: written by the owner */

    /* the owner's */
    bool pinged : 1; /* and not heard since */
    bool receiving : 1;
    bool waiting : 1;
    bool over : 1;
    bool closed : 1;       /* by the program, while a task received: messages are dropped */
    bool rouse_is_due : 1; /* memory for the task was out; the timer tries again */
    bool wait_is_over : 1; /* the same, and `io` has completed */
    bool starved : 1;      /* memory for a stack was out; the timer tries again */
};
_Static_assert(sizeof(struct coir_ws) <= 216, "see docs/decisions/38-tasks-at-rest.md");

static inline struct ci_http_worker *ci_ws_http(const coir_ws *ws)
{
    return ws->terms->http;
}

/* The time of the turn in progress, on the owner. */
static inline coir_time ci_ws_now(const coir_ws *ws)
{
    return ci_worker_now(ci_ws_http(ws)->worker);
}

/* ---- ws.c: making, freeing, and what both sides share ---- */

/* Options with the defaults; 0 or -EINVAL. */
int ci_ws_options_read(coir_ws_options *options, const coir_ws_options *given);

/* ---- ws_reserve.c ---- */

/* In fixed memory: has what `connections` need at a time, beside their streams, tasks, stacks and
 * input buffers. -ENOMEM. */
int ci_ws_reserve(struct ci_http_worker *http, const coir_ws_options *options, size_t connections);

/* Whether a connection with `options` needs no more than was reserved for one with `most`. */
bool ci_ws_is_reserved_for(const coir_ws_options *options, const coir_ws_options *most);

/* ---- making one: ws.c ---- */

/* Makes a connection over a stream that no task uses. `input` bytes have come behind the
 * handshake. */
int ci_ws_new(coir_stream *stream, const struct ci_ws_agreed *agreed, const char *input, size_t len,
              coir_ws **ret_ws);

/* ---- ws_awake.c ---- */

/* Gives a connection that has none its `awake`, which ci_ws_lull takes again. False: out of memory.
 */
bool ci_ws_wake(coir_ws *ws);
void ci_ws_lull(coir_ws *ws);

/* How long a connection without a fiber waits before it rests. */
#define CI_WS_REST_DELAY ((coir_time)1 * COIR_S)

/* Before each wait for the stream: the timer is set for when the peer has been silent for too
 * long, or the connection rests. */
void ci_ws_begin_wait(coir_ws *ws);

/* When the peer has been silent for too long, or has not answered a close frame. */
coir_time ci_ws_silence_ends(const coir_ws *ws);

/* Frees it, and leaves the stream to the caller. What is queued is dropped. */
void ci_ws_free(coir_ws *ws);

/* ---- ws_terms.c ---- */

/* Terms for one more connection; NULL: out of memory. */
struct ci_ws_terms *ci_ws_terms_take(const struct ci_ws_agreed *agreed);
void ci_ws_terms_give(struct ci_ws_terms *terms);

/* No connection is left on the worker. */
void ci_ws_terms_done(struct ci_http_worker *http);

/* ---- ws_close.c ---- */

/* Closes it in due form, in a fiber, unless it has ended: with `code`. What is queued is sent. */
void ci_ws_finish(coir_ws *ws, int code);

/* ---- ws_accept.c ---- */

/* The handler of a request that has become a WebSocket connection has returned `rc`. */
struct ci_exchange;
void ci_ws_handler_ended(struct ci_exchange *exchange, int rc);

/* ---- ws_session.c ---- */

/* Goes on with the task of an HTTP connection, which ends with `caller`: the future to run next. */
coir_future *ci_ws_session_begin(coir_ws *ws, coir_future *caller, struct ci_task *task);

/* Tries again to call the program, for which there was no stack. */
void ci_ws_session_retry(coir_ws *ws);

/* Has a connection that has its `awake` again wait as before its rest. */
coir_future *ci_ws_session_resume(coir_ws *ws);

/* ---- ws_rest.c ---- */

/* Gives back what a connection without a fiber does not need now: `awake` with the task, and the
 * sender. False: to be called again after a while. */
bool ci_ws_rest(coir_ws *ws);

/* The connection has a task again, if it had given it back. False: memory is out, and the timer
 * tries again. */
bool ci_ws_rouse(coir_ws *ws);

/* The server drains: the peer is asked to close. */
void ci_ws_drain(coir_ws *ws);

/* The timer's function, on the worker's stack. */
void ci_ws_on_silence(struct ci_timer *timer);

/* ---- ws_sender.c ---- */

/* Added to `senders` while the owner looks whether it can free the sender. */
#define CI_WS_FREEING 0x80000000u

/* The sender, which is made if there is none, and is not freed before ci_ws_sender_leave. -ENOMEM;
 * -EPIPE: the connection has ended. */
int ci_ws_sender_enter(coir_ws *ws, struct ci_ws_sender **ret_sender);

/* The same, but NULL if there is none; then without ci_ws_sender_leave. */
struct ci_ws_sender *ci_ws_sender_enter_if_any(coir_ws *ws);

void ci_ws_sender_leave(coir_ws *ws);

/* For the owner, between two calls that may suspend: NULL: there is none. */
struct ci_ws_sender *ci_ws_sender_of(const coir_ws *ws);

/* It takes nothing more. */
void ci_ws_sender_finish(coir_ws *ws);

/* The same, behind a last frame, or NULL; and the turn of a message in parts ends. -EPIPE: it took
 * nothing before; -ENOMEM. */
int ci_ws_sender_finish_with(struct ci_ws_sender *sender, coir_ws_message *last);

/* The calling task, which has the turn, keeps it for the next part, unless nothing more is taken.
 */
void ci_ws_sender_keep_turn(struct ci_ws_sender *sender);

/* The turn of a message in parts that `by` has begun ends, unless it has ended already. */
void ci_ws_sender_end_turn(struct ci_ws_sender *sender, const void *by);

/* Drops what is queued, if there is something; nothing is sent any more. */
void ci_ws_sender_drop(coir_ws *ws);

/* Frees the queue; nothing is sent any more. */
void ci_ws_sender_end(coir_ws *ws);

/* Frees a sender that no task uses, or NULL. */
void ci_ws_sender_free(struct ci_http_worker *http, struct ci_ws_sender *sender);

int ci_ws_sender_flush(coir_ws *ws);

/* Whether the peer has taken something of what is queued, or was at the last call. */
bool ci_ws_sender_is_read(coir_ws *ws);

/* Frees the sender if it was not used since the last call; whether there is none. */
bool ci_ws_sender_rest(coir_ws *ws);

/* ---- ws_recv.c ---- */

/* CI_WS_MESSAGE: ws->ready. 0, or an error: the connection has ended. -EAGAIN: wait for the stream.
 * CI_WS_YIELD: let others run, then go on. */
int ci_ws_advance(coir_ws *ws);

/* After each wait for the stream, which has returned `result`. 0: go on; otherwise what the receive
 * returns. */
int ci_ws_end_wait(coir_ws *ws, int64_t result);

/* Ends the connection: from now on receives return `result`. */
void ci_ws_end(coir_ws *ws, int code, int result);

/* ---- ws_send.c ---- */

/* Pushes a control frame, without waiting; takes the reference. On the owner. */
int ci_ws_push_control(coir_ws *ws, coir_ws_message *message);

/* A control frame with a copy of `data`; NULL: out of memory. */
coir_ws_message *ci_ws_control(coir_ws *ws, enum ci_ws_opcode opcode, const void *data, size_t len);

coir_ws_message *ci_ws_close_frame(coir_ws *ws, int code, const char *reason, size_t len);

/* Sends a close frame with a code (CI_WS_NO_CODE: an empty one), unless one was sent; without
 * waiting, also when the queue is full. Who waits to send gets -EPIPE. */
int ci_ws_send_close(coir_ws *ws, int code, const char *reason, size_t len);

/* Whether the calling task has begun a message in parts. Only it makes that so: other tasks may
 * store to the field meanwhile, but never its runnable. */
static inline bool ci_ws_sends_parts(const struct ci_ws_sender *sender)
{
    const void *by = ci_load_relaxed(&sender->parts_by);
    return by && by == ci_worker_current->runnable;
}

static inline bool ci_ws_sent_close(const coir_ws *ws)
{
    return ci_load_relaxed(&ws->sent_close);
}

#endif
