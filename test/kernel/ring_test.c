/* The simulated kernel's io_uring, rule by rule, through sys/ring.h. What Linux may choose is fixed
 * here, except where the choice is the question. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

#include "driver/selector.h"
#include "harness.h"
#include "sim/kernel/ring.h"
#include "sys/call.h"
#include "sys/clock.h"
#include "sys/file_call.h"
#include "sys/ring.h"
#include "sys/socket_call.h"
#include "sys/thread.h"

enum { ENTRIES = 64, COMPLETIONS = 256 };
enum { A = 1, B, C };

static struct ci_ring ring;
static coir_fd near = -1, far = -1; /* a connected pair */

/* ---- what the cases use ---- */

static void open_ring(uint32_t version)
{
    ci_kring_traits = (struct ci_kring_traits){.version = version};
    ci_k.settings = (struct ci_ksettings){.yield_one_in = 0};
    CHECK_EQ(ci_ring_open(&ring, ENTRIES, COMPLETIONS, false), 0);
    CHECK_EQ(ci_ring_submit(&ring), 0); /* it is this thread's */
}

static void make_pair(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    coir_fd listener = ci_sys_listen((struct sockaddr *)&address, sizeof address, 8, false, false);
    CHECK(listener >= 0);
    CHECK_EQ(ci_sys_name(listener, false, &name, &len), 0);
    CHECK((near = ci_sys_socket(AF_INET)) >= 0);
    CHECK_EQ(ci_sys_connect(near, (struct sockaddr *)&name, len), -EINPROGRESS);
    struct pollfd waits = {listener, POLLIN, 0};
    CHECK_EQ(ci_sys_poll(&waits, 1, -1), 1);
    CHECK((far = ci_sys_accept(listener)) >= 0);
    ci_sys_close(listener);
    CHECK_EQ(ci_sys_tcp_option(near, COIR_TCP_SEND_BUFFER, 32768), 0);
    CHECK_EQ(ci_sys_tcp_option(far, COIR_TCP_RECEIVE_BUFFER, 32768), 0);
}

static void close_all(void)
{
    if (ring.map.rings)
        ci_ring_close(&ring);
    ring.map.rings = NULL;
    if (near >= 0)
        ci_sys_close(near);
    if (far >= 0)
        ci_sys_close(far);
    near = far = -1;
}

static struct io_uring_sqe *ask(uint8_t opcode, coir_fd fd, uint64_t name)
{
    struct io_uring_sqe *sqe = ci_ring_entry(&ring);
    CHECK(sqe);
    sqe->opcode = opcode;
    sqe->fd = fd;
    sqe->user_data = name;
    return sqe;
}

static struct io_uring_sqe *ask_bytes(uint8_t opcode, coir_fd fd, uint64_t name, void *buf,
                                      size_t len)
{
    struct io_uring_sqe *sqe = ask(opcode, fd, name);
    sqe->addr = (uintptr_t)buf;
    sqe->len = (uint32_t)len;
    return sqe;
}

static void ask_poll(coir_fd fd, uint64_t name, unsigned events, bool multi)
{
    struct io_uring_sqe *sqe = ask(IORING_OP_POLL_ADD, fd, name);
    sqe->poll32_events = events;
    sqe->len = multi ? IORING_POLL_ADD_MULTI : 0;
}

static void ask_cancel(uint64_t what, uint64_t name)
{
    ask(IORING_OP_ASYNC_CANCEL, -1, name)->addr = what;
}

static bool none(void)
{
    return !ci_ring_completion(&ring);
}

/* The next completion, which must be there, of this name: its result. */
static uint32_t flags; /* of that one */
static int take(uint64_t name)
{
    const struct io_uring_cqe *completion = ci_ring_completion(&ring);
    if (!completion)
        test_fail(__FILE__, __LINE__, "no completion %d", (int)name);
    int result = completion->res;
    flags = completion->flags;
    CHECK_EQ(completion->user_data, name);
    ci_ring_seen(&ring);
    return result;
}

static int wait_one(uint64_t name)
{
    CHECK_EQ(ci_ring_enter(&ring, 1, COIR_S), 0);
    return take(name);
}

/* Lets what was sent arrive, without entering the ring. */
static void let_arrive(coir_fd fd, short events)
{
    struct pollfd waits = {fd, events, 0};
    CHECK_EQ(ci_sys_poll(&waits, 1, -1), 1);
}

