/* The public poller, over each selector. */
#include <arpa/inet.h>
#include <coir/poller.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "sys/misuse.h"

static coir_poller *poller;
static int a, b;

static void on_each(void (*body)(const char *name))
{
    static const char *const names[] = {"epoll", "poll", "io_uring"};
    for (int i = 0; i < 3; i++) {
        int pair[2], rc = coir_poller_new_with(POLLER_ON(names[i]), &poller);
        if (rc < 0 && i == 2)
            break; /* it does not work here */
        CHECK_EQ(rc, 0);
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        a = pair[0];
        b = pair[1];
        body(names[i]);
        close(a);
        close(b);
        coir_poller_free(poller);
    }
}

static int wait_one(coir_poller_event *event, coir_time patience)
{
    return coir_poller_wait(poller, event, 1, coir_in(patience));
}

static void levels(const char *name)
{
    coir_poller_event event;
    char byte;
    (void)name;
    CHECK_EQ(coir_poller_add(poller, a, 7, 0), -EINVAL);
    CHECK_EQ(coir_poller_add(poller, -1, 7, COIR_READ), -EBADF);
    CHECK_EQ(coir_poller_add(poller, INT32_MAX, 7, COIR_READ), -EBADF); /* and not -ENOMEM */
    CHECK_EQ(coir_poller_add(poller, a, 7, COIR_READ), 0);
    CHECK_EQ(coir_poller_add(poller, a, 7, COIR_READ), -EEXIST);
    CHECK_EQ(coir_poller_modify(poller, b, 7, COIR_READ), -ENOENT);
    CHECK_EQ(coir_poller_wait(poller, &event, 0, 0), -EINVAL);
    CHECK_EQ(wait_one(&event, 0), 0);
    CHECK_EQ(wait_one(&event, COIR_MS), 0);
    CHECK_EQ(write(b, "xy", 2), 2);
    for (int i = 0; i < 2; i++) { /* as long as it holds */
        CHECK_EQ(wait_one(&event, COIR_S), 1);
        CHECK(event.token == 7 && event.events == COIR_READ);
        CHECK_EQ(read(a, &byte, 1), 1);
    }
    CHECK_EQ(wait_one(&event, 0), 0);
    CHECK_EQ(coir_poller_modify(poller, a, 8, COIR_READ | COIR_WRITE), 0);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK(event.token == 8 && event.events == COIR_WRITE);
    CHECK_EQ(coir_poller_remove(poller, a), 0);
    CHECK_EQ(coir_poller_remove(poller, a), -ENOENT);
    CHECK_EQ(wait_one(&event, 0), 0);
}

TEST(level_triggered)
{
    on_each(levels);
}

/* What is ready together is told one by one, and what was read before its turn is not told. */
static void levels_that_end(const char *name)
{
    coir_poller_event event;
    int others[2];
    char byte;
    (void)name;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, others), 0);
    for (int once = 0; once <= COIR_ONE_SHOT; once += COIR_ONE_SHOT) {
        uint64_t told = 0;
        CHECK_EQ(coir_poller_add(poller, a, 1, COIR_READ | once), 0);
        CHECK_EQ(coir_poller_add(poller, others[0], 2, COIR_READ | once), 0);
        CHECK_EQ(wait_one(&event, 0), 0);
        CHECK_EQ(write(b, "x", 1), 1);
        CHECK_EQ(write(others[1], "x", 1), 1);
        CHECK_EQ(wait_one(&event, COIR_S), 1);
        CHECK_EQ(read(event.token == 1 ? others[0] : a, &byte, 1), 1);
        CHECK_EQ(write(event.token == 1 ? others[1] : b, "x", 1), 1);
        for (int i = 0; i < 2; i++, told = event.token) { /* in turn */
            CHECK_EQ(wait_one(&event, once && i ? 0 : COIR_S), once && i ? 0 : 1);
            CHECK(event.token != told || once);
        }
        CHECK_EQ(coir_poller_modify(poller, a, 1, COIR_READ | once), 0);
        CHECK_EQ(coir_poller_modify(poller, others[0], 2, COIR_READ | once), 0);
        CHECK_EQ(wait_one(&event, COIR_S), 1);
        CHECK_EQ(read(a, &byte, 1), 1);
        CHECK_EQ(read(others[0], &byte, 1), 1);
        CHECK_EQ(wait_one(&event, 0), 0);
        CHECK_EQ(coir_poller_remove(poller, a), 0);
        CHECK_EQ(coir_poller_remove(poller, others[0]), 0);
    }
    close(others[0]);
    close(others[1]);
}

