/* What test/unit/task/fork_test.c asks of event loops and pollers. */
#ifndef TEST_UNIT_TASK_FORK_LOOP_H
#define TEST_UNIT_TASK_FORK_LOOP_H

#include <coir.h>

static void on_watch(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)arg;
    (void)loop, (void)watch, (void)events;
}

static void on_timer(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)arg;
    (void)loop, (void)timer;
}

static void on_passed(coir_timeout_set *set, coir_timeout *timeout, void *arg)
{
    (void)arg;
    (void)set, (void)timeout;
}

static void on_hook(coir_loop *loop, coir_hook *hook, void *arg)
{
    (void)arg;
    (void)loop, (void)hook;
}

static void on_slow_turn(const coir_slow_turn *turn, void *arg)
{
    (void)arg;
    (void)turn;
}

static void on_socket(coir_socket *socket, ssize_t result, void *arg)
{
    (void)arg;
    (void)socket, (void)result;
}

static void on_queued(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)arg;
    (void)socket, (void)write, (void)result;
}

static void on_acceptor(coir_acceptor *acceptor, coir_socket *socket, int result, void *arg)
{
    (void)arg;
    (void)acceptor, (void)socket, (void)result;
}

/* The calls on the objects in `o`, and on new ones: see CALLS in fork_test.c. */
#define LOOP_CALLS(R, V, P)                                                                        \
    R(coir_loop_new_with, coir_loop_new_with(NULL, RET(coir_loop)))                                \
    R(coir_loop_new, coir_loop_new(RET(coir_loop)))                                                \
    R(coir_loop_run, coir_loop_run(o.loop))                                                        \
    R(coir_loop_run_once, coir_loop_run_once(o.loop, COIR_NEVER))                                  \
    R(coir_loop_post, coir_loop_post(o.loop, call, NULL))                                          \
    V(coir_loop_stop, coir_loop_stop(o.loop))                                                      \
    P(coir_loop_now, coir_loop_now(o.loop))                                                        \
    R(coir_loop_run_forever, coir_loop_run_forever(o.loop))                                        \
    R(coir_loop_call, coir_loop_call(o.loop, task, NULL))                                          \
    R(coir_loop_fd, coir_loop_fd(o.loop))                                                          \
    P(coir_loop_next, coir_loop_next(o.loop))                                                      \
    P(coir_loop_alive, coir_loop_alive(o.loop))                                                    \
    V(coir_loop_hold, coir_loop_hold(o.loop))                                                      \
    V(coir_loop_release, coir_loop_release(o.loop))                                                \
    P(coir_loop_update_now, coir_loop_update_now(o.loop))                                          \
    R(coir_loop_watchdog_start, coir_loop_watchdog_start(o.loop, COIR_S, on_slow_turn, NULL))      \
    V(coir_loop_watchdog_stop, coir_loop_watchdog_stop(o.loop))                                    \
    V(coir_loop_observe, coir_loop_observe(o.loop, 0, NULL, NULL))                                 \
    P(coir_loop_counters_get,                                                                      \
      coir_loop_counters_get(o.loop, &(coir_loop_counters)COIR_LOOP_COUNTERS))                     \
    P(coir_worker_loop, coir_worker_loop())                                                        \
    V(coir_loop_free, coir_loop_free(o.loop))                                                      \
    R(coir_socket_connect,                                                                         \
      coir_socket_connect(o.loop, "127.0.0.1:1", on_socket, NULL, RET(coir_socket)))               \
    R(coir_socket_read, coir_socket_read(o.socket, &o.byte, 1, on_socket, NULL))                   \
    V(coir_socket_cancel_read, coir_socket_cancel_read(o.socket))                                  \
    R(coir_socket_write, coir_socket_write(o.socket, &o.write, "x", 1, on_queued, NULL))           \
    R(coir_socket_shutdown_write, coir_socket_shutdown_write(o.socket, &o.write, on_queued, NULL)) \
    P(coir_socket_queued, coir_socket_queued(o.socket))                                            \
    R(coir_socket_set_timeout, coir_socket_set_timeout(o.socket, COIR_READ, 1))                    \
    R(coir_socket_set_option, coir_socket_set_option(o.socket, COIR_TCP_NODELAY, 1))               \
    R(coir_socket_local, coir_socket_local(o.socket, &o.byte, 1))                                  \
    R(coir_socket_peer, coir_socket_peer(o.socket, &o.byte, 1))                                    \
    V(coir_socket_close, coir_socket_close(o.socket))                                              \
    R(coir_acceptor_open,                                                                          \
      coir_acceptor_open(o.loop, "127.0.0.1:0", on_acceptor, NULL, RET(coir_acceptor)))            \
    R(coir_acceptor_local, coir_acceptor_local(o.acceptor, &o.byte, 1))                            \
    V(coir_acceptor_close, coir_acceptor_close(o.acceptor))                                        \
    R(coir_watch_modify, coir_watch_modify(o.loop, &o.watch, COIR_WRITE))                          \
    R(coir_watch_start,                                                                            \
      coir_watch_start(o.loop, &(coir_watch){{0}}, o.pipe[1], COIR_WRITE, on_watch, NULL))         \
    V(coir_watch_stop, coir_watch_stop(o.loop, &o.watch))                                          \
    V(coir_timer_start, coir_timer_start(o.loop, &o.timer, 1, on_timer, NULL))                     \
    R(coir_timer_start_with, coir_timer_start_with(o.loop, &o.timer, NULL, on_timer, NULL))        \
    V(coir_timer_stop, coir_timer_stop(o.loop, &o.timer))                                          \
    R(coir_timeout_set_init, coir_timeout_set_init(&o.timeouts, o.loop, 1, on_passed))             \
    V(coir_timeout_set_done, coir_timeout_set_done(&o.timeouts))                                   \
    V(coir_timeout_start, coir_timeout_start(&o.timeouts, &o.timeout, NULL))                       \
    V(coir_timeout_stop, coir_timeout_stop(&o.timeouts, &o.timeout))                               \
    V(coir_hook_start,                                                                             \
      coir_hook_start(o.loop, &(coir_hook){{0}}, COIR_HOOK_BEFORE_WAIT, on_hook, NULL))            \
    V(coir_hook_stop, coir_hook_stop(o.loop, &o.hook))                                             \
    R(coir_poller_new_with, coir_poller_new_with(NULL, RET(coir_poller)))                          \
    R(coir_poller_new, coir_poller_new(RET(coir_poller)))                                          \
    R(coir_poller_add, coir_poller_add(o.poller, o.pipe[1], 1, COIR_WRITE))                        \
    R(coir_poller_modify, coir_poller_modify(o.poller, o.pipe[0], 1, COIR_READ))                   \
    R(coir_poller_remove, coir_poller_remove(o.poller, o.pipe[0]))                                 \
    R(coir_poller_wait, coir_poller_wait(o.poller, &poller_event, 1, COIR_NEVER))                  \
    V(coir_poller_free, coir_poller_free(o.poller))                                                \
    R(coir_source_add, coir_source_add(&(coir_source){{0}}, o.poller, 1))                          \
    R(coir_source_set, coir_source_set(&o.source, 1))                                              \
    V(coir_source_remove, coir_source_remove(&o.source))

#endif
