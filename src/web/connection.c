/* A connection between requests: a stackless task.
 *
 *    state      what happened                       next state
 *    STARTING   polled for the first time           WAITING
 *    STARTING   the server has too many connections LINGERING: it is told so; or (closed)
 *    WAITING    the stream is readable              CALLING: a fiber serves what has come
 *    WAITING    nothing for a while                 WAITING, and it rests (connection.h 3)
 *    WAITING    the server drains                   CALLING: what is late is answered
 *    WAITING    too many requests are served        QUEUED; LINGERING: it is told so; or (closed)
 *    WAITING    idle timeout, error, no memory      (closed)
 *    QUEUED     another request has ended           CALLING
 *    QUEUED     timeout                             LINGERING: it is told so
 *    CALLING    answers are left                    SENDING
 *    CALLING    nothing is left                     WAITING; LINGERING if the server drains
 *    CALLING    it is a WebSocket now           (freed: ws_session.c)
 *    CALLING    the client might lose the answer    LINGERING
 *    CALLING    the connection cannot go on         (closed)
 *    SENDING    everything was sent                 WAITING; LINGERING if the server drains
 *    SENDING    timeout, error                      (closed)
 *    LINGERING  end of file, silence, a limit       (closed)
 */
#include "web/connection.h"

#include <errno.h>

#include "base/check.h"
#include "base/time.h"
#include "task/rest.h"
#include "task/spawn.h"
#include "web/exchange.h"
#include "web/partial.h"
#include "web/refusal.h"
#include "web/ws.h"

enum state { STARTING, WAITING, QUEUED, CALLING, SENDING, LINGERING };

/* How long an accepted client that has not sent anything yet may take to do so while the server
 * drains: its request is probably on its way. */
static const coir_time first_request_time = 1 * COIR_S;

/* Lingering ends after this long without a byte from the client. */
static const coir_time linger_silence = 2 * COIR_S;

enum { RESTS_AFTER_MAX = (1 << 24) - 1 };

/* While it lingers: bytes a read, on the worker's stack; reads before other tasks run. */
enum { DISCARD_AT_ONCE = 4096, DISCARDS_A_TURN = 16 };

static coir_future *connection_poll(coir_future *future);

static const coir_future_kind connection_kind =
    COIR_FUTURE_KIND(CI_HTTP_CONNECTION_TASK, connection_poll, NULL);

static struct ci_worker *worker_of(const struct ci_http_connection *connection)
{
    return connection->server->http->worker;
}

/* Closes the connection and frees its record. */
static void release(struct ci_http_connection *connection)
{
    struct ci_http_worker *http = connection->server->http;
    ci_worker_cancel_timer(worker_of(connection), &connection->timer);
    ci_http_turn_give(connection);
    connection->server->refused -= connection->refused;
    ci_http_partial_drop(connection);
    ci_stream_close_soon(connection->stream);
    ci_pool_give(&http->connections, connection);
    ci_drop(&http->live);
}

/* The end of the connection, and of its task by what this returns. */
static coir_future *finish(struct ci_http_connection *connection)
{
    coir_future *caller = connection->future.caller;
    release(connection);
    caller->result = 0;
    return caller;
}

/* Frees the connection's record: its stream and its task are those of a WebSocket connection. */
static coir_future *upgrade(struct ci_http_connection *connection)
{
    coir_future *caller = connection->future.caller;
    coir_ws *socket = connection->socket;
    struct ci_task *task = connection->task;
    ci_http_turn_give(connection);
    ci_worker_cancel_timer(worker_of(connection), &connection->timer);
    ci_pool_give(&connection->server->http->connections, connection);
    return ci_ws_session_begin(socket, caller, task);
}

/* The child runs next, and the connection again when it is complete. Returns what the child's poll
 * returns: the connection's own future if the child is complete by then. */
CI_INLINE coir_future *await(struct ci_http_connection *connection, enum state state,
                             coir_future *child)
{
    connection->future.state = state;
    child->caller = &connection->future;
    return child->kind->poll(child);
}