/* What was told as a level is told once more, and once, when it is changed. */
static void a_level_that_becomes_one_shot(const char *name)
{
    coir_poller_event event;
    int others[2];
    (void)name;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, others), 0);
    CHECK_EQ(write(b, "x", 1), 1);
    CHECK_EQ(coir_poller_add(poller, a, 1, COIR_READ), 0);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK_EQ(coir_poller_modify(poller, a, 2, COIR_READ | COIR_ONE_SHOT), 0);
    CHECK_EQ(coir_poller_add(poller, others[0], 3, COIR_READ), 0);
    CHECK_EQ(coir_poller_remove(poller, others[0]), 0); /* it submits, on io_uring */
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK_EQ(event.token, 2);
    CHECK_EQ(wait_one(&event, 0), 0);
    CHECK_EQ(wait_one(&event, 0), 0);
    CHECK_EQ(coir_poller_remove(poller, a), 0);
    close(others[0]);
    close(others[1]);
}

TEST(a_level_that_holds_no_more_is_no_event)
{
    on_each(levels_that_end);
    on_each(a_level_that_becomes_one_shot);
}

static void edges(const char *name)
{
    coir_poller_event event;
    bool real = name[0] != 'p';
    CHECK_EQ(coir_poller_add(poller, a, 1, COIR_READ | COIR_EDGE), 0);
    CHECK_EQ(write(b, "x", 1), 1);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK_EQ(wait_one(&event, 0), real ? 0 : 1); /* over poll(2) it is said as often as it holds */
    CHECK_EQ(write(b, "y", 1), 1);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK_EQ(coir_poller_remove(poller, a), 0);
}

TEST(edge_triggered)
{
    on_each(edges);
}

/* An urgent byte of TCP that waits alone cannot be read by read(2). */
static void urgent(const char *name)
{
    coir_poller_event event;
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof where;
    int listener = socket(AF_INET, SOCK_STREAM, 0), sender = socket(AF_INET, SOCK_STREAM, 0);
    (void)name;
    CHECK_EQ(bind(listener, (struct sockaddr *)&where, len), 0);
    CHECK_EQ(listen(listener, 1), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&where, &len), 0);
    CHECK_EQ(connect(sender, (struct sockaddr *)&where, len), 0);
    int receiver = accept(listener, NULL, NULL);
    CHECK_EQ(coir_poller_add(poller, receiver, 7, COIR_READ | COIR_EDGE), 0);
    CHECK_EQ(send(sender, "!", 1, MSG_OOB), 1);
    CHECK_EQ(wait_one(&event, 0), 0);
    CHECK_EQ(send(sender, "a", 1, 0), 1);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK(event.token == 7 && event.events == COIR_READ);
    CHECK_EQ(coir_poller_remove(poller, receiver), 0);
    close(receiver);
    close(sender);
    close(listener);
}

/* The peer's end is something to read: no event of an interest in writing. */
static void end_of_the_peer(const char *name)
{
    static const int interests[] = {COIR_WRITE | COIR_EDGE, COIR_WRITE | COIR_ONE_SHOT, COIR_WRITE};
    coir_poller_event event;
    char full[4096] = {0};
    (void)name;
    CHECK_EQ(shutdown(b, SHUT_WR), 0);
    while (write(a, full, sizeof full) > 0)
        continue;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(coir_poller_add(poller, a, 7, interests[i]), 0);
        CHECK_EQ(wait_one(&event, 10 * COIR_MS), 0);
        CHECK_EQ(coir_poller_remove(poller, a), 0);
    }
    CHECK_EQ(coir_poller_add(poller, a, 7, COIR_READ | COIR_EDGE), 0);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK_EQ(event.events, COIR_READ);
    CHECK_EQ(coir_poller_remove(poller, a), 0);
}

static void empty(int fd)
{
    char bytes[4096];
    while (read(fd, bytes, sizeof bytes) > 0)
        continue;
}

static void fill(int fd)
{
    static const char bytes[4096];
    while (write(fd, bytes, sizeof bytes) > 0)
        continue;
}

