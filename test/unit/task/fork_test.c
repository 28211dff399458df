/* The one rule about fork() (sys/fork.h), kept by every function that the public headers
 * declare: the table below has them all, and the test reads the headers to see that none is
 * missing. */
#include <coir.h>
#include <coir/fastcgi.h>
#include <coir/filter.h>
#include <coir/sse.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_files.h"
#include "fork_loop.h"
#include "fork_topics.h"
#include "fork_trace.h"
#include "fork_websocket.h"
#include "harness.h"

/* ---- what the calls are made on: everything is alive, and used by tasks that wait ---- */

static struct {
    coir_runtime *runtime, *other;
    coir_scope *scope;
    coir_handle handle;
    coir_cancel_scope deadline;
    coir_channel *channel, *subscriber;
    coir_topic *topic;
    coir_latest *latest;
    coir_mutex mutex, free_mutex;
    coir_shared_mutex shared;
    coir_condition condition;
    coir_event event;
    coir_semaphore semaphore;
    coir_parker parker;
    coir_generator *generator;
    coir_stream *a, *b, *c, *d;
    coir_buffer *buffer;
    coir_write_queue *queue;
    coir_listener *listener;
    coir_udp *udp;
    coir_reader *reader;
    coir_file *file;
    coir_listing *listing;
    coir_signals *signals;
    coir_watcher *watcher;
    coir_process process;
    coir_loop *loop;
    coir_watch watch;
    coir_acceptor *acceptor;
    coir_socket *socket;
    coir_queued_write write;
    char byte;
    coir_timer timer;
    coir_hook hook;
    coir_timeout_set timeouts;
    coir_timeout timeout;
    coir_poller *poller;
    coir_source source;
    coir_router *router;
    coir_fastcgi *fastcgi;
    coir_set set;
    coir_branch branch;
    coir_group group;
    coir_future future;
    coir_completion completion;
    int pipe[2];
} o;

static char buf[256];
static uint64_t big[64];
static uint64_t item;
static struct iovec iov = {buf, 1};
static coir_address address;
static coir_datagram datagram = COIR_DATAGRAM;
static const coir_udp_options udp_options = {.size = sizeof(coir_udp_options),
                                             .address = "127.0.0.1:0"};
static char *piece;
static const char *const command[] = {"/bin/sleep", "1000", NULL};
static coir_case wait_case;

static int task(void *arg)
{
    (void)arg;
    return 0;
}

static void call(void *arg)
{
    (void)arg;
}

static void complete(int64_t result, void *arg)
{
    (void)arg, (void)result;
}

static int generate(coir_generator *generator, uint64_t first, void *arg)
{
    (void)arg;
    return coir_generator_yield(generator, first, NULL);
}

static int connection(coir_stream *stream, void *arg)
{
    (void)stream, (void)arg;
    return 0;
}

static int handler(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)res, (void)arg;
    return 0;
}

static int scenario(coir_sim *sim, void *arg)
{
    (void)sim, (void)arg;
    return 0;
}

static const coir_filter_kind filter = {sizeof filter, 0, 0, 0, 0, 0, 0, 0};
static coir_go_options go = COIR_GO_OPTIONS;
static coir_channel_options channel_options = {sizeof(coir_channel_options), 8, 1,
                                               COIR_OVERFLOW_WAIT,           0, 0};
static const coir_fastcgi_options fastcgi_options = {
    .size = sizeof(coir_fastcgi_options), .address = "127.0.0.1:1", .one_request = true};
static const coir_fastcgi_script script = {sizeof script, "a", "/a", NULL, NULL};
static coir_sim_options sim_options = COIR_SIM_OPTIONS;
static coir_poller_event poller_event;
static char *sim_arguments[] = {(char *)(uintptr_t) "sim", NULL};
static int usr1 = 10;
static void *ret;
#define RET(type) ((type **)(void *)&ret)
#define FREED ((void *)1) /* never looked at: a simulation cannot outlive its run */

/* R: is refused. V: returns nothing. P: computes, or looks at one object. Z: answers 0 or NULL.
 * ONE: an exit status. */