CI_INLINE coir_future *await_readable(struct ci_http_connection *connection, enum state state)
{
    connection->future.state = state;
    return ci_stream_await_readable(&connection->io, connection->stream, &connection->future);
}

CI_INLINE void set_timer_at(struct ci_http_connection *connection, coir_time when)
{
    connection->rests_next = false;
    ci_worker_set_timer(worker_of(connection), &connection->timer, when);
}

CI_INLINE void set_timer(struct ci_http_connection *connection, coir_time duration)
{
    set_timer_at(connection, ci_time_after(ci_worker_now(worker_of(connection)), duration));
}

/* ---- the end of a connection whose client may still send ---- */

static coir_future *wait_lingering(struct ci_http_connection *connection)
{
    coir_time silent = ci_time_after(ci_worker_now(worker_of(connection)), linger_silence);
    set_timer_at(connection, silent < connection->linger_end ? silent : connection->linger_end);
    return await_readable(connection, LINGERING);
}

/* Closing a socket with unread bytes resets the connection, and the client could lose the answer
 * (RFC 9112, 9.6): many clients read it only after they have sent the whole request. What they send
 * is discarded, without a stack or a buffer. */
static coir_future *begin_lingering(struct ci_http_connection *connection)
{
    if (coir_shutdown_write(connection->stream) < 0)
        return finish(connection);
    connection->linger_end = ci_time_after(ci_worker_now(worker_of(connection)),
                                           connection->server->options->linger_timeout);
    connection->discarded = 0;
    ci_http_turn_give(connection);
    return wait_lingering(connection);
}

/* Reads and discards what has come; waits for more, or closes at the end of file or a limit. The
 * timer ends only a wait: where more comes all the time, it finds none. */
static coir_future *discard(struct ci_http_connection *connection)
{
    char bytes[DISCARD_AT_ONCE];
    if (ci_worker_now(worker_of(connection)) >= connection->linger_end)
        return finish(connection);
    ssize_t n = connection->io.future.result < 0 ? connection->io.future.result : -EAGAIN;
    for (int turns = 0; connection->io.future.result >= 0 && turns < DISCARDS_A_TURN; turns++) {
        if ((n = coir_try_read(connection->stream, bytes, sizeof bytes)) <= 0)
            break;
        if ((connection->discarded += (size_t)n) >= connection->server->options->linger_max)
            return finish(connection);
    }
    return n > 0 || n == -EAGAIN ? wait_lingering(connection) : finish(connection);
}

/* First until it rests, and from then on until the idle timeout. */
CI_INLINE void begin_idle_time(struct ci_http_connection *connection)
{
    const struct ci_http_server *server = connection->server;
    coir_time most = server->draining ? first_request_time : server->options->idle_timeout;
    bool rests_next = most > CI_HTTP_REST_DELAY;
    set_timer(connection, rests_next ? CI_HTTP_REST_DELAY : most);
    connection->rests_next = rests_next;
    connection->rests_after = 1;
}

/* Empty lines have woken it from its rest: it rests again after a while. The timer is set to the
 * end of the idle time. */
static void rest_again(struct ci_http_connection *connection)
{
    const coir_time idle = connection->server->options->idle_timeout,
                    now = ci_worker_now(worker_of(connection)), end = connection->timer.when,
                    begun = idle == COIR_NEVER ? now : end - idle;
    coir_time after = ci_time_left(now, begun) / CI_HTTP_REST_DELAY + 2;
    coir_time rests = ci_time_after(begun, after * CI_HTTP_REST_DELAY);
    if (rests >= end || after > RESTS_AFTER_MAX)
        return;
    set_timer_at(connection, rests);
    connection->rests_next = true;
    connection->rests_after = (uint32_t)after & RESTS_AFTER_MAX;
}