static void send_to(coir_fd from, coir_fd to, const void *data, size_t len)
{
    CHECK_EQ(ci_sys_send(from, data, len), len);
    let_arrive(to, POLLIN);
}

/* ---- setting up and entering ---- */

TEST(an_old_kernel_has_no_deferred_work)
{
    open_ring(0);
    CHECK(!ring.deferred);
    close_all();
    open_ring(1);
    CHECK(ring.deferred);
    struct io_uring_params params = {.flags = IORING_SETUP_DEFER_TASKRUN};
    CHECK_EQ(ci_ring_call_setup(8, &params), -EINVAL); /* without SINGLE_ISSUER */
    params = (struct io_uring_params){.flags = IORING_SETUP_CQSIZE, .cq_entries = 4};
    CHECK_EQ(ci_ring_call_setup(8, &params), -EINVAL);
    params = (struct io_uring_params){0};
    CHECK_EQ(ci_ring_call_setup(0, &params), -EINVAL);
    coir_fd fd = ci_ring_call_setup(5, &params);
    CHECK_EQ(params.sq_entries, 8);
    CHECK_EQ(params.cq_entries, 16);
    ci_sys_close(fd);
    close_all();
}

static int answer_to_other;

static void *enter_elsewhere(void *arg)
{
    (void)arg;
    answer_to_other = ci_ring_call_enter(ring.fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
    return NULL;
}

TEST(only_the_owner_enters)
{
    struct ci_thread other;
    ci_kring_traits = (struct ci_kring_traits){.version = 12};
    CHECK_EQ(ci_ring_open(&ring, ENTRIES, COMPLETIONS, false), 0);
    CHECK_EQ(ci_ring_call_enter(ring.fd, 0, 0, 0, NULL, 0), -EBADFD); /* not enabled yet */
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(ci_thread_start(&other, enter_elsewhere, NULL), 0);
    ci_thread_join(&other);
    CHECK_EQ(answer_to_other, -EEXIST);
    CHECK_EQ(ci_ring_call_register(ring.fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0), -EBADFD);
    CHECK_EQ(ci_ring_call_enter(99, 0, 0, 0, NULL, 0), -EBADF);
    close_all();
}

TEST(what_a_wait_comes_to)
{
    open_ring(12);
    coir_time before = ci_know();
    CHECK_EQ(ci_ring_enter(&ring, 1, COIR_MS), -ETIME);
    CHECK(ci_know() >= before + COIR_MS);
    CHECK_EQ(ci_ring_enter(&ring, 0, COIR_MS), 0); /* wants none */
    ci_k.settings.interrupt_one_in = 1;
    CHECK_EQ(ci_ring_enter(&ring, 1, COIR_S), -EINTR);
    ask(IORING_OP_NOP, -1, A);
    /* what was taken hides how the wait ended */
    CHECK_EQ(ci_ring_enter(&ring, 2, 10 * COIR_US), 0);
    CHECK_EQ(take(A), 0);
    close_all();
}

TEST(a_submission_may_be_partial)
{
    open_ring(12);
    int refused = 0;
    for (int i = 0; i < 8; i++)
        ask(IORING_OP_NOP, -1, (uint64_t)(A + i));
    ci_kring_traits.refuse_one_in = 1;
    coir_time before = ci_know();
    for (int rounds = 0; rounds < 50 && (ring.tail - *ring.kernel_head > 1 || !refused); rounds++) {
        int rc = ci_ring_enter(&ring, 64, COIR_S); /* does not sleep: not all was taken */
        CHECK(rc == 0 || rc == -EAGAIN);
        refused += rc == -EAGAIN;
    }
    CHECK(refused > 0);
    CHECK(ci_know() < before + COIR_MS);
    for (int i = 0; i < 7; i++)
        CHECK_EQ(take((uint64_t)(A + i)), 0);
    close_all();
}

TEST(entries_are_copied_as_they_are_taken)
{
    char in[8] = "";
    open_ring(12);
    make_pair();
    struct iovec iov = {in, 4};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    struct io_uring_sqe *sqe = ask_bytes(IORING_OP_RECVMSG, far, A, &message, 1);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK(sqe->opcode != IORING_OP_RECVMSG); /* the slot may have been overwritten */
    iov = (struct iovec){NULL, 1};
    message.msg_iovlen = 100;
    send_to(near, far, "abcdef", 6);
    CHECK_EQ(wait_one(A), 4);
    CHECK(memcmp(in, "abcd", 5) == 0);
    close_all();
}

/* ---- completions ---- */

TEST(completions_beyond_the_ring_wait)
{
    ci_kring_traits = (struct ci_kring_traits){.version = 12};
    CHECK_EQ(ci_ring_open(&ring, 4, 4, false), 0);
    for (uint64_t i = 0; i < 10; i++) {
        ask(IORING_OP_NOP, -1, A + i);
        CHECK_EQ(ci_ring_submit(&ring), 0);
    }
    CHECK(ci_ring_overflowed(&ring));
    CHECK_EQ(take(A), 0);
    ask(IORING_OP_NOP, -1, A + 10); /* there is room now, but others wait */
    CHECK_EQ(ci_ring_submit(&ring), 0);
    for (uint64_t i = 1; i < 11; i++) {
        if (none())
            CHECK(ci_ring_enter(&ring, 0, 0) == 0 || !none());
        CHECK_EQ(take(A + i), 0); /* in order */
    }
    CHECK(!ci_ring_overflowed(&ring));
    CHECK(none());
    close_all();
}

TEST(task_work_runs_in_an_enter_that_asks_for_events)
{
    char in[4];
    open_ring(12);
    make_pair();
    ask_bytes(IORING_OP_RECV, far, A, in, sizeof in);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK(!ci_ring_busy(&ring));
    send_to(near, far, "ab", 2);
    CHECK(ci_ring_busy(&ring)); /* IORING_SQ_TASKRUN */
    CHECK(none());
    ask(IORING_OP_NOP, -1, B);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(B), 0);
    CHECK(none());
    CHECK_EQ(ci_ring_enter(&ring, 0, 0), 0);
    CHECK_EQ(take(A), 2);
    CHECK(!ci_ring_busy(&ring));
    close_all();
}