#define CALLS(R, V, P, Z, ONE)                                                                 \
    R(coir_go, coir_go(NULL, task, NULL))                                                      \
    R(coir_go_anywhere, coir_go_anywhere(o.scope, task, NULL))                                 \
    R(coir_go_on, coir_go_on(o.scope, 0, task, NULL))                                          \
    R(coir_go_on_no_worker, coir_go_on(o.scope, -1, task, NULL))                               \
    R(coir_go_with, coir_go_with(o.scope, &go, task, NULL))                                    \
    R(coir_go_future_with, coir_go_future_with(o.scope, &go, &o.future))                       \
    R(coir_go_future, coir_go_future(o.scope, &o.future))                                      \
    R(coir_completion_start,                                                                   \
      coir_completion_start(o.scope, &o.completion, &o.future, complete, NULL))                \
    R(coir_scope_wait, coir_scope_wait(o.scope))                                               \
    V(coir_scope_cancel, coir_scope_cancel(o.scope))                                           \
    V(coir_scope_close, coir_scope_close(o.scope))                                             \
    P(coir_scope_open, coir_scope_open(&(coir_scope){{0}}))                                    \
    P(coir_serving_scope_open, coir_serving_scope_open(&(coir_scope){{0}}))                    \
    P(coir_scope_live, coir_scope_live(o.scope))                                               \
    P(coir_scope_errors, coir_scope_errors(o.scope))                                           \
    R(coir_join, coir_join(&o.handle))                                                         \
    V(coir_cancel, coir_cancel(&o.handle))                                                     \
    P(coir_handle_has_ended, coir_handle_has_ended(&o.handle))                                 \
    V(coir_handle_done, coir_handle_done(&o.handle))                                           \
    R(coir_yield, coir_yield())                                                                \
    R(coir_sleep_for, coir_sleep_for(1))                                                       \
    R(coir_sleep_until, coir_sleep_until(1))                                                   \
    R(coir_await, coir_await(&o.future))                                                       \
    R(coir_offload, coir_offload(task, NULL))                                                  \
    TRACE_CALLS(R)                                                                             \
    R(coir_call_on, coir_call_on(0, task, NULL))                                               \
    R(coir_call_on_no_worker, coir_call_on(-1, task, NULL))                                    \
    R(coir_defer, coir_defer(call, NULL))                                                      \
    Z(coir_defer_disarm, coir_defer_disarm(call, NULL))                                        \
    R(coir_task_set_name, coir_task_set_name("name"))                                          \
    Z(coir_task_name, coir_task_name())                                                        \
    Z(coir_task_interrupted, coir_task_interrupted())                                          \
    R(coir_local_set, coir_local_set(&item, &item))                                            \
    Z(coir_local_get, coir_local_get(&item))                                                   \
    V(coir_deadline_enter, coir_deadline_enter(&(coir_cancel_scope){{0}}, 1))                  \
    V(coir_shield_enter, coir_shield_enter(&(coir_cancel_scope){{0}}))                         \
    V(coir_deadline_move, coir_deadline_move(&o.deadline, 1))                                  \
    V(coir_cancel_scope_leave, coir_cancel_scope_leave(&o.deadline))                           \
    P(coir_task_deadline, coir_task_deadline())                                                \
    P(coir_deadline_passed, coir_deadline_passed(&o.deadline))                                 \
    P(coir_now, coir_now())                                                                    \
    P(coir_in, coir_in(1))                                                                     \
    P(coir_strerror, coir_strerror(1))                                                         \
    P(coir_version, coir_version())                                                            \
    R(coir_any, coir_any(&o.branch, 1))                                                        \
    R(coir_any_in_order, coir_any_in_order(&o.branch, 1))                                      \
    R(coir_join_all, coir_join_all(&o.branch, 1, 1))                                           \
    R(coir_join_or_cancel, coir_join_or_cancel(&o.branch, 1, 1))                               \
    P(coir_call_init, coir_call_init(&(coir_call){0}, task, NULL))                             \
    P(coir_branch_is_complete, coir_branch_is_complete(&o.branch))                             \
    R(coir_select, coir_select(&wait_case, 1))                                                 \
    R(coir_select_in_order, coir_select_in_order(&wait_case, 1))                               \
    V(coir_set_init, coir_set_init(&(coir_set){0}))                                            \
    R(coir_set_add, coir_set_add(&o.set, &o.branch))                                           \
    R(coir_set_next, coir_set_next(&o.set, RET(coir_branch)))                                  \
    V(coir_set_cancel, coir_set_cancel(&o.set))                                                \
    V(coir_set_done, coir_set_done(&o.set))                                                    \
    P(coir_set_live, coir_set_live(&o.set))                                                    \
    R(coir_parker_wait, coir_parker_wait(&o.parker))                                           \
    R(coir_parker_init, coir_parker_init(&(coir_parker){0}))                                   \
    V(coir_parker_done, coir_parker_done(&o.parker))                                           \
    V(coir_parker_waker, coir_waker_wake(coir_parker_waker(&o.parker)))                        \
    R(coir_generator_new, coir_generator_new(generate, NULL, RET(coir_generator)))             \
    R(coir_generator_next, coir_generator_next(o.generator, 1, &item))                         \
    R(coir_generator_yield, coir_generator_yield(o.generator, 1, &item))                       \
    V(coir_generator_free, coir_generator_free(o.generator))                                   \
    R(coir_runtime_new, coir_runtime_new(NULL, RET(coir_runtime)))                             \
    R(coir_runtime_run, coir_runtime_run(o.other, task, NULL))                                 \
    R(coir_runtime_begin, coir_runtime_begin(o.other, task, NULL))                             \
    R(coir_runtime_end, coir_runtime_end(o.other))                                             \
    R(coir_runtime_fd, coir_runtime_fd(o.other))                                               \
    Z(coir_runtime_step, coir_runtime_step(o.other))                                           \
    Z(coir_runtime_next, coir_runtime_next(o.other))                                           \
    V(coir_runtime_stop, coir_runtime_stop(o.runtime))                                         \
    V(coir_runtime_hold, coir_runtime_hold(o.runtime))                                         \
    V(coir_runtime_release, coir_runtime_release(o.runtime))                                   \
    V(coir_runtime_free, coir_runtime_free(o.runtime))                                         \
    V(coir_counters_get, coir_counters_get(o.runtime, &(coir_counters){0}))                    \
    V(coir_log, coir_log(COIR_LOG_ERROR, "from the child"))                                    \
    R(coir_filter_new, coir_filter_new(&filter, NULL, o.b, RET(coir_stream)))                  \
    P(coir_filter_arg, coir_filter_arg(o.b, &filter))                                          \
    Z(coir_runtime_current, coir_runtime_current())                                            \
    P(coir_worker_count, coir_worker_count(o.runtime))                                         \
    P(coir_worker_index, coir_worker_index())                                                  \
    R(coir_runtime_post, coir_runtime_post(o.runtime, 0, call, NULL))                          \
    R(coir_block_on, coir_block_on(o.runtime, &o.future))                                      \
    ONE(coir_main, coir_main(task, NULL))                                                      \
    R(coir_channel_new, coir_channel_new(8, 1, RET(coir_channel)))                             \
    R(coir_channel_new_with, coir_channel_new_with(&channel_options, RET(coir_channel)))       \
    V(coir_channel_free, coir_channel_free(o.channel))                                         \
    R(coir_channel_send, coir_channel_send(o.channel, &item))                                  \
    R(coir_channel_recv, coir_channel_recv(o.channel, &item))                                  \
    R(coir_channel_recv_many, coir_channel_recv_many(o.channel, &item, 1))                     \
    R(coir_channel_try_send, coir_channel_try_send(o.channel, &item))                          \
    R(coir_channel_try_recv, coir_channel_try_recv(o.channel, &item))                          \
    V(coir_channel_close, coir_channel_close(o.channel))                                       \
    P(coir_channel_count, coir_channel_count(o.channel))                                       \
    P(coir_channel_is_closed, coir_channel_is_closed(o.channel))                               \
    P(coir_channel_lost, (long)coir_channel_lost(o.channel))                                   \
    R(coir_latest_new, coir_latest_new(8, &item, RET(coir_latest)))                            \
    V(coir_latest_free, coir_latest_free(o.latest))                                            \
    V(coir_latest_set, coir_latest_set(o.latest, &item))                                       \
    P(coir_latest_get, coir_latest_get(o.latest, &item))                                       \
    R(coir_latest_wait, coir_latest_wait(o.latest, 0))                                         \
    V(coir_latest_close, coir_latest_close(o.latest))                                          \
    R(coir_mutex_lock, coir_mutex_lock(&o.free_mutex))                                         \
    R(coir_mutex_try_lock, coir_mutex_try_lock(&o.free_mutex))                                 \
    V(coir_mutex_unlock, coir_mutex_unlock(&o.mutex))                                          \
    R(coir_mutex_set_name, coir_mutex_set_name(&o.mutex, "name"))                              \
    R(coir_shared_mutex_lock, coir_shared_mutex_lock(&o.shared))                               \
    R(coir_shared_mutex_share, coir_shared_mutex_share(&o.shared))                             \
    R(coir_shared_mutex_try_lock, coir_shared_mutex_try_lock(&o.shared))                       \
    R(coir_shared_mutex_try_share, coir_shared_mutex_try_share(&o.shared))                     \
    V(coir_shared_mutex_unlock, coir_shared_mutex_unlock(&o.shared))                           \
    R(coir_shared_mutex_set_name, coir_shared_mutex_set_name(&o.shared, "name"))               \
    R(coir_condition_wait, coir_condition_wait(&o.condition, &o.mutex))                        \
    V(coir_condition_signal, coir_condition_signal(&o.condition))                              \
    V(coir_condition_broadcast, coir_condition_broadcast(&o.condition))                        \
    R(coir_event_wait, coir_event_wait(&o.event))                                              \
    V(coir_event_set, coir_event_set(&o.event))                                                \
    V(coir_event_reset, coir_event_reset(&o.event))                                            \
    P(coir_event_is_set, coir_event_is_set(&o.event))                                          \
    R(coir_semaphore_acquire, coir_semaphore_acquire(&o.semaphore, 1))                         \
    R(coir_semaphore_try_acquire, coir_semaphore_try_acquire(&o.semaphore, 1))                 \
    R(coir_semaphore_release, coir_semaphore_release(&o.semaphore, 1))                         \
    P(coir_semaphore_units, coir_semaphore_units(&o.semaphore))                                \
    R(coir_semaphore_set_name, coir_semaphore_set_name(&o.semaphore, "name"))                  \
    R(coir_duplex, coir_duplex(64, RET(coir_stream), RET(coir_stream)))                        \
    R(coir_read, coir_read(o.b, buf, 1))                                                       \
    R(coir_readv, coir_readv(o.b, &iov, 1))                                                    \
    R(coir_read_full, coir_read_full(o.b, buf, 1, NULL))                                       \
    R(coir_read_full_nothing, coir_read_full(o.b, buf, 0, NULL))                               \
    R(coir_write, coir_write(o.b, buf, 1))                                                     \
    R(coir_writev, coir_writev(o.b, &iov, 1))                                                  \
    R(coir_write_all, coir_write_all(o.b, buf, 1))                                             \
    R(coir_write_all_nothing, coir_write_all(o.b, buf, 0))                                     \
    R(coir_writev_all, coir_writev_all(o.b, &iov, 1))                                          \
    R(coir_writev_all_nothing, coir_writev_all(o.b, &iov, 0))                                  \
    R(coir_try_read, coir_try_read(o.b, buf, 1))                                               \
    R(coir_try_write, coir_try_write(o.b, buf, 1))                                             \
    R(coir_stream_wait, coir_stream_wait(o.b, COIR_READ))                                      \
    R(coir_stream_detach, coir_stream_detach(o.b))                                             \
    R(coir_stream_local, coir_stream_local(o.b, buf, sizeof buf))                              \
    R(coir_stream_peer, coir_stream_peer(o.b, buf, sizeof buf))                                \
    R(coir_shutdown_write, coir_shutdown_write(o.b))                                           \
    R(coir_buffer_new, coir_buffer_new(buf, 1, RET(coir_buffer)))                              \
    R(coir_buffer_wrap, coir_buffer_wrap(buf, 1, NULL, NULL, RET(coir_buffer)))                \
    P(coir_buffer_ref, coir_buffer_ref(o.buffer) == o.buffer)                                  \
    V(coir_buffer_unref, coir_buffer_unref(o.buffer))                                          \
    P(coir_buffer_data, coir_buffer_data(o.buffer) != NULL)                                    \
    P(coir_buffer_len, coir_buffer_len(o.buffer))                                              \
    R(coir_write_queue_new, coir_write_queue_new(o.b, RET(coir_write_queue)))                  \
    R(coir_write_queue_new_with, coir_write_queue_new_with(o.b, NULL, RET(coir_write_queue)))  \
    V(coir_write_queue_free, coir_write_queue_free(o.queue))                                   \
    R(coir_write_queue_push, coir_write_queue_push(o.queue, o.buffer))                         \
    R(coir_write_queue_try_push, coir_write_queue_try_push(o.queue, o.buffer))                 \
    R(coir_write_queue_flush, coir_write_queue_flush(o.queue))                                 \
    R(coir_write_queue_stats_get,                                                              \
      coir_write_queue_stats_get(o.queue, &(coir_write_queue_stats)COIR_WRITE_QUEUE_STATS))    \
    V(coir_close, coir_close(o.a))                                                             \
    R(coir_fd_read, coir_fd_read(o.pipe[0], buf, 1))                                           \
    R(coir_fd_write, coir_fd_write(o.pipe[1], buf, 1))                                         \
    R(coir_fd_wait, coir_fd_wait(o.pipe[0], COIR_READ))                                        \
    R(coir_tcp_listen_with, coir_tcp_listen_with("127.0.0.1:0", NULL, RET(coir_listener)))     \
    R(coir_tcp_listen, coir_tcp_listen("127.0.0.1:0", RET(coir_listener)))                     \
    R(coir_tcp_connect, coir_tcp_connect("127.0.0.1:1", RET(coir_stream)))                     \
    R(coir_tcp_get_option, coir_tcp_get_option(o.b, COIR_TCP_NODELAY))                         \
    R(coir_tcp_info_get, coir_tcp_info_get(o.b, &(coir_tcp_info)COIR_TCP_INFO))                \
    R(coir_stream_copy, coir_stream_copy(o.a, o.b, 1, NULL))                                   \
    R(coir_file_copy_to, coir_file_copy_to(o.file, 0, 1, o.a, NULL))                           \
    R(coir_file_copy_from, coir_file_copy_from(o.file, 0, 1, o.b, NULL))                       \
    R(coir_tcp_connect_with, coir_tcp_connect_with("127.0.0.1:1", NULL, RET(coir_stream)))     \
    R(coir_peek, coir_peek(o.b, buf, 1))                                                       \
    R(coir_stream_adopt, coir_stream_adopt(o.pipe[0], RET(coir_stream)))                       \
    R(coir_stream_release, coir_stream_release(o.b, buf, 1, (size_t *)(void *)&item, o.pipe))  \
    R(coir_stream_set_timeout, coir_stream_set_timeout(o.b, COIR_READ, COIR_S, 0))             \
    R(coir_tcp_set_option, coir_tcp_set_option(o.b, COIR_TCP_NODELAY, 1))                      \
    R(coir_accept, coir_accept(o.listener, RET(coir_stream)))                                  \
    R(coir_listener_local, coir_listener_local(o.listener, buf, sizeof buf))                   \
    R(coir_listener_pause, coir_listener_pause(o.listener))                                    \
    R(coir_listener_resume, coir_listener_resume(o.listener))                                  \
    R(coir_listener_share, coir_listener_share(o.listener))                                    \
    V(coir_listener_close, coir_listener_close(o.listener))                                    \
    R(coir_serve_tcp_with_listener, coir_serve_tcp_with(TCP_ON(o.listener), connection, NULL)) \
    R(coir_serve_tcp, coir_serve_tcp("127.0.0.1:0", connection, NULL))                         \
    R(coir_serve_tcp_with,                                                                     \
      coir_serve_tcp_with(&(coir_serve_tcp_options){.size = sizeof(coir_serve_tcp_options),    \
                                                    .address = "127.0.0.1:0"},                 \
                          connection, NULL))                                                   \
    R(coir_resolve, coir_resolve("127.0.0.1:1", &address, 1))                                  \
    R(coir_resolve_with, coir_resolve_with("127.0.0.1:1", NULL, &address, 1))                  \
    P(coir_address_parse, coir_address_parse("127.0.0.1:1", &address))                         \
    P(coir_address_format, coir_address_format(&address, buf, sizeof buf))                     \
    R(coir_unix_send_fds, coir_unix_send_fds(o.b, buf, 1, NULL, 0))                            \
    R(coir_unix_recv_fds, coir_unix_recv_fds(o.b, buf, 1, o.pipe, 2, (size_t *)(void *)&item)) \
    R(coir_unix_peer, coir_unix_peer(o.b, &(coir_credentials)COIR_CREDENTIALS))                \
    R(coir_reader_new, coir_reader_new(o.b, 0, RET(coir_reader)))                              \
    R(coir_reader_new_file, coir_reader_new_file(o.file, 0, 0, RET(coir_reader)))              \
    R(coir_reader_read_line, coir_reader_read_line(o.reader, &piece, NULL))                    \
    R(coir_reader_read_until, coir_reader_read_until(o.reader, "x", &piece, NULL))             \
    R(coir_reader_read, coir_reader_read(o.reader, buf, 1))                                    \
    V(coir_reader_free, coir_reader_free(o.reader))                                            \
    R(coir_udp_open, coir_udp_open("127.0.0.1:0", NULL, RET(coir_udp)))                        \
    R(coir_udp_send, coir_udp_send(o.udp, buf, 1))                                             \
    R(coir_udp_send_to, coir_udp_send_to(o.udp, buf, 1, &address))                             \
    R(coir_udp_recv, coir_udp_recv(o.udp, buf, 1, NULL))                                       \
    R(coir_udp_local, coir_udp_local(o.udp, buf, sizeof buf))                                  \
    R(coir_udp_open_with, coir_udp_open_with(&udp_options, RET(coir_udp)))                     \
    R(coir_udp_send_many, coir_udp_send_many(o.udp, &datagram, 1))                             \
    R(coir_udp_recv_many, coir_udp_recv_many(o.udp, &datagram, 1))                             \
    R(coir_udp_join, coir_udp_join(o.udp, &address, NULL))                                     \
    R(coir_udp_leave, coir_udp_leave(o.udp, &address, NULL))                                   \
    V(coir_udp_close, coir_udp_close(o.udp))                                                   \
    FILE_CALLS(R, P, V)                                                                        \
    R(coir_signals_open, coir_signals_open(&usr1, 1, RET(coir_signals)))                       \
    R(coir_signals_wait, coir_signals_wait(o.signals))                                         \
    V(coir_signals_close, coir_signals_close(o.signals))                                       \
    R(coir_process_spawn, coir_process_spawn(&(coir_process){{0}}, command))                   \
    R(coir_process_spawn_with, coir_process_spawn_with(&(coir_process){{0}}, command, NULL))   \
    R(coir_process_wait, coir_process_wait(&o.process))                                        \
    R(coir_process_signal, coir_process_signal(&o.process, SIGKILL))                           \
    R(coir_process_kill, coir_process_kill(&o.process))                                        \
    P(coir_process_pid, coir_process_pid(&o.process))                                          \
    P(coir_process_stdin, coir_process_stdin(&o.process))                                      \
    P(coir_process_stdout, coir_process_stdout(&o.process))                                    \
    P(coir_process_stderr, coir_process_stderr(&o.process))                                    \
    V(coir_process_close, coir_process_close(&o.process))                                      \
    LOOP_CALLS(R, V, P)                                                                        \
    R(coir_router_new_with, coir_router_new_with(NULL, RET(coir_router)))                      \
    R(coir_router_new, coir_router_new(RET(coir_router)))                                      \
    R(coir_route, coir_route(o.router, "GET", "/a", handler, NULL))                            \
    R(coir_fastcgi_new, coir_fastcgi_new("127.0.0.1:1", RET(coir_fastcgi)))                    \
    R(coir_fastcgi_new_with, coir_fastcgi_new_with(&fastcgi_options, RET(coir_fastcgi)))       \
    R(coir_route_fastcgi, coir_route_fastcgi(o.router, "/{a...}", o.fastcgi, "/"))             \
    V(coir_fastcgi_free, coir_fastcgi_free(o.fastcgi))                                         \
    V(coir_router_free, coir_router_free(o.router))                                            \
    TOPIC_CALLS(R, V, P)                                                                       \
    WEBSOCKET_CALLS(R)                                                                         \
    R(coir_serve_http, coir_serve_http("127.0.0.1:0", o.router))                               \
    R(coir_serve_http_with, coir_serve_http_with(HTTP_ON(o.listener), o.router))               \
    V(coir_http_counters_get, coir_http_counters_get(&(coir_http_counters){0}))                \
    R(coir_sim_run, coir_sim_run(&sim_options, scenario, NULL, NULL))                          \
    ONE(coir_sim_main, coir_sim_main(1, sim_arguments, scenario, NULL))                        \
    Z(coir_sim_host, coir_sim_host(FREED, "host", task, NULL))                                 \
    R(coir_sim_host_main, coir_sim_host_main(FREED, "host", task, NULL))                       \
    R(coir_sim_configure, coir_sim_configure(FREED, &(coir_config)COIR_CONFIG))                \
    R(coir_sim_set_name, coir_sim_set_name(FREED, "name", &(coir_name_answer){0}))             \
    V(coir_sim_set_link, coir_sim_set_link(FREED, FREED, FREED, &(coir_link){0}))              \
    V(coir_sim_set_faults, coir_sim_set_faults(FREED, FREED, &(coir_faults){0}))               \
    V(coir_sim_link, coir_sim_link(FREED, FREED, FREED, (coir_link){0}))                       \
    V(coir_sim_faults, coir_sim_faults(FREED, FREED, (coir_faults){0}))                        \
    V(coir_sim_crash, coir_sim_crash(FREED, FREED))                                            \
    V(coir_sim_stop, coir_sim_stop(FREED, FREED))