/* Only an answered request restarts the idle timeout; empty lines between requests do not. */
static coir_future *wait_for_request(struct ci_http_connection *connection)
{
    bool draining = connection->server->draining;
    ci_check(!connection->out, "connection.h 1");
    ci_http_turn_give(connection);
    if (draining && connection->called && !connection->partial)
        /* a client that had an answer may have sent more requests behind it */
        return connection->served || connection->served_lately ? begin_lingering(connection)
                                                               : finish(connection);
    if (connection->partial)
        set_timer_at(connection, ci_http_partial_deadline(connection));
    else if (connection->served)
        begin_idle_time(connection);
    else if (!ci_timer_started(&connection->timer))
        return finish(connection); /* the idle timeout passed during the call */
    else if (!connection->rests_next && !draining)
        rest_again(connection);
    struct ci_list *idle = &connection->server->idle;
    ci_check(idle->prev->next == idle, "connection.h 2"); /* else the last one left and is in it */
    ci_list_push(idle, &connection->idle);
    return await_readable(connection, WAITING);
}

static void drop_output(struct ci_http_connection *connection)
{
    ci_pool_give(&connection->server->http->buffers, connection->out);
    connection->out = NULL;
}

/* The time limit for the rest of the output: write_timeout, plus its length at rate_min. */
static coir_time time_for_rest(const struct ci_http_connection *connection)
{
    const coir_serve_http_options *options = connection->server->options;
    bool any_rate = options->rate_min == COIR_UNLIMITED;
    return ci_time_after(options->write_timeout,
                         any_rate ? 0
                                  : connection->out_len * COIR_S / (coir_time)options->rate_min);
}

/* Only the next request waits for this write, so its completion may be delayed until then. */
static coir_future *send_rest(struct ci_http_connection *connection)
{
    const char *data = connection->out + connection->out_at;
    connection->future.state = SENDING;
    return ci_stream_await_write(&connection->io, connection->stream, data, connection->out_len,
                                 &connection->future);
}

static coir_future *sent(struct ci_http_connection *connection, int32_t count)
{
    if (count >= 0 && (uint32_t)count < connection->out_len) {
        connection->out_at += (uint32_t)count;
        connection->out_len -= (uint32_t)count;
        if (connection->server->options->rate_min == COIR_UNLIMITED)
            set_timer(connection, connection->server->options->write_timeout);
        return send_rest(connection);
    }
    drop_output(connection);
    return count < 0 ? finish(connection) : wait_for_request(connection);
}

/* Without a timer if all of it is sent at once. */
static coir_future *begin_to_send(struct ci_http_connection *connection)
{
    coir_future *next = send_rest(connection);
    bool all = connection->io.future.result == connection->out_len;
    if (ci_likely(next == &connection->future && all))
        return sent(connection, (int32_t)connection->out_len);
    set_timer(connection, time_for_rest(connection));
    return next;
}

/* Whether a connection whose wait ended with an error shall read once more: its wait was withdrawn
 * (drain, or the deadline of a head), but its task was not cancelled. A request that has arrived
 * meanwhile is answered. */
static bool looks_once_more(const struct ci_http_connection *connection)
{
    return (connection->server->draining || connection->partial) &&
           !connection->task->runnable.interrupt;
}

/* ---- requests that have come ---- */

static coir_future *call(struct ci_http_connection *connection)
{
    return await(connection, CALLING,
                 ci_call_init(&connection->call, ci_serve_requests, connection));
}

/* The client is told, and may come back later. */
static coir_future *refuse(struct ci_http_connection *connection)
{
    ci_http_partial_drop(connection);
    return ci_http_refuse(connection) ? begin_lingering(connection) : finish(connection);
}

/* Whether a wake-up was for nothing, or for the end of the connection, so that nobody is refused.
 * Where bytes cannot be looked at without being read, they are a request. */
static bool nothing_has_come(const struct ci_http_connection *connection, ssize_t *ret_n)
{
    char byte;
    *ret_n = ci_stream_try_peek(connection->stream, &byte, 1, NULL);
    return *ret_n <= 0 && *ret_n != -EOPNOTSUPP;
}

/* No turn is left: the request is refused, or waits for one where it is. */
static coir_future *do_without_turn(struct ci_http_connection *connection)
{
    struct ci_http_server *server = connection->server;
    ssize_t n;
    connection->served = false; /* what follows is no reason to restart the idle timeout */
    if (nothing_has_come(connection, &n) && !connection->partial)
        return n == -EAGAIN ? wait_for_request(connection) : finish(connection);
    if (server->options->at_limit != COIR_LIMIT_WAITS)
        return refuse(connection);
    set_timer(connection, server->options->idle_timeout);
    return await(
        connection, QUEUED,
        coir_semaphore_acquire_op((coir_wait_op *)(void *)&connection->turn, &server->turns, 1));
}