TEST(an_old_kernel_runs_task_work_in_any_call)
{
    char in[4];
    open_ring(0);
    make_pair();
    ask_bytes(IORING_OP_RECV, far, A, in, sizeof in);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(ci_sys_send(near, "ab", 2), 2);
    for (int i = 0; i < 10000 && none(); i++)
        ci_sys_no_delay(near);
    CHECK_EQ(take(A), 2);
    close_all();
}

TEST(success_may_be_silent_and_failure_is_not)
{
    open_ring(12);
    ask(IORING_OP_NOP, -1, A)->flags = IOSQE_CQE_SKIP_SUCCESS;
    ask(IORING_OP_CLOSE, 77, B)->flags = IOSQE_CQE_SKIP_SUCCESS;
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(B), -EBADF);
    CHECK(none());
    close_all();
}

TEST(a_thread_takes_its_requests_with_it)
{
    ci_kring_traits = (struct ci_kring_traits){.version = 12};
    make_pair();
    CHECK_EQ(ci_ring_open(&ring, ENTRIES, COMPLETIONS, true), 0);
    ask_poll(far, A, POLLIN, false);
    struct ci_thread other;
    CHECK_EQ(ci_ring_call_register(ring.fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0), 0);
    ring.enabled = true;
    CHECK_EQ(ci_thread_start(&other, (void *(*)(void *))(uintptr_t)ci_ring_submit, &ring), 0);
    ci_thread_join(&other);
    CHECK_EQ(take(A), -ECANCELED);
    close_all();
}

/* ---- polls ---- */

TEST(a_poll_ends_with_its_first_event)
{
    open_ring(12);
    make_pair();
    ask_poll(near, A, POLLOUT, false);
    ask_poll(far, B, POLLIN, false);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(A), POLLOUT); /* it holds already */
    CHECK(none());
    send_to(near, far, "ab", 2);
    CHECK_EQ(wait_one(B), POLLIN);
    CHECK(!(flags & IORING_CQE_F_MORE));
    close_all();
}