/* What has no meaning without a request (see the handler below), a WebSocket
 * (test/unit/web/ws_test.c) or a simulation that runs. */
static const char *const inside_only[] = {"coir_sim_random", "coir_host_is_down",
                                          NAMES_OF_A_HANDLER, WEBSOCKET_NAMES};

/* ---- the table ---- */

#define VALUE_(name, ...)           \
    static long call_##name(void)   \
    {                               \
        return (long)(__VA_ARGS__); \
    }
#define NOTHING_(name, ...)       \
    static long call_##name(void) \
    {                             \
        __VA_ARGS__;              \
        return 0;                 \
    }
CALLS(VALUE_, NOTHING_, VALUE_, VALUE_, VALUE_)

enum answer { REFUSED, NOTHING, COMPUTED, ZERO, STATUS };
#define R_(name, ...) {#name, call_##name, REFUSED},
#define V_(name, ...) {#name, call_##name, NOTHING},
#define P_(name, ...) {#name, call_##name, COMPUTED},
#define Z_(name, ...) {#name, call_##name, ZERO},
#define ONE_(name, ...) {#name, call_##name, STATUS},
static const struct {
    const char *name;
    long (*call)(void);
    enum answer answer;
} calls[] = {CALLS(R_, V_, P_, Z_, ONE_)};

