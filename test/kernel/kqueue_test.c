/* The simulated kernel's kqueue, rule by rule: kqueue(2) and sys/kern/kern_event.c of FreeBSD. */
#include <sys/event.h>

#include <errno.h>
#include <netinet/in.h>

#include "harness.h"
#include "sim/kernel/kernel.h"
#include "sys/call.h"
#include "sys/socket_call.h"

static int kq;
static int ends[2];                      /* of a pipe */
static coir_fd client = -1, server = -1; /* a connected pair */
static struct kevent events[8];

static int change(int fd, int filter, int flags, unsigned what, uintptr_t data)
{
    struct kevent one;
    EV_SET(&one, (uintptr_t)fd, (short)filter, (unsigned short)flags, what, 0, (void *)data);
    return kevent(kq, &one, 1, NULL, 0, NULL) < 0 ? -errno : 0;
}

static int wait_for(coir_time timeout)
{
    struct timespec time = {(time_t)(timeout / COIR_S), (long)(timeout % COIR_S)};
    return kevent(kq, NULL, 0, events, 8, &time);
}

static void open_pipe(void)
{
    CHECK((kq = kqueue()) >= 0);
    CHECK_EQ(pipe(ends), 0);
}

static void close_pipe(void)
{
    close(ends[0]);
    close(ends[1]);
    close(kq);
}

static void open_pair(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage name;
    socklen_t len;
    CHECK((kq = kqueue()) >= 0);
    coir_fd listener = ci_sys_listen((struct sockaddr *)&address, sizeof address, 8, false, false);
    CHECK_EQ(ci_sys_name(listener, false, &name, &len), 0);
    CHECK_EQ(change(listener, EVFILT_READ, EV_ADD, 0, 0), 0);
    CHECK((client = ci_sys_socket(AF_INET)) >= 0);
    CHECK_EQ(change(client, EVFILT_WRITE, EV_ADD | EV_ONESHOT, 0, 0), 0);
    CHECK_EQ(wait_for(0), 0); /* it is not connected: unlike poll(2), nothing is reported */
    CHECK_EQ(ci_sys_connect(client, (struct sockaddr *)&name, len), -EINPROGRESS);
    for (int got = 0; got < 2;)
        got += wait_for(COIR_S);
    CHECK((server = ci_sys_accept(listener)) >= 0);
    ci_sys_close(listener);
}

static void close_pair(void)
{
    ci_sys_close(client);
    ci_sys_close(server);
    close(kq);
}

TEST(kqueue_a_level_stays)
{
    open_pipe();
    CHECK_EQ(change(ends[0], EVFILT_READ, EV_ADD, 0, 7), 0);
    CHECK_EQ(wait_for(0), 0);
    CHECK_EQ(write(ends[1], "xy", 2), 2);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(wait_for(COIR_S), 1);
        CHECK_EQ(events[0].ident, ends[0]);
        CHECK_EQ(events[0].filter, EVFILT_READ);
        CHECK_EQ((uintptr_t)events[0].udata, 7);
    }
    char bytes[2];
    CHECK_EQ(read(ends[0], bytes, 2), 2);
    CHECK_EQ(wait_for(0), 0); /* it was queued, and is asked again */
    close_pipe();
}