/* The events of the first wake-up are used as they are: the bytes may have been read since. */
TEST(a_poll_tells_of_what_has_gone)
{
    char in[4];
    open_ring(12);
    make_pair();
    ask_poll(far, A, POLLIN, false);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    send_to(near, far, "ab", 2);
    CHECK_EQ(ci_sys_recv(far, in, sizeof in), 2);
    CHECK_EQ(wait_one(A), POLLIN);
    close_all();
}

TEST(a_poll_that_goes_on_tells_of_changes)
{
    open_ring(12);
    make_pair();
    send_to(near, far, "ab", 2);
    ask_poll(far, A, POLLIN, true);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK(none()); /* by task work */
    CHECK_EQ(wait_one(A), POLLIN);
    CHECK(flags & IORING_CQE_F_MORE);
    CHECK_EQ(ci_ring_enter(&ring, 1, COIR_MS), -ETIME); /* unread bytes are no change */
    send_to(near, far, "ab", 2);
    CHECK_EQ(wait_one(A), POLLIN);
    close_all();
}

TEST(the_peers_end_is_told_to_every_poll)
{
    open_ring(12);
    make_pair();
    ask_poll(far, A, 0, false);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(ci_sys_shutdown_write(near), 0);
    CHECK_EQ(wait_one(A), POLLRDHUP);
    close_all();
}

TEST(a_poll_keeps_its_file_open)
{
    char in[4];
    open_ring(12);
    make_pair();
    ask_poll(near, A, POLLIN, false);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    coir_fd number = near;
    ci_sys_close(near);
    CHECK_EQ(ci_ring_enter(&ring, 1, 100 * COIR_MS), -ETIME);
    CHECK_EQ(ci_sys_recv(far, in, sizeof in), -EAGAIN); /* no end: it is open */
    coir_fd lower = ci_sys_eventfd();
    near = ci_sys_eventfd();
    CHECK_EQ(near, number); /* the number is another's */
    ci_sys_close(lower);
    ask_cancel(A, B);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(B), 0);
    CHECK(none());
    CHECK_EQ(wait_one(A), -ECANCELED);
    let_arrive(far, POLLIN);
    CHECK_EQ(ci_sys_recv(far, in, sizeof in), 0);
    close_all();
}

TEST(a_poll_that_was_woken_is_not_removed)
{
    open_ring(18);
    make_pair();
    ask_poll(far, A, POLLIN, true);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    send_to(near, far, "ab", 2);
    ask(IORING_OP_POLL_REMOVE, -1, B)->addr = A;
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(B), -EALREADY);
    CHECK_EQ(wait_one(A), POLLIN);
    CHECK(flags & IORING_CQE_F_MORE); /* and goes on */
    ask(IORING_OP_POLL_REMOVE, -1, B)->addr = A;
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(B), 0);
    CHECK_EQ(wait_one(A), -ECANCELED);
    close_all();
}

/* A poll of the public poller ends as it is removed, also when it has just been woken: else its
 * file would stay open. */
TEST(a_poll_that_was_woken_is_removed_with_its_selector)
{
    struct ci_selector *selector;
    char in[4];
    ci_kring_traits = (struct ci_kring_traits){.version = 18};
    CHECK_EQ(ci_selector_new(&ci_uring_selector, &ci_system_allocator, &selector), 0);
    for (int i = 0; i < 20; i++) {
        make_pair();
        CHECK_EQ(selector->kind->add(selector, near, 1, COIR_READ, i % 2 ? CI_EDGE : CI_LEVEL), 0);
        struct ci_ready ready;
        CHECK_EQ(selector->kind->wait(selector, &ready, 1, 0), 0);
        CHECK_EQ(ci_sys_send(far, "ab", 2), 2);
        CHECK_EQ(ci_sys_recv(near, in, sizeof in), 2);
        selector->kind->remove(selector, near);
        ci_sys_close(near);
        near = -1;
        struct pollfd waits = {far, POLLIN, 0};
        CHECK_EQ(ci_sys_poll(&waits, 1, COIR_S), 1); /* the end */
        close_all();
    }
    ci_selector_free(selector);
}

/* ---- receiving on and on ---- */

static struct ci_ring_buffers buffers;

static void give_all(uint16_t count)
{
    for (uint16_t id = 0; id < count; id++)
        ci_ring_buffer_give(&buffers, id);
}