static bool right(enum answer answer, long got)
{
    switch (answer) {
    case REFUSED: return got == -COIR_EFORKED;
    case ZERO: return got == 0;
    case STATUS: return got == 1;
    default: return true;
    }
}

static int answer_of(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Each call in a child of its own. Only what the first few bytes of the log say is printed for a
 * wrong answer. */
static void call_all_in_children(void)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            alarm(5);
            if (calls[i].answer == STATUS)
                close(STDERR_FILENO);
            long got = calls[i].call();
            if (!right(calls[i].answer, got))
                fprintf(stderr, "  %s answers %ld\n", calls[i].name, got);
            _exit(!right(calls[i].answer, got));
        }
        int rc = answer_of(child);
        if (rc)
            fprintf(stderr, "  %s: %s %d\n", calls[i].name, rc < 0 ? "signal" : "status",
                    rc < 0 ? -rc : rc);
        wrong += rc != 0;
    }
    CHECK_EQ(wrong, 0);
}

static int wait_on(void *arg)
{
    switch ((intptr_t)arg) {
    case 0: return coir_event_wait(&o.event);
    case 1: return coir_mutex_lock(&o.mutex);
    case 2: return coir_channel_recv(o.channel, &item) == -EPIPE ? 0 : -EINVAL;
    case 3: return coir_latest_wait(o.latest, 1) < 0 ? 0 : -EINVAL;
    case 4: return coir_read(o.a, buf, 1) == 1 ? 0 : -EINVAL;
    default: return coir_sleep_until(COIR_NEVER) == -ECANCELED ? 0 : -EINVAL;
    }
}