static coir_future *serve_what_has_come(struct ci_http_connection *connection)
{
    return ci_http_turn_take(connection) == 0 ? call(connection) : do_without_turn(connection);
}

static coir_future *got_turn(struct ci_http_connection *connection, int64_t result)
{
    connection->has_turn = result == 0;
    if (result == -EAGAIN) /* on_idle has ended the wait */
        return refuse(connection);
    return result < 0 ? finish(connection) : call(connection);
}

/* The wait for a request has ended. */
CI_INLINE coir_future *woken(struct ci_http_connection *connection)
{
    ci_check(connection->idle.next, "connection.h 2"); /* `out`, which was NULL, lies there */
    ci_list_remove(&connection->idle);
    if (ci_unlikely(connection->io.future.result < 0) && !looks_once_more(connection))
        return finish(connection);
    connection->out = NULL;
    connection->called = true;
    return serve_what_has_come(connection);
}

/* Requests were served, and the connection does not simply wait for the next one. */
static CI_NOINLINE coir_future *leave(struct ci_http_connection *connection)
{
    if (connection->call.future.result < 0) {
        ci_warn(ci_worker_current, "a connection is closed: no memory for a stack");
        return finish(connection);
    }
    if (connection->verdict == CI_HTTP_UPGRADE)
        return upgrade(connection);
    if (connection->verdict == CI_HTTP_LINGER && !connection->task->runnable.cancelled)
        return begin_lingering(connection);
    if (connection->out)
        drop_output(connection);
    return finish(connection);
}

/* Requests were served. */
CI_INLINE coir_future *served(struct ci_http_connection *connection)
{
    if (ci_unlikely(connection->call.future.result < 0 || connection->verdict != CI_HTTP_KEEP ||
                    connection->task->runnable.cancelled))
        return leave(connection);
    return connection->out ? begin_to_send(connection) : wait_for_request(connection);
}

static coir_future *begin(struct ci_http_connection *connection)
{
    if (connection->refused)
        return refuse(connection);
    begin_idle_time(connection);
    if (ci_http_turn_take(connection) == 0)
        return call(connection); /* often the first request has come by now */
    return wait_for_request(connection);
}

static coir_future *connection_poll(coir_future *future)
{
    struct ci_http_connection *connection =
        ci_container_of(future, struct ci_http_connection, future);
    enum state state = (enum state)future->state;
    if (ci_likely(state == WAITING))
        return woken(connection);
    if (ci_likely(state == CALLING))
        return served(connection);
    if (state == STARTING)
        return begin(connection);
    if (state == QUEUED)
        return got_turn(connection, connection->turn.future.result);
    return state == SENDING ? sent(connection, (int32_t)connection->io.future.result)
                            : discard(connection);
}

/* ---- rest ---- */

/* Memory is out. A completion that is in flight tries again. */
static void end_at_rest(struct ci_http_connection *connection)
{
    coir_scope *scope = connection->server->here.connections;
    if (!ci_io_end_at_rest(&connection->io))
        return;
    ci_warn(ci_worker_current, "a connection is closed: no memory for its task");
    ci_http_count_refused(connection->server, false);
    ci_list_remove(&connection->idle);
    release(connection);
    ci_task_end_at_rest(scope);
}

/* The connection has a task again, which waits as before. False: it is closed, or will be. */
static bool rouse(struct ci_http_connection *connection)
{
    if (connection->task)
        return true;
    ci_check(connection->future.state == WAITING, "connection.h 3");
    connection->task = ci_task_rouse(connection->server->here.connections, connection_kind.name,
                                     &connection->future, &connection->io.future);
    if (!connection->task) {
        end_at_rest(connection);
        return false;
    }
    ci_io_rouse(&connection->io, &connection->task->runnable);
    return true;
}