static void provide(uint16_t count)
{
    CHECK_EQ(ci_ring_buffers_make(&buffers, 64, 16), 0);
    CHECK_EQ(ci_ring_buffers_register(&ring, &buffers, 7), 0);
    CHECK_EQ(ci_ring_call_register(ring.fd, IORING_REGISTER_PBUF_RING,
                                   &(struct io_uring_buf_reg){.ring_addr = (uintptr_t)buffers.ring,
                                                              .ring_entries = 64,
                                                              .bgid = 7},
                                   1),
             -EEXIST);
    give_all(count);
}

static void ask_stream(uint64_t name)
{
    struct io_uring_sqe *sqe = ask(IORING_OP_RECV, far, name);
    sqe->ioprio = IORING_RECV_MULTISHOT;
    sqe->flags = IOSQE_BUFFER_SELECT;
    sqe->buf_group = 7;
}

static uint16_t id(void)
{
    CHECK(flags & IORING_CQE_F_BUFFER);
    return (uint16_t)(flags >> IORING_CQE_BUFFER_SHIFT);
}

TEST(a_receive_goes_on_until_the_end)
{
    open_ring(12);
    make_pair();
    provide(3);
    ask_stream(A);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    send_to(near, far, "0123456789abcdefXY", 18);
    CHECK_EQ(wait_one(A), 16);
    CHECK_EQ(id(), 0);
    CHECK(flags & IORING_CQE_F_MORE);
    CHECK_EQ(take(A), 2);
    CHECK_EQ(id(), 1);
    CHECK(memcmp(ci_ring_buffer(&buffers, 1), "XY", 2) == 0);
    CHECK_EQ(ci_sys_shutdown_write(near), 0);
    CHECK_EQ(wait_one(A), 0);
    CHECK(!(flags & IORING_CQE_F_BUFFER)); /* none was used */
    give_all(2);
    close_all();
    ci_ring_buffers_free(&buffers);
}

TEST(a_receive_without_buffers_ends)
{
    for (uint32_t version = 1; version <= 6; version += 5) {
        open_ring(version);
        make_pair();
        provide(1);
        ask_stream(A);
        CHECK_EQ(ci_ring_submit(&ring), 0);
        send_to(near, far, "0123456789abcdef", 16);
        CHECK_EQ(wait_one(A), 16);
        CHECK(flags & IORING_CQE_F_MORE);
        if (version == 6) { /* the socket has said that it is empty: no look without data */
            CHECK_EQ(ci_ring_enter(&ring, 1, COIR_MS), -ETIME);
            send_to(near, far, "more", 4);
        }
        CHECK_EQ(wait_one(A), -ENOBUFS);
        CHECK_EQ(flags, 0);
        ci_ring_buffer_give(&buffers, 0);
        close_all();
        ci_ring_buffers_free(&buffers);
    }
}

TEST(a_long_receive_lets_others_run)
{
    char out[16 * 40];
    memset(out, 'x', sizeof out);
    open_ring(12);
    make_pair();
    provide(40);
    ask_stream(A);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(ci_sys_send(near, out, sizeof out), sizeof out);
    ci_clock_sleep(COIR_MS);
    CHECK_EQ(ci_ring_enter(&ring, 0, 0), 0);
    int count = 0;
    for (; !none(); count++)
        take(A);
    CHECK_EQ(count, 33);
    CHECK(ci_ring_busy(&ring)); /* the rest is for the next enter */
    CHECK_EQ(ci_ring_enter(&ring, 0, 0), 0);
    for (; !none(); count++)
        take(A);
    CHECK_EQ(count, 40);
    give_all(40);
    close_all();
    ci_ring_buffers_free(&buffers);
}

TEST(a_full_ring_ends_a_receive_with_its_data)
{
    open_ring(12);
    close_all();
    ci_kring_traits.size_most = 2; /* four completions */
    CHECK_EQ(ci_ring_open(&ring, ENTRIES, COMPLETIONS, false), 0);
    make_pair();
    CHECK_EQ(ci_ring_submit(&ring), 0);
    provide(8);
    ask_stream(A);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    send_to(near, far,
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 80);
    ci_clock_sleep(COIR_MS);
    CHECK_EQ(ci_ring_enter(&ring, 0, 0) == -EINVAL, 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(take(A), 16);
        CHECK(flags & IORING_CQE_F_MORE);
    }
    CHECK(ci_ring_overflowed(&ring));
    CHECK_EQ(wait_one(A), 16);
    CHECK_EQ(id(), 4);
    CHECK(!(flags & IORING_CQE_F_MORE));
    give_all(5);
    close_all();
    ci_ring_buffers_free(&buffers);
}