enum { WAITING_TASKS = 5 };

static void make_all(void)
{
    char where[64];
    o.runtime = coir_runtime_current();
    CHECK_EQ(coir_runtime_new(NULL, &o.other), 0);
    o.mutex = o.free_mutex = (coir_mutex)COIR_MUTEX_INIT;
    o.shared = (coir_shared_mutex)COIR_SHARED_MUTEX_INIT;
    o.condition = (coir_condition)COIR_CONDITION_INIT;
    o.event = (coir_event)COIR_EVENT_INIT;
    o.semaphore = (coir_semaphore)COIR_SEMAPHORE_INIT(3);
    CHECK_EQ(coir_mutex_lock(&o.mutex), 0);
    CHECK_EQ(coir_channel_new(8, 1, &o.channel), 0);
    CHECK_EQ(coir_topic_new(8, &o.topic), 0);
    CHECK_EQ(coir_subscribe(o.topic, 1, COIR_OVERFLOW_WAIT, &o.subscriber), 0);
    make_tree();
    CHECK_EQ(coir_latest_new(8, &item, &o.latest), 0);
    CHECK_EQ(coir_parker_init(&o.parker), 0);
    CHECK_EQ(coir_generator_new(generate, NULL, &o.generator), 0);
    CHECK_EQ(coir_generator_next(o.generator, 1, &item), 1);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &o.listener), 0);
    CHECK(coir_listener_local(o.listener, where, sizeof where) > 0);
    CHECK_EQ(coir_tcp_connect(where, &o.a), 0);
    CHECK_EQ(coir_accept(o.listener, &o.b), 0);
    CHECK_EQ(coir_reader_new(o.b, 0, &o.reader), 0);
    CHECK_EQ(coir_duplex(1, &o.c, &o.d), 0);
    CHECK_EQ(coir_buffer_new("abc", 3, &o.buffer), 0);
    CHECK_EQ(coir_write_queue_new(o.c, &o.queue), 0);
    CHECK_EQ(coir_write_queue_try_push(o.queue, o.buffer), 0); /* it is never written whole */
    CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &o.udp), 0);
    CHECK_EQ(coir_file_open("/dev/null", O_RDWR, 0, &o.file), 0);
    CHECK_EQ(coir_listing_open(NULL, "/", &o.listing), 0);
    CHECK_EQ(coir_signals_open(&usr1, 1, &o.signals), 0);
    CHECK_EQ(coir_watcher_open(&o.watcher), 0);
    CHECK_EQ(coir_watcher_add(o.watcher, "/dev/null", COIR_CHANGE_ATTRIBUTES), 1);
    make_terminal();
    CHECK_EQ(coir_process_spawn(&o.process, command), 0);
    CHECK_EQ(pipe(o.pipe), 0);
    CHECK_EQ(coir_loop_new(&o.loop), 0);
    CHECK_EQ(coir_watch_start(o.loop, &o.watch, o.pipe[0], COIR_READ, on_watch, NULL), 0);
    coir_timer_start(o.loop, &o.timer, COIR_S, on_timer, NULL);
    CHECK_EQ(coir_acceptor_open(o.loop, "127.0.0.1:0", on_acceptor, NULL, &o.acceptor), 0);
    CHECK(coir_acceptor_local(o.acceptor, where, sizeof where) > 0);
    CHECK_EQ(coir_socket_connect(o.loop, where, on_socket, NULL, &o.socket), 0);
    coir_hook_start(o.loop, &o.hook, COIR_HOOK_BEFORE_WAIT, on_hook, NULL);
    CHECK_EQ(coir_timeout_set_init(&o.timeouts, o.loop, COIR_S, on_passed), 0);
    coir_timeout_start(&o.timeouts, &o.timeout, NULL);
    CHECK_EQ(coir_poller_new(&o.poller), 0);
    CHECK_EQ(coir_poller_add(o.poller, o.pipe[0], 1, COIR_READ), 0);
    CHECK_EQ(coir_source_add(&o.source, o.poller, 2), 0);
    CHECK_EQ(coir_router_new(&o.router), 0);
    CHECK_EQ(coir_fastcgi_new_with(&fastcgi_options, &o.fastcgi), 0);
    coir_set_init(&o.set);
    coir_defer(call, NULL);
    wait_case = coir_case_event(&o.event);
    coir_yield_op(&o.future);
    coir_any_op(&o.group, &o.branch, 1);
}