TEST(kqueue_an_edge_waits_for_the_next_change)
{
    open_pipe();
    CHECK_EQ(change(ends[0], EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(wait_for(COIR_S), 1);
    CHECK_EQ(wait_for(0), 0);
    CHECK_EQ(write(ends[1], "y", 1), 1);
    CHECK_EQ(wait_for(COIR_S), 1);
    CHECK_EQ(change(ends[0], EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0), 0); /* a look, too */
    CHECK_EQ(wait_for(0), 1);
    close_pipe();
}

TEST(kqueue_one_shot_is_reported_once_as_it_was)
{
    char byte;
    open_pipe();
    CHECK_EQ(change(ends[0], EVFILT_READ, EV_ADD | EV_ONESHOT, 0, 0), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    CHECK_EQ(wait_for(0), 1); /* its filter is not asked again */
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(wait_for(0), 0);
    CHECK_EQ(change(ends[0], EVFILT_READ, EV_DELETE, 0, 0), -ENOENT);
    close_pipe();
}

TEST(kqueue_adding_again_changes_the_user_data_alone)
{
    open_pipe();
    CHECK_EQ(change(ends[1], EVFILT_WRITE, EV_ADD | EV_ONESHOT, 0, 1), 0);
    CHECK_EQ(change(ends[1], EVFILT_WRITE, EV_ADD, 0, 2), 0);
    CHECK_EQ(wait_for(0), 1);
    CHECK_EQ((uintptr_t)events[0].udata, 2);
    CHECK(events[0].flags & EV_ONESHOT);
    CHECK_EQ(wait_for(0), 0);
    close_pipe();
}

TEST(kqueue_closing_a_descriptor_removes_its_knotes)
{
    open_pipe();
    CHECK_EQ(dup2(ends[0], 100), 100); /* the file lives on */
    CHECK_EQ(change(ends[0], EVFILT_READ, EV_ADD, 0, 0), 0);
    CHECK_EQ(change(100, EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0), 0);
    close(ends[0]);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(wait_for(COIR_S), 1);
    CHECK_EQ(events[0].ident, 100);
    CHECK_EQ(change(ends[0], EVFILT_READ, EV_DELETE, 0, 0), -EBADF);
    close(100);
    CHECK_EQ(wait_for(0), 0);
    close(ends[1]);
    close(kq);
}

TEST(kqueue_a_user_event_wakes_once)
{
    CHECK((kq = kqueue()) >= 0);
    CHECK_EQ(change(0, EVFILT_USER, 0, NOTE_TRIGGER, 0), -ENOENT);
    CHECK_EQ(change(0, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0), 0);
    CHECK_EQ(wait_for(0), 0);
    CHECK_EQ(change(0, EVFILT_USER, 0, NOTE_TRIGGER, 0), 0);
    CHECK_EQ(change(0, EVFILT_USER, 0, NOTE_TRIGGER, 0), 0);
    CHECK_EQ(wait_for(COIR_S), 1);
    CHECK_EQ(events[0].filter, EVFILT_USER);
    CHECK_EQ(wait_for(0), 0);
    close(kq);
}

TEST(kqueue_receipts_take_no_event)
{
    open_pipe();
    struct kevent changes[2];
    EV_SET(&changes[0], (uintptr_t)ends[1], EVFILT_WRITE, EV_DELETE | EV_RECEIPT, 0, 0, NULL);
    EV_SET(&changes[1], (uintptr_t)ends[1], EVFILT_WRITE, EV_ADD | EV_CLEAR | EV_RECEIPT, 0, 0,
           NULL);
    CHECK_EQ(kevent(kq, changes, 2, events, 2, NULL), 2);
    CHECK_EQ(events[0].flags, EV_ERROR);
    CHECK_EQ(events[0].data, ENOENT);
    CHECK_EQ(events[1].data, 0);
    CHECK_EQ(wait_for(0), 1);
    CHECK_EQ(events[0].flags, EV_CLEAR);
    close_pipe();
}

TEST(kqueue_each_direction_tells_of_its_own_end)
{
    char byte;
    open_pair();
    CHECK_EQ(change(server, EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0), 0);
    CHECK_EQ(change(server, EVFILT_WRITE, EV_ADD | EV_CLEAR, 0, 0), 0);
    CHECK_EQ(wait_for(COIR_S), 1); /* writable */
    CHECK_EQ(ci_sys_shutdown_write(server), 0);
    CHECK_EQ(wait_for(COIR_S), 1);
    CHECK(events[0].filter == EVFILT_WRITE && events[0].flags & EV_EOF && !events[0].fflags);
    CHECK_EQ(ci_sys_send(client, "x", 1), 1);
    CHECK_EQ(ci_sys_shutdown_write(client), 0);
    bool ended = false;
    while (!ended) { /* the end comes with the byte, or after it */
        CHECK(wait_for(COIR_S) > 0);
        for (int i = 0; i < 2 && !ended; i++)
            ended = events[i].filter == EVFILT_READ && events[i].flags & EV_EOF;
    }
    CHECK_EQ(ci_sys_recv(server, &byte, 1), 1);
    CHECK_EQ(ci_sys_recv(server, &byte, 1), 0);
    close_pair();
}

TEST(kqueue_a_reset_comes_with_its_error)
{
    open_pair();
    CHECK_EQ(change(server, EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0), 0);
    CHECK_EQ(ci_sys_reset_on_close(client), 0);
    ci_sys_close(client);
    CHECK_EQ(wait_for(COIR_S), 1);
    CHECK(events[0].flags & EV_EOF);
    CHECK_EQ(events[0].fflags, ECONNRESET);
    client = ci_sys_socket(AF_INET);
    close_pair();
}