/* Room for what is written to a peer that will send no more. */
static void room_at_a_half_closed_peer(const char *name)
{
    coir_poller_event event;
    (void)name;
    CHECK_EQ(shutdown(b, SHUT_WR), 0);
    fill(a);
    CHECK_EQ(coir_poller_add(poller, a, 7, COIR_WRITE), 0);
    CHECK_EQ(wait_one(&event, 10 * COIR_MS), 0);
    empty(b);
    for (int i = 0; i < 1000; i++) { /* as long as it holds */
        CHECK_EQ(wait_one(&event, COIR_S), 1);
        CHECK_EQ(event.events, COIR_WRITE);
    }
    fill(a);
    CHECK_EQ(wait_one(&event, 10 * COIR_MS), 0);
    CHECK_EQ(coir_poller_modify(poller, a, 7, COIR_WRITE | COIR_ONE_SHOT), 0);
    CHECK_EQ(wait_one(&event, 10 * COIR_MS), 0);
    for (int i = 0; i < 2; i++) { /* once */
        empty(b);
        CHECK_EQ(wait_one(&event, 10 * COIR_MS), 1 - i);
        fill(a);
    }
    CHECK_EQ(coir_poller_remove(poller, a), 0);
}

TEST(room_at_a_half_closed_peer_is_told_as_asked)
{
    on_each(room_at_a_half_closed_peer);
}

TEST(the_end_of_the_peer_is_something_to_read)
{
    on_each(end_of_the_peer);
}

TEST(an_urgent_byte_alone_is_no_event)
{
    on_each(urgent);
}

static void one_shot(const char *name)
{
    coir_poller_event event;
    (void)name;
    CHECK_EQ(coir_poller_add(poller, a, 1, COIR_READ | COIR_ONE_SHOT), 0);
    CHECK_EQ(write(b, "x", 1), 1);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK_EQ(wait_one(&event, 0), 0);
    CHECK_EQ(write(b, "x", 1), 1);
    CHECK_EQ(wait_one(&event, 0), 0);
    CHECK_EQ(coir_poller_modify(poller, a, 2, COIR_READ | COIR_ONE_SHOT), 0);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK_EQ(event.token, 2);
    shutdown(b, SHUT_RDWR);
    CHECK_EQ(coir_poller_modify(poller, a, 3, COIR_READ), 0);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK(event.events & COIR_READ && event.events & COIR_HANGUP);
}

TEST(one_shot_and_hang_up)
{
    on_each(one_shot);
}

/* A number that is closed, reused and registered again gives the new token, and nothing of the old
 * one. */
static void reuse(const char *name)
{
    coir_poller_event event;
    (void)name;
    int old = dup(a);
    CHECK_EQ(coir_poller_add(poller, old, 1, COIR_READ), 0);
    CHECK_EQ(write(b, "x", 1), 1);
    CHECK_EQ(coir_poller_remove(poller, old), 0);
    close(old);
    int again = dup(b);
    CHECK_EQ(again, old);
    CHECK_EQ(coir_poller_add(poller, again, 2, COIR_READ), 0);
    CHECK_EQ(wait_one(&event, 0), 0);
    CHECK_EQ(write(a, "y", 1), 1);
    CHECK_EQ(wait_one(&event, COIR_S), 1);
    CHECK_EQ(event.token, 2);
    CHECK_EQ(coir_poller_remove(poller, again), 0);
    close(again);
}

TEST(a_reused_number_is_another_source)
{
    on_each(reuse);
}

/* ---- sources ---- */

enum { SETS = 20000, SOURCES = 4 };
static coir_source sources[SOURCES];
static sem_t answered;

static void *set_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < SETS; i++) {
        CHECK_EQ(coir_source_set(&sources[i % SOURCES], COIR_READ), 0);
        sem_wait(&answered);
    }
    return NULL;
}