static void free_all(void)
{
    coir_source_remove(&o.source);
    coir_poller_free(o.poller);
    coir_watch_stop(o.loop, &o.watch);
    coir_timer_stop(o.loop, &o.timer);
    coir_hook_stop(o.loop, &o.hook);
    coir_timeout_set_done(&o.timeouts);
    coir_socket_close(o.socket);
    coir_acceptor_close(o.acceptor);
    coir_loop_free(o.loop);
    coir_router_free(o.router);
    coir_fastcgi_free(o.fastcgi);
    CHECK_EQ(coir_process_signal(&o.process, SIGUSR1), 0); /* it is still there */
    CHECK_EQ(coir_process_wait(&o.process), COIR_PROCESS_KILLED + SIGUSR1);
    coir_process_close(&o.process);
    coir_signals_close(o.signals);
    coir_file_close(o.file);
    coir_listing_close(o.listing);
    CHECK_EQ(coir_watcher_remove(o.watcher, 1), 0); /* no child has removed it */
    coir_watcher_close(o.watcher);
    free_terminal();
    coir_reader_free(o.reader);
    coir_write_queue_free(o.queue);
    coir_buffer_unref(o.buffer);
    coir_close(o.c);
    coir_close(o.d);
    coir_udp_close(o.udp);
    coir_close(o.a);
    coir_close(o.b);
    coir_listener_close(o.listener);
    coir_generator_free(o.generator);
    coir_parker_done(&o.parker);
    coir_channel_free(o.subscriber);
    coir_topic_free(o.topic);
    coir_topic_tree_free(forked_tree);
    coir_latest_free(o.latest);
    coir_channel_free(o.channel);
    coir_runtime_free(o.other);
    coir_defer_disarm(call, NULL);
    close(o.pipe[0]);
    close(o.pipe[1]);
}