TEST(a_receive_is_cancelled_by_task_work)
{
    open_ring(12);
    make_pair();
    provide(2);
    ask_stream(A);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    send_to(near, far, "ab", 2); /* woken already, and not looked at: it loses nothing */
    ask_cancel(A, B);
    ask_cancel(C, C);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(B), 0);
    CHECK_EQ(take(C), -ENOENT);
    CHECK(none());
    CHECK_EQ(wait_one(A), -ECANCELED);
    char in[4];
    CHECK_EQ(ci_sys_recv(far, in, sizeof in), 2);
    ask_cancel(A, B);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(B), -ENOENT);
    close_all();
    ci_ring_buffers_free(&buffers);
}

/* ---- sending ---- */

enum { MUCH = 1 << 20 };
static char much[MUCH];

TEST(a_send_says_how_much_it_did)
{
    for (uint32_t version = 0; version <= 1; version++) {
        open_ring(version);
        make_pair();
        struct io_uring_sqe *sqe = ask_bytes(IORING_OP_SEND, near, A, much, 100);
        sqe->msg_flags = MSG_DONTWAIT | MSG_WAITALL;
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
        CHECK_EQ(ci_ring_submit(&ring), 0);
        CHECK(none()); /* whole, and silent */
        sqe = ask_bytes(IORING_OP_SEND, near, B, much, MUCH);
        sqe->msg_flags = MSG_DONTWAIT | MSG_WAITALL;
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
        CHECK_EQ(ci_ring_submit(&ring), 0);
        int n = take(B);
        CHECK(version ? n > 0 && n < MUCH : n == -EAGAIN);
        close_all();
    }
}

TEST(a_send_that_must_send_all_does)
{
    static char in[MUCH];
    open_ring(12);
    make_pair();
    ask_bytes(IORING_OP_SEND, near, A, much, 200000)->msg_flags = MSG_WAITALL;
    CHECK_EQ(ci_ring_submit(&ring), 0);
    size_t got = 0;
    while (got < 200000) {
        CHECK(none() || got > 100000);
        let_arrive(far, POLLIN);
        ssize_t n = ci_sys_recv(far, in + got, sizeof in - got);
        got += n > 0 ? (size_t)n : 0;
        int rc = ci_ring_enter(&ring, 0, 0);
        CHECK(rc == 0);
    }
    CHECK_EQ(wait_one(A), 200000);
    close_all();
}

TEST(a_receive_that_polls_first_takes_what_is_there_by_task_work)
{
    char in[4];
    open_ring(12);
    make_pair();
    for (int i = 0; i < 2; i++) { /* something is there; nothing is */
        if (i == 0)
            send_to(near, far, "ab", 2);
        ask_bytes(IORING_OP_RECV, far, A, in, sizeof in)->ioprio = IORING_RECVSEND_POLL_FIRST;
        CHECK_EQ(ci_ring_submit(&ring), 0);
        CHECK(none());
        if (i == 1)
            send_to(near, far, "cd", 2);
        CHECK_EQ(wait_one(A), 2);
    }
    close_all();
}

/* A kernel thread goes on; one that runs is not found waiting, and a signal ends it. */
TEST(a_kernel_thread_takes_over)
{
    char in[4];
    open_ring(12);
    ci_kring_traits.worker_one_in = 1;
    ci_kring_traits.race_one_in = 1;
    make_pair();
    ask_bytes(IORING_OP_RECV, far, A, in, sizeof in);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    ask_cancel(A, B); /* on its way to be tried again */
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(B), -ENOENT);
    CHECK_EQ(ci_ring_enter(&ring, 1, COIR_S), -ETIME);
    ask_cancel(A, B);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(B), -EALREADY);
    CHECK_EQ(wait_one(A), -EINTR);

    ask_bytes(IORING_OP_RECV, far, A, in, sizeof in);
    CHECK_EQ(ci_ring_enter(&ring, 1, COIR_S), 0);
    CHECK(none());
    CHECK_EQ(ci_ring_enter(&ring, 1, COIR_S), -ETIME);
    CHECK_EQ(ci_sys_send(near, "ab", 2), 2);
    CHECK_EQ(wait_one(A), 2);

    struct iovec iov = {in, sizeof in};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    ask_bytes(IORING_OP_RECVMSG, far, A, &message, 1);
    CHECK_EQ(ci_ring_enter(&ring, 0, 0), 0);
    CHECK_EQ(wait_one(A), -EAGAIN); /* there O_NONBLOCK counts */
    close_all();
}

