/* The driver over the simulated kernel's io_uring, with rings as small as it has to get by with. */
#include <errno.h>

#include "driver/driver.h"
#include "driver/open.h"
#include "driver/uring.h"
#include "harness.h"
#include "sim/kernel/ring.h"
#include "sys/call.h"
#include "sys/clock.h"
#include "sys/ring_call.h"
#include "sys/socket_call.h"

enum { PAIRS = 6, RING = 2 };

static char data[1 << 16];

static int done;

static void on_done(struct ci_op *op)
{
    (void)op;
    done++;
}

static void make_pairs(coir_fd pairs[PAIRS][2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    coir_fd listener = ci_sys_listen((struct sockaddr *)&address, sizeof address, 8, false, false);
    CHECK_EQ(ci_sys_name(listener, false, &name, &len), 0);
    for (int i = 0; i < PAIRS; i++) {
        struct pollfd waits = {listener, POLLIN, 0};
        CHECK((pairs[i][0] = ci_sys_socket(AF_INET)) >= 0);
        CHECK_EQ(ci_sys_connect(pairs[i][0], (struct sockaddr *)&name, len), -EINPROGRESS);
        CHECK_EQ(ci_sys_poll(&waits, 1, -1), 1);
        CHECK((pairs[i][1] = ci_sys_accept(listener)) >= 0);
    }
    ci_sys_close(listener);
}

static struct ci_driver *open_driver(struct ci_kring_traits traits)
{
    struct ci_driver *driver;
    done = 0;
    ci_kring_traits = traits;
    CHECK_EQ(ci_uring_open(&ci_system_allocator, &driver), 0);
    if (driver->kind->begin)
        CHECK_EQ(driver->kind->begin(driver), 0);
    return driver;
}

static void close_all(struct ci_driver *driver, coir_fd pairs[PAIRS][2])
{
    for (int i = 0; i < PAIRS; i++) {
        driver->kind->close(driver, pairs[i][1]);
        ci_sys_close(pairs[i][0]);
    }
    if (driver->kind->end)
        driver->kind->end(driver);
    driver->kind->free(driver);
}

static void fill(int fd)
{
    while (send(fd, data, sizeof data, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ci_clock_sleep(COIR_MS);
}

/* Room for a moment: a write is tried in vain, and goes to a thread of the kernel. */
static void make_room(coir_fd ends[2])
{
    struct pollfd ask = {.fd = ends[1], .events = POLLOUT};
    while (poll(&ask, 1, 0) == 0) {
        while (recv(ends[0], data, sizeof data, MSG_DONTWAIT) > 0)
            continue;
        ci_clock_sleep(COIR_MS);
    }
    fill(ends[1]);
}

/* A cancel is refused while a thread has the request, and as long as its completion waits for an
 * enter that asks for events: each is requested again. */
static void cancel_after(coir_time delay)
{
    struct ci_op writes[PAIRS];
    coir_fd pairs[PAIRS][2];
    struct ci_driver *driver =
        open_driver((struct ci_kring_traits){.version = 6, .worker_one_in = 1, .size_most = RING});
    make_pairs(pairs);
    for (int i = 0; i < PAIRS; i++) {
        fill(pairs[i][1]);
        writes[i] = (struct ci_op){
            .fd = pairs[i][1], .kind = CI_OP_WRITE, .data = data, .len = 100, .done = on_done};
        CHECK(!ci_driver_start(driver, &writes[i]));
    }
    driver->kind->wait(driver, 0);
    for (int i = 0; i < PAIRS; i++)
        make_room(pairs[i]);
    driver->kind->wait(driver, 0);
    ci_clock_sleep(delay);
    for (int i = 0; i < PAIRS; i++)
        if (ci_driver_cancel(driver, &writes[i]))
            done++;
    while (done < PAIRS)
        driver->kind->wait(driver, ci_clock_now() + COIR_MS);
    close_all(driver, pairs);
}

TEST(more_refused_cancels_than_the_ring_has_room_for_end)
{
    for (coir_time delay = 0; delay < 40 * COIR_US; delay += COIR_US / 2)
        cancel_after(delay);
}

/* Whoever asks for an entry of the ring while the kernel refuses what is in it must not meet what
 * has come meanwhile: here the data that the poll waits for, and the events of others. */
static void cancel_in_a_full_ring(bool by_close)
{
    coir_fd pairs[PAIRS][2];
    struct ci_driver *driver = open_driver((struct ci_kring_traits){.size_most = RING});
    struct ci_op polls[PAIRS], read;
    make_pairs(pairs);
    fill(pairs[0][1]);
    read = (struct ci_op){
        .fd = pairs[0][1], .kind = CI_OP_READ, .buf = data, .len = 100, .done = on_done};
    CHECK(!ci_driver_start(driver, &read));
    for (int i = 0; i < PAIRS; i++) {
        polls[i] = (struct ci_op){.fd = pairs[i][1],
                                  .kind = CI_OP_POLL,
                                  .events = i ? COIR_READ : COIR_READ | COIR_WRITE,
                                  .done = on_done};
        if (i == PAIRS - RING) {
            driver->kind->wait(driver, 0);
            CHECK_EQ(send(pairs[0][0], "x", 1, MSG_NOSIGNAL), 1);
            ci_clock_sleep(COIR_MS);
        }
        CHECK(!ci_driver_start(driver, &polls[i]));
    }
    ci_kring_traits.refuse_one_in = 1;
    if (by_close)
        driver->kind->close(driver, pairs[0][1]);
    else if (ci_driver_cancel(driver, &polls[0]))
        done++;
    ci_kring_traits.refuse_one_in = 0;
    while (done < 2)
        driver->kind->wait(driver, ci_clock_now() + COIR_MS);
    CHECK_EQ(read.result, by_close ? -ECANCELED : 1);
    if (by_close)
        pairs[0][1] = ci_sys_socket(AF_INET);
    close_all(driver, pairs);
    CHECK_EQ(done, 1 + PAIRS);
}

TEST(a_cancel_in_a_full_ring_meets_no_completion)
{
    for (int i = 0; i < 200; i++)
        cancel_in_a_full_ring(i % 2);
}

/* ---- the kernel has no memory for requests for a while ---- */

static struct ci_op polls[PAIRS];

static void lack_memory(uint32_t calls)
{
    ci_container_of(ci_krings.next, struct ci_kring, link)->refused_calls = calls;
}

/* Fills the ring with what the kernel does not take. */
static void fill_ring(struct ci_driver *driver, coir_fd pairs[PAIRS][2])
{
    const struct ci_ring *ring = &ci_uring_of(driver)->ring;
    lack_memory(UINT32_MAX);
    for (int i = 1; i < PAIRS && ring->tail - *ring->kernel_head <= ring->entry_mask; i++) {
        polls[i] = (struct ci_op){
            .fd = pairs[i][1], .kind = CI_OP_POLL, .events = COIR_READ, .exact = true};
        polls[i].done = on_done;
        CHECK(!ci_driver_start(driver, &polls[i]));
    }
}

static struct ci_driver *open_and_settle(coir_fd pairs[PAIRS][2])
{
    struct ci_driver *driver =
        open_driver((struct ci_kring_traits){.version = 12, .size_most = RING});
    make_pairs(pairs);
    driver->kind->wait(driver, 0);
    driver->kind->wait(driver, 0);
    return driver;
}

static void wait_for_a_second(struct ci_driver *driver)
{
    for (coir_time until = ci_clock_now() + COIR_S; ci_clock_now() < until;)
        driver->kind->wait(driver, ci_clock_now() + 10 * COIR_MS);
}

static void start_in_vain(struct ci_driver *driver, coir_fd fd, struct ci_op *write)
{
    fill(fd);
    *write = (struct ci_op){.fd = fd, .kind = CI_OP_WRITE, .data = data, .len = 100};
    write->done = on_done;
    CHECK(!ci_driver_start(driver, write));
}

TEST(a_cancel_that_finds_no_room_is_requested_later)
{
    coir_fd pairs[PAIRS][2];
    struct ci_driver *driver = open_and_settle(pairs);
    struct ci_op write;
    start_in_vain(driver, pairs[0][1], &write);
    driver->kind->wait(driver, 0);
    fill_ring(driver, pairs);
    CHECK(!ci_driver_cancel(driver, &write));
    lack_memory(0);
    wait_for_a_second(driver);
    CHECK_EQ(done, 1);
    CHECK_EQ(write.result, -ECANCELED);
    close_all(driver, pairs);
}

static bool hears_the_end(coir_fd fd)
{
    struct pollfd ask = {.fd = fd, .events = POLLIN};
    while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0)
        ci_clock_sleep(COIR_MS);
    return ci_sys_poll(&ask, 1, 0) == 1 && recv(fd, data, sizeof data, MSG_DONTWAIT) <= 0;
}

static void start_reading(struct ci_driver *driver, coir_fd fd, struct ci_op *read)
{
    *read = (struct ci_op){.fd = fd, .kind = CI_OP_READ, .buf = data, .len = 100};
    read->done = on_done;
    CHECK(!ci_driver_start(driver, read));
}

TEST(a_close_without_room_is_heard_of)
{
    coir_fd pairs[PAIRS][2];
    struct ci_driver *driver = open_and_settle(pairs);
    struct ci_op read;
    start_reading(driver, pairs[0][1], &read);
    driver->kind->wait(driver, 0);
    fill_ring(driver, pairs);
    lack_memory(80);
    driver->kind->close(driver, pairs[0][1]);
    CHECK_EQ(read.result, -ECANCELED);
    lack_memory(0);
    wait_for_a_second(driver);
    CHECK(hears_the_end(pairs[0][0]));
    pairs[0][1] = ci_sys_socket(AF_INET);
    close_all(driver, pairs);
}

/* The receive of a connection that is closed is still in the ring: it must not take the bytes of
 * the next one with this number. */
TEST(a_number_that_is_used_again_while_there_is_no_room_keeps_its_bytes)
{
    coir_fd pairs[PAIRS][2];
    struct ci_driver *driver = open_and_settle(pairs);
    struct ci_op read;
    lack_memory(UINT32_MAX);
    start_reading(driver, pairs[0][1], &read);
    fill_ring(driver, pairs);
    lack_memory(80);
    driver->kind->close(driver, pairs[0][1]);
    ci_sys_close(pairs[1][1]);
    lack_memory(0);
    wait_for_a_second(driver);
    CHECK_EQ(done, 1);
    close_all(driver, pairs);
}

static int empty_calls;

static void on_watch(struct ci_op *op)
{
    empty_calls += op->result == 0;
    (void)!recv(op->fd, data, 1, MSG_DONTWAIT);
}

TEST(a_watch_that_cannot_be_polled_again_tells_of_nothing)
{
    coir_fd pairs[PAIRS][2];
    struct ci_driver *driver = open_and_settle(pairs);
    struct ci_op watch = {.fd = pairs[0][1], .kind = CI_OP_WATCH, .events = COIR_READ};
    watch.done = on_watch;
    CHECK(!ci_driver_start(driver, &watch));
    driver->kind->wait(driver, 0);
    CHECK_EQ(send(pairs[0][0], "x", 1, MSG_NOSIGNAL), 1);
    ci_clock_sleep(10 * COIR_MS);
    fill_ring(driver, pairs);
    ci_ring_call_enter(ci_uring_of(driver)->ring.fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
    for (int i = 0; i < 5; i++)
        driver->kind->wait(driver, 0);
    lack_memory(0);
    CHECK_EQ(empty_calls, 0);
    close_all(driver, pairs);
}

/* ---- closing beside a poll ---- */

TEST(a_close_after_a_cancelled_poll_is_at_once)
{
    coir_fd pairs[PAIRS][2];
    struct ci_driver *driver = open_driver((struct ci_kring_traits){.version = 12});
    struct ci_op poll = {.kind = CI_OP_POLL, .events = COIR_WRITE, .done = on_done};
    make_pairs(pairs);
    fill(pairs[0][1]);
    poll.fd = pairs[0][1];
    CHECK(!ci_driver_start(driver, &poll));
    driver->kind->wait(driver, 0);
    CHECK(ci_driver_cancel(driver, &poll));
    ci_driver_close(driver, pairs[0][1]);
    ci_clock_sleep(COIR_S);
    CHECK(hears_the_end(pairs[0][0]));
    pairs[0][1] = ci_sys_socket(AF_INET);
    close_all(driver, pairs);
}

/* ---- closing before all was read ---- */

/* Bytes came, and the driver has not seen their completion. */
static void close_unread(bool full)
{
    coir_fd pairs[PAIRS][2];
    struct ci_driver *driver = open_and_settle(pairs);
    struct ci_op read;
    start_reading(driver, pairs[0][1], &read);
    driver->kind->wait(driver, 0);
    driver->kind->wait(driver, 0);
    CHECK(ci_driver_cancel(driver, &read));
    CHECK_EQ(send(pairs[0][0], "x", 1, MSG_NOSIGNAL), 1);
    ci_clock_sleep(10 * COIR_MS);
    ci_ring_call_enter(ci_uring_of(driver)->ring.fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
    if (full)
        fill_ring(driver, pairs);
    lack_memory(full);
    ci_driver_close(driver, pairs[0][1]);
    wait_for_a_second(driver);
    CHECK_EQ(recv(pairs[0][0], data, sizeof data, MSG_DONTWAIT), -1);
    CHECK_EQ(errno, ECONNRESET);
    pairs[0][1] = ci_sys_socket(AF_INET);
    close_all(driver, pairs);
}

TEST(a_close_before_bytes_were_seen_resets)
{
    close_unread(false);
    close_unread(true);
}

/* ---- closing beside a lazy write ---- */

TEST(a_close_that_meets_no_completion_makes_no_lazy_write_due)
{
    coir_fd pairs[PAIRS][2];
    struct ci_driver *driver = open_driver((struct ci_kring_traits){.version = 12});
    const struct ci_uring *uring = ci_uring_of(driver);
    struct ci_op read, other, write = {.kind = CI_OP_WRITE, .data = data, .len = 100, .lazy = true};
    make_pairs(pairs);
    start_reading(driver, pairs[0][1], &read);
    start_reading(driver, pairs[1][1], &other);
    driver->kind->wait(driver, 0);
    driver->kind->wait(driver, 0);
    write.fd = pairs[0][1];
    write.done = on_done;
    CHECK(!ci_driver_start(driver, &write));
    CHECK_EQ(uring->lazy, 1);
    ci_driver_close(driver, pairs[1][1]);
    CHECK(!uring->lazy_due);
    CHECK_EQ(done, 1);
    pairs[1][1] = ci_sys_socket(AF_INET);
    close_all(driver, pairs);
    CHECK_EQ(done, 3);
}