/* After all that the children did, everything of the parent's still works: its waiters are woken
 * by the parent, and by nothing before. */
static void fork_and_call(void)
{
    make_all();
    {
        COIR_SCOPE(scope);
        o.scope = scope;
        for (intptr_t i = 0; i < WAITING_TASKS; i++)
            CHECK_EQ(coir_go(scope, wait_on, (void *)i), 0);
        go.handle = &o.handle;
        CHECK_EQ(coir_go_with(scope, &go, wait_on, (void *)WAITING_TASKS), 0);
        coir_deadline_enter(&o.deadline, COIR_NEVER);
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
        call_all_in_children();
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
        CHECK_EQ(coir_scope_live(scope), WAITING_TASKS + 1);
        coir_event_set(&o.event);
        coir_mutex_unlock(&o.mutex);
        coir_channel_close(o.channel);
        coir_latest_close(o.latest);
        CHECK_EQ(coir_write_all(o.b, "x", 1), 0);
        coir_cancel(&o.handle);
        CHECK_EQ(coir_poller_wait(o.poller, &poller_event, 1, 0), 0);
        CHECK_EQ(write(o.pipe[1], "x", 1), 1);
        CHECK_EQ(coir_poller_wait(o.poller, &poller_event, 1, 0), 1); /* it is registered */
        coir_cancel_scope_leave(&o.deadline);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    free_all();
}

TEST(a_child_may_only_exec_or_exit)
{
    test_in_runtime(fork_and_call, 1);
}

/* ---- none is missing ---- */

static bool listed(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < sizeof inside_only / sizeof *inside_only; i++)
        if (strcmp(inside_only[i], name) == 0)
            return true;
    /* makers of futures and cases: awaiting one is refused */
    return strncmp(name, "coir_case_", 10) == 0 || (len > 3 && strcmp(name + len - 3, "_op") == 0);
}