/* ---- connections and files ---- */

TEST(connections_are_made_and_accepted)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    open_ring(12);
    coir_fd listener = ci_sys_listen((struct sockaddr *)&address, sizeof address, 8, false, false);
    CHECK_EQ(ci_sys_name(listener, false, &name, &len), 0);
    near = ci_sys_socket(AF_INET);
    ask(IORING_OP_ACCEPT, listener, A)->accept_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
    struct io_uring_sqe *sqe = ask(IORING_OP_CONNECT, near, B);
    sqe->addr = (uintptr_t)&name;
    sqe->off = len;
    CHECK_EQ(ci_ring_submit(&ring), 0);
    memset(&name, 0, sizeof name);
    CHECK_EQ(wait_one(B), 0);
    far = wait_one(A);
    CHECK(far >= 0);
    ci_sys_close(listener);
    ask_bytes(IORING_OP_SEND, near, A, much, 5);
    ask_bytes(IORING_OP_RECV, far, B, much, 5);
    CHECK_EQ(wait_one(A), 5);
    CHECK_EQ(wait_one(B), 5);
    close_all();
}

TEST(files_are_read_and_written)
{
    char in[8] = "";
    open_ring(12);
    coir_fd fd = ci_sys_file(&(struct ci_file_call){.kind = CI_FILE_OPEN,
                                                    .fd = AT_FDCWD,
                                                    .path = "file",
                                                    .flags = O_RDWR | O_CREAT,
                                                    .mode = 0600});
    CHECK(fd >= 0);
    struct io_uring_sqe *sqe = ask_bytes(IORING_OP_WRITE, fd, A, (void *)(uintptr_t) "abcdef", 6);
    sqe->off = 2;
    CHECK_EQ(wait_one(A), 6);
    ask(IORING_OP_FSYNC, fd, B);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK(none()); /* always by a kernel thread */
    CHECK_EQ(wait_one(B), 0);
    sqe = ask_bytes(IORING_OP_READ, fd, C, in, 4);
    sqe->off = 4;
    CHECK_EQ(wait_one(C), 4);
    CHECK(memcmp(in, "cdef", 5) == 0);

    ask(IORING_OP_FSYNC, fd, B);
    ask_cancel(B, A); /* before it has begun */
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(A), 0);
    CHECK_EQ(wait_one(B), -ECANCELED);
    ask(IORING_OP_FSYNC, fd, B);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    ci_clock_sleep(40 * COIR_US);
    ask_cancel(B, A); /* a disk is waited for */
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(take(A), -EALREADY);
    CHECK_EQ(wait_one(B), 0);
    ci_sys_close(fd);
    close_all();
}

TEST(a_request_is_taken_back_without_entering)
{
    char in[4];
    open_ring(12);
    make_pair();
    ask_bytes(IORING_OP_RECV, far, A, in, sizeof in);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    CHECK_EQ(ci_ring_take_back(&ring, B), -ENOENT);
    CHECK_EQ(ci_ring_take_back(&ring, A), 0);
    CHECK_EQ(wait_one(A), -ECANCELED);
    close_all();
}

/* What was under way when a ring was closed ends later: until then it holds its file. */
TEST(a_ring_ends_late)
{
    char in[4];
    open_ring(12);
    make_pair();
    ask_bytes(IORING_OP_RECV, near, A, in, sizeof in);
    CHECK_EQ(ci_ring_submit(&ring), 0);
    ci_ring_close(&ring);
    ring.map.rings = NULL;
    ci_sys_close(near);
    near = -1;
    CHECK_EQ(ci_sys_recv(far, in, sizeof in), -EAGAIN);
    let_arrive(far, POLLIN);
    CHECK_EQ(ci_sys_recv(far, in, sizeof in), 0);
    close_all();
}