static void on_ready_at_rest(struct ci_op *io)
{
    struct ci_http_connection *connection = ci_container_of(io, struct ci_http_connection, io.io);
    if (rouse(connection))
        io->done(io);
}

/* Gives the task back, unless a request has come. */
static void rest(struct ci_http_connection *connection)
{
    const struct ci_http_server *server = connection->server;
    set_timer_at(connection, ci_http_idle_end(connection));
    if (connection->future.state != WAITING || server->draining ||
        !ci_task_may_rest(connection->task, &connection->io.future))
        return;
    ci_io_rest(&connection->io, on_ready_at_rest);
    ci_task_rest(connection->task);
    connection->task = NULL;
}

/* Ends the wait for a request, but not the connection. */
static void withdraw_wait(struct ci_http_connection *connection)
{
    ci_io_withdraw(&connection->io, &connection->task->runnable);
}

/* Ends the wait for a turn, but not the connection. */
static void withdraw_turn(struct ci_http_connection *connection)
{
    coir_future *turn = &connection->turn.future;
    struct ci_runnable *runnable = &connection->task->runnable;
    if (runnable->inner == turn && turn->kind->cancel(turn, -EAGAIN))
        ci_wake(worker_of(connection), runnable, turn);
}

/* The timer's callback: too long idle, or too long without a byte sent. It may be late for that: a
 * request in progress (CALLING) has limits of its own, and an operation that has completed is not
 * timed out. */
static void on_idle(struct ci_timer *timer)
{
    struct ci_http_connection *connection =
        ci_container_of(timer, struct ci_http_connection, timer);
    enum state state = (enum state)connection->future.state;
    if (connection->rests_next)
        rest(connection);
    else if (state == QUEUED)
        withdraw_turn(connection);
    else if (state == WAITING && connection->partial)
        withdraw_wait(connection);
    else if (state != CALLING && rouse(connection) &&
             ci_io_suspended(&connection->io, &connection->task->runnable))
        ci_runnable_cancel(&connection->task->runnable, -ETIME);
}

void ci_http_connection_drain(struct ci_http_connection *connection)
{
    ci_check(connection->future.state == WAITING, "connection.h 2");
    coir_time now = ci_worker_now(worker_of(connection)),
              idle = connection->server->options->idle_timeout;
    /* when the wait began: the timer's time tells, unless there is no idle timeout */
    coir_time begun = connection->rests_next ? ci_http_idle_begun(connection)
                      : idle == COIR_NEVER   ? now
                                             : connection->timer.when - idle;
    coir_time left = ci_time_left(ci_time_after(begun, first_request_time), now);
    if (connection->partial)
        return;
    connection->served_lately = connection->called && now < ci_time_after(begun, linger_silence);
    if (!rouse(connection))
        return;
    if (!connection->called && left > 0)
        set_timer(connection, left);
    else
        withdraw_wait(connection);
}

int ci_http_connection_start(struct ci_serving_here *here, coir_stream *stream)
{
    struct ci_http_server *server = ci_container_of(here, struct ci_http_server, here);
    struct ci_http_worker *http = server->http;
    bool beyond = ci_http_is_beyond(server);
    if (beyond && server->options->at_limit == COIR_LIMIT_CLOSES) {
        ci_http_count_refused(server, false);
        coir_close(stream);
        return 0;
    }
    struct ci_http_connection *connection = ci_pool_take(&http->connections);
    if (!connection)
        return -ENOMEM;
    connection->future = (coir_future){&connection_kind, NULL, 0, STARTING};
    connection->stream = stream;
    connection->server = server;
    connection->called = connection->served_lately = false;
    connection->served = true; /* so that wait_for_request starts the idle timeout */
    connection->partial = NULL;
    connection->has_turn = connection->rests_next = false;
    connection->refused = beyond;
    connection->out = NULL;
    ci_timer_init(&connection->timer, on_idle);
    int rc = ci_go_future(here->connections, connection_kind.name, &connection->future,
                          &connection->task);
    if (rc < 0) {
        ci_pool_give(&http->connections, connection);
        return rc;
    }
    server->refused += beyond;
    ci_bump(&http->accepted);
    ci_bump(&http->live);
    return 0;
}