/* The name that a line declares, or NULL. */
static char *declared(char *line)
{
    if (strncmp(line, "COIR_API ", 9) != 0 && strncmp(line, "COIR_SUSPENDS ", 14) != 0)
        return NULL;
    char *end = strchr(line, '('), *name = end;
    while (name && name > line && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
        name--;
    if (end)
        *end = '\0';
    return name;
}

TEST(every_public_function_is_in_the_table)
{
    glob_t headers;
    int missing = 0, seen = 0;
    CHECK_EQ(glob(COIR_HEADERS "/*.h", 0, NULL, &headers), 0);
    for (size_t i = 0; i < headers.gl_pathc; i++) {
        char line[1000], *name;
        if (strstr(headers.gl_pathv[i], "/tls.h"))
            continue; /* of another library: test/unit/tls/fork_test.c */
        FILE *file = fopen(headers.gl_pathv[i], "re");
        CHECK(file);
        while (fgets(line, sizeof line, file)) {
            if (!(name = declared(line)))
                continue;
            seen++;
            if (!listed(name))
                missing++, fprintf(stderr, "  %s: what does %s do in a child after fork()?\n",
                                   headers.gl_pathv[i], name);
        }
        fclose(file);
    }
    globfree(&headers);
    CHECK(seen > 200);
    CHECK_EQ(missing, 0);
}

/* ---- where coir is not in use, fork() is nothing special ---- */

static int run_in_child(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(coir_block_on(NULL, coir_call_init(&(coir_call){0}, task, NULL)) != 0);
    return answer_of(child);
}

TEST(a_child_of_a_parent_without_a_runtime_may_have_one)
{
    coir_runtime *runtime;
    coir_loop *loop;
    coir_poller *poller;
    CHECK_EQ(run_in_child(), 0);
    CHECK_EQ(coir_runtime_new(NULL, &runtime), 0);
    CHECK_EQ(run_in_child(), 1);
    CHECK_EQ(coir_runtime_run(runtime, task, NULL), 0);
    CHECK_EQ(run_in_child(), 1); /* it lives: the child shares its descriptors */
    coir_runtime_free(runtime);
    CHECK_EQ(run_in_child(), 0);
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(run_in_child(), 1);
    coir_loop_free(loop);
    CHECK_EQ(coir_poller_new(&poller), 0);
    CHECK_EQ(run_in_child(), 1);
    coir_poller_free(poller);
    CHECK_EQ(run_in_child(), 0);
}

/* A child whose function returns ends, with what it has opened around it. */
static void leave_in_child(void)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, wait_on, (void *)WAITING_TASKS), 0);
    CHECK_EQ(coir_yield(), 0);
    pid_t child = fork();
    if (child == 0)
        return;
    CHECK_EQ(answer_of(child), 0);
    coir_scope_cancel(scope);
}

TEST(a_child_that_returns_from_its_task_exits)
{
    test_in_runtime(leave_in_child, 1);
}

/* ---- a handler of a server ---- */

static int fork_in_handler(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    pid_t child = fork();
    if (child == 0) {
        alarm(5);
        CHECK_EQ(coir_respond_text(res, 200, "from the child of %s", coir_request_path(req)),
                 -COIR_EFORKED);
        CHECK_EQ(coir_respond(res, 200, "text/plain", "from the child", 14), -COIR_EFORKED);
        CHECK_EQ(coir_response_add_header(res, "X-From", "the child"), -COIR_EFORKED);
        CHECK_EQ(coir_response_begin(res, 200, "text/plain", 14), -COIR_EFORKED);
        CHECK_EQ(coir_response_write(res, "from the child", 14), -COIR_EFORKED);
        CHECK_EQ(coir_response_flush(res), -COIR_EFORKED);
        CHECK_EQ(coir_sse_begin(req, res), -COIR_EFORKED);
        CHECK_EQ(coir_sse_comment(res, "a"), -COIR_EFORKED);
        CHECK_EQ(coir_sse_send_text(res, "a"), -COIR_EFORKED);
        CHECK_EQ(coir_sse_send(res, &(coir_sse_event)COIR_SSE_EVENT), -COIR_EFORKED);
        CHECK_EQ(coir_fastcgi_pass(o.fastcgi, req, res, &script), -COIR_EFORKED);
        const char *body;
        CHECK_EQ(coir_request_read(req, buf, sizeof buf), -COIR_EFORKED);
        CHECK_EQ(coir_request_body(req, sizeof buf, &body), -COIR_EFORKED);
        coir_ws *ws;
        CHECK_EQ(coir_ws_accept(req, res, &ws), -COIR_EFORKED);
        CHECK_EQ(coir_ws_accept_with(req, res, NULL, &ws), -COIR_EFORKED);
        CHECK_EQ(coir_ws_handle_with(req, res, NULL, NULL, NULL, &ws), -COIR_EFORKED);
        return 0;
    }
    return coir_respond_text(res, 200, "the child exits with %d", answer_of(child));
}

static int serve(void *arg)
{
    return coir_serve_http_with(HTTP_ON(o.listener), arg);
}

static void serve_and_fork(void)
{
    static const char request[] = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    char where[64], answer[500] = "";
    size_t len = 0;
    coir_stream *stream;
    CHECK_EQ(coir_router_new(&o.router), 0);
    CHECK_EQ(coir_route(o.router, "GET", "/a", fork_in_handler, NULL), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &o.listener), 0);
    CHECK(coir_listener_local(o.listener, where, sizeof where) > 0);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve, o.router), 0);
        CHECK_EQ(coir_tcp_connect(where, &stream), 0);
        CHECK_EQ(coir_write_all(stream, request, sizeof request - 1), 0);
        CHECK_EQ(coir_read_full(stream, answer, sizeof answer - 1, &len), -COIR_EEND);
        CHECK(strstr(answer, "the child exits with 0") && !strstr(answer, "from the child"));
        coir_close(stream);
        coir_scope_cancel(scope);
    }
    coir_listener_close(o.listener);
    coir_router_free(o.router);
}

TEST(a_child_of_a_handler_sends_nothing_and_exits)
{
    test_in_runtime(serve_and_fork, 1);
}