static void own_sources(const char *name)
{
    coir_poller_event events[8];
    pthread_t thread;
    (void)name;
    CHECK_EQ(coir_source_set(&sources[0], COIR_READ), -ENOENT);
    for (uint64_t i = 0; i < SOURCES; i++)
        CHECK_EQ(coir_source_add(&sources[i], poller, 100 + i), 0);
    CHECK_EQ(coir_source_add(&sources[0], poller, 1), -EBUSY);
    CHECK_EQ(coir_source_set(&sources[0], COIR_READ), 0);
    CHECK_EQ(coir_source_set(&sources[0], COIR_WRITE), 0);
    CHECK_EQ(coir_source_set(&sources[1], COIR_READ), 0);
    CHECK_EQ(coir_poller_wait(poller, events, 8, 0), 2);
    CHECK(events[0].token == 100 && events[0].events == (COIR_READ | COIR_WRITE) &&
          events[1].token == 101);
    CHECK_EQ(coir_poller_wait(poller, events, 8, 0), 0);
    CHECK_EQ(coir_poller_add(poller, a, 7, COIR_READ), 0);
    sem_init(&answered, 0, 0);
    pthread_create(&thread, NULL, set_often, NULL);
    for (int i = 0; i < SETS; i++) { /* a wake-up that is lost would wait for ever */
        CHECK_EQ(coir_poller_wait(poller, events, 8, COIR_NEVER), 1);
        CHECK_EQ(events[0].token, 100 + (uint64_t)(i % SOURCES));
        sem_post(&answered);
    }
    pthread_join(thread, NULL);
    sem_destroy(&answered);
    CHECK_EQ(coir_source_set(&sources[2], COIR_READ), 0);
    for (int i = 0; i < SOURCES; i++)
        coir_source_remove(&sources[i]);
    CHECK_EQ(coir_poller_wait(poller, events, 8, 0), 0);
    CHECK_EQ(coir_poller_remove(poller, a), 0);
}

TEST(sources_of_the_programs_own_making)
{
    on_each(own_sources);
}

static bool removed_for_good;

static void *set_until_removed(void *arg)
{
    while (!__atomic_load_n(&removed_for_good, __ATOMIC_ACQUIRE)) {
        int rc = coir_source_set(arg, COIR_READ);
        CHECK(rc == 0 || rc == -ENOENT);
    }
    return NULL;
}

/* What is set while its source is removed is not reported. */
TEST(a_source_is_removed_while_it_is_set)
{
    coir_poller_event event;
    coir_source source = {{0}};
    pthread_t threads[2];
    CHECK_EQ(coir_poller_new(&poller), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, set_until_removed, &source), 0);
    for (int i = 0; i < SETS; i++) {
        CHECK_EQ(coir_source_add(&source, poller, 5), 0);
        int found = coir_poller_wait(poller, &event, 1, 0);
        CHECK(found == 0 || (found == 1 && event.token == 5));
        coir_source_remove(&source);
        CHECK_EQ(coir_poller_wait(poller, &event, 1, 0), 0);
    }
    __atomic_store_n(&removed_for_good, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    coir_poller_free(poller);
}

TEST(an_unknown_driver_is_refused)
{
    CHECK_EQ(coir_poller_new_with(POLLER_ON("none"), &poller), -EINVAL);
    CHECK_EQ(coir_poller_new(&poller), 0);
    coir_poller_free(poller);
    coir_poller_free(NULL);
}

/* ---- arguments ---- */

static void *wait_for_one(void *arg)
{
    int rc;
    while ((rc = coir_poller_wait(arg, &(coir_poller_event){0}, 1, COIR_NEVER)) == -EBUSY)
        sched_yield();
    CHECK_EQ(rc, 1);
    return NULL;
}

TEST(what_cannot_be_right_has_an_error)
{
    coir_poller_event event;
    coir_source source = {{0}};
    pthread_t thread;
    int rc = 0;
    ci_misuse_aborts = false;
    CHECK_EQ(coir_poller_new(NULL), -EINVAL);
    CHECK_EQ(coir_poller_new(&poller), 0);
    CHECK_EQ(coir_poller_add(NULL, 0, 0, COIR_READ), -EINVAL);
    CHECK_EQ(coir_poller_modify(NULL, 0, 0, COIR_READ), -EINVAL);
    CHECK_EQ(coir_poller_remove(NULL, 0), -EINVAL);
    CHECK_EQ(coir_poller_wait(NULL, &event, 1, 0), -EINVAL);
    CHECK_EQ(coir_poller_wait(poller, NULL, 1, 0), -EINVAL);
    CHECK_EQ(coir_source_add(NULL, poller, 0), -EINVAL);
    CHECK_EQ(coir_source_add(&source, NULL, 0), -EINVAL);
    CHECK_EQ(coir_source_set(NULL, COIR_READ), -EINVAL);
    coir_source_remove(NULL);
    CHECK_EQ(coir_source_add(&source, poller, 0), 0);
    CHECK_EQ(coir_source_set(&source, 0), -EINVAL);
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_one, poller), 0);
    while ((rc = coir_poller_wait(poller, &event, 1, 0)) == 0) /* until the other one waits */
        sched_yield();
    CHECK_EQ(rc, -EBUSY);
    CHECK_EQ(coir_source_set(&source, COIR_READ), 0);
    pthread_join(thread, NULL);
    coir_source_remove(&source);
    coir_poller_free(poller);
}
