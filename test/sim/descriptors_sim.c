/* Descriptors that are the program's own: fibers wait for pipes whose numbers are closed and reused
 * at once, while threads beside the runtime ask a poller of their own, and run a loop with
 * callbacks. Only over the simulated kernel: the simulator's own driver has no descriptors.
 *
 * What must hold:
 * 1. What a wait says holds, for the file that has the number now: nothing of an earlier file is
 *    told, even one that lives on under another number.
 * 2. A wait ends soon after what it waits for has come.
 * 3. The poller reports each byte, and each source that was set, until the thread has seen it; or
 *    the source is removed, whose set is refused then (-ENOENT).
 * 4. What is written to a full pipe comes when there is room, whole and in order.
 * 5. A loop calls a watch for each byte and, while it is started, for room; it runs until the last
 *    watch is stopped that is not weak, and while it is held or calls are posted, which are made
 *    in order; a call that is waited for gives its result back.
 * 6. A loop may be freed as soon as its run has returned: the thread whose call has ended the run
 *    does not use it after that, and what is posted until then is called, also by the outcomes of
 *    writes that the free ends. */
#include <coir.h>
#include <coir/loop.h>
#include <coir/loop_tcp.h>
#include <coir/poller.h>
#include <coir/sim.h>
#include <stdlib.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { WAITERS = 3, ROUNDS = 6, PIPES = 3, BYTES_MOST = 8, SOURCES = 2, COPIES_FROM = 300 };
enum { BLOCKS_MOST = 100 /* of a loop */, SPOILT = 0xa5 };
static const coir_time patience = 5 * COIR_S;

static struct {
    coir_poller *poller;
    int pipes[PIPES][2], interests[PIPES]; /* of the poller */
    int written[PIPES], read[PIPES];
    coir_source sources[SOURCES];
    bool was_set[SOURCES], was_reported[SOURCES];
    coir_source flickering; /* is added and removed all the time */
    bool flickers;
} w;

static void make_pipe(int ends[2])
{
    MUST_BE(pipe2(ends, O_NONBLOCK), 0);
}

/* Whether all that a wait has said holds. */
static bool holds(int fd, int events)
{
    struct pollfd ask = {.fd = fd, .events = POLLIN | POLLOUT};
    MUST(poll(&ask, 1, 0) >= 0);
    int gone = ask.revents & (POLLHUP | POLLERR);
    return (!(events & COIR_READ) || ask.revents & POLLIN || gone) &&
           (!(events & COIR_WRITE) || ask.revents & POLLOUT || gone) &&
           (!(events & COIR_HANGUP) || ask.revents & POLLHUP) &&
           (!(events & COIR_EVENT_ERROR) || ask.revents & POLLERR);
}

static void rest(void)
{
    MUST_BE(coir_sleep_for((coir_time)below((uint64_t)(2 * COIR_MS) >> below(8))), 0);
}

/* ---- fibers that wait ---- */

static int write_later(void *arg)
{
    int fd = *(const int *)arg;
    rest();
    MUST_BE(below(2) ? coir_fd_write(fd, "x", 1) : write(fd, "x", 1), 1);
    return 0;
}

/* In vain, nearly always: the registration stays behind. */
static void give_up_waiting(int fd)
{
    COIR_DEADLINE(coir_in((coir_time)below(30 * COIR_US)));
    int rc = coir_fd_wait(fd, COIR_READ);
    MUST(rc == -ETIME || (rc > 0 && holds(fd, rc)));
}

/* As a case of a select; the other one is often too soon, and then nothing is told. */
static int select_byte(int fd)
{
    for (;;) {
        coir_case cases[] = {coir_case_fd(fd, COIR_READ),
                             coir_case_after((coir_time)below((uint64_t)COIR_MS >> below(8)))};
        int won = coir_select(cases, 2);
        MUST(won >= 0 && cases[won].result >= 0);
        if (won == 0)
            return (int)cases[0].result;
    }
}

static void wait_for_byte(int ends[2])
{
    char byte;
    COIR_DEADLINE(coir_in(patience));
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, write_later, &ends[1]), 0);
    if (below(2)) {
        MUST_BE(coir_fd_read(ends[0], &byte, 1), 1);
    } else {
        int events = below(2) ? coir_fd_wait(ends[0], COIR_READ) : select_byte(ends[0]);
        MUST(events > 0 && events & COIR_READ && holds(ends[0], events));
        MUST_BE(read(ends[0], &byte, 1), 1);
    }
    MUST_BE(coir_scope_wait(scope), 0);
}

/* The number of a file that lives on, in `copy`, is given to another one, and then something
 * happens to the first. */
static void reuse_number(int copy)
{
    int first[2], second[2];
    make_pipe(first);
    give_up_waiting(first[0]);
    MUST_BE(dup2(first[0], copy), copy);
    close(first[0]);
    make_pipe(second);
    if (below(2))
        give_up_waiting(second[0]);
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, write_later, &first[1]), 0);
    for (int i = 0; i < 3; i++)
        give_up_waiting(second[0]);
    MUST_BE(coir_scope_wait(scope), 0);
    give_up_waiting(second[0]);
    wait_for_byte(second);
    close(copy);
    close(first[1]);
    close(second[0]);
    close(second[1]);
}

/* The other end, which was written to or not, is closed: the hang-up, and the byte, are this
 * pipe's alone. */
static void wait_for_end(int ends[2])
{
    COIR_DEADLINE(coir_in(patience));
    if (below(2))
        MUST_BE(write(ends[1], "x", 1), 1);
    close(ends[1]);
    int events = coir_fd_wait(ends[0], COIR_READ);
    MUST(events & COIR_HANGUP && holds(ends[0], events));
    close(ends[0]);
}

static int read_slowly(void *arg)
{
    const int *ends = arg;
    unsigned char bytes[5000];
    size_t seen = 0;
    for (ssize_t n; (n = coir_fd_read(ends[0], bytes, 1 + below(sizeof bytes))) != 0;) {
        MUST(n > 0);
        MUST(bytes_are(bytes, 0, seen, (size_t)n));
        seen += (size_t)n;
        if (below(4) == 0)
            rest();
    }
    return 0;
}

/* More than a pipe holds. */
static void fill_pipe(void)
{
    static char bytes[128000];
    int ends[2];
    make_pipe(ends);
    bytes_make(bytes, 0, 0, sizeof bytes);
    COIR_DEADLINE(coir_in(patience));
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, read_slowly, ends), 0);
    for (size_t sent = 0; sent < sizeof bytes;) {
        ssize_t n = coir_fd_write(ends[1], bytes + sent, sizeof bytes - sent);
        MUST(n > 0);
        sent += (size_t)n;
    }
    close(ends[1]);
    MUST_BE(coir_scope_wait(scope), 0);
    close(ends[0]);
}

/* Both directions at once: the newest file that has the number is ready for one of them only. */
static void wait_for_both(void)
{
    int ends[2];
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    if (below(2))
        MUST_BE(write(ends[1], "x", 1), 1);
    int events = coir_fd_wait(ends[0], COIR_READ | COIR_WRITE);
    MUST(events > 0 && holds(ends[0], events));
    close(ends[0]);
    close(ends[1]);
}

struct room {
    int fd;
    coir_time gives_up;
};

static int wait_for_room(void *arg)
{
    const struct room *room = arg;
    int events;
    COIR_DEADLINE(room->gives_up);
    do /* io_uring tells the wake-ups for nothing that the simulated kernel makes */
        events = coir_fd_wait(room->fd, COIR_WRITE);
    while (events > 0 && !holds(room->fd, events));
    MUST(events > 0 || (events == -ETIME && room->gives_up != COIR_NEVER));
    return 0;
}

/* Two tasks wait for one descriptor, each for its direction: neither hears of the other one's
 * event, nor of its end. */
static void wait_for_each(void)
{
    static const char bytes[4096];
    char byte;
    int ends[2];
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    while (write(ends[0], bytes, sizeof bytes) > 0)
        continue;
    struct room room = {ends[0], below(2) ? COIR_NEVER : coir_in((coir_time)below(30 * COIR_US))};
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, wait_for_room, &room), 0);
    if (below(2))
        rest();
    wait_for_byte(ends);
    if (room.gives_up == COIR_NEVER) {
        char taken[4096];
        rest();
        while (read(ends[1], taken, sizeof taken) > 0)
            continue;
    }
    MUST_BE(coir_scope_wait(scope), 0);
    MUST_BE(read(ends[0], &byte, 1), -1);
    close(ends[0]);
    close(ends[1]);
}

static int write_late(void *arg)
{
    MUST_BE(coir_sleep_for(300 * COIR_MS), 0);
    MUST_BE(write(*(const int *)arg, "x", 1), 1);
    return 0;
}

/* There is room all the time, of which only one wait is told: the other one sleeps. */
static void wait_beside_room(void)
{
    int ends[2], events;
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    struct room room = {ends[0], COIR_NEVER};
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, wait_for_room, &room), 0);
    MUST_BE(coir_go(scope, write_late, &ends[1]), 0);
    do /* as wait_for_room */
        events = coir_fd_wait(ends[0], COIR_READ);
    while (events > 0 && !holds(ends[0], events));
    MUST(events > 0 && events & COIR_READ);
    MUST_BE(coir_scope_wait(scope), 0);
    close(ends[0]);
    close(ends[1]);
}

static int be_a_waiter(void *arg)
{
    int number = *(const int *)arg;
    for (int i = 0; i < ROUNDS; i++) {
        int ends[2];
        reuse_number(COPIES_FROM + number);
        if (below(2))
            wait_for_both();
        if (below(2))
            wait_for_each();
        if (below(12) == 0)
            fill_pipe();
        if (below(12) == 0)
            wait_beside_room();
        make_pipe(ends);
        for (uint64_t j = below(3); j; j--)
            wait_for_byte(ends);
        if (below(3) == 0) {
            wait_for_end(ends);
            continue;
        }
        close(ends[0]);
        if (below(2))
            rest();
        close(ends[1]);
    }
    return 0;
}

/* ---- a poller beside them ---- */

static void set_flickering(void)
{
    int rc = coir_source_set(&w.flickering, COIR_READ);
    MUST(rc == 0 || rc == -ENOENT);
}

static int feed_poller(void *arg)
{
    (void)arg;
    for (int i = 0; i < PIPES * BYTES_MOST; i++) {
        int pipe = (int)below(PIPES);
        rest();
        w.written[pipe]++;
        MUST_BE(write(w.pipes[pipe][1], "x", 1), 1);
        if (i % 3 == 0)
            set_flickering(); /* as the thread wakes up */
    }
    for (int i = 0; i < SOURCES; i++) {
        rest();
        w.was_set[i] = true;
        MUST_BE(coir_source_set(&w.sources[i], COIR_READ), 0);
    }
    return 0;
}

/* A ring that the kernel refuses to enter for want of memory takes no request meanwhile. */
static void modify_pipe(int pipe)
{
    int rc;
    while ((rc = coir_poller_modify(w.poller, w.pipes[pipe][0], (uint64_t)pipe,
                                    w.interests[pipe])) == -ENOMEM)
        usleep(100);
    MUST_BE(rc, 0);
}

static void read_pipe(int pipe)
{
    char bytes[BYTES_MOST];
    ssize_t n;
    while ((n = read(w.pipes[pipe][0], bytes, 1 + below(sizeof bytes))) > 0)
        w.read[pipe] += (int)n;
    MUST(w.read[pipe] <= w.written[pipe]);
    if (w.interests[pipe] & COIR_ONE_SHOT)
        modify_pipe(pipe);
}

static bool poller_is_done(void)
{
    int sum = 0;
    for (int i = 0; i < PIPES; i++)
        sum += w.read[i];
    for (int i = 0; i < SOURCES; i++)
        if (!w.was_reported[i])
            return false;
    return sum == PIPES * BYTES_MOST;
}

/* As modify_pipe. */
static void add_pipe(int pipe)
{
    int rc;
    while ((rc = coir_poller_add(w.poller, w.pipes[pipe][0], (uint64_t)pipe, w.interests[pipe])) ==
           -ENOMEM)
        usleep(100);
    MUST_BE(rc, 0);
}

static void open_poller(void)
{
    static const char *const drivers[] = {"epoll", "io_uring", "poll", "kqueue"};
    static const int triggers[] = {0, COIR_EDGE, COIR_ONE_SHOT};
    coir_poller_options options = COIR_POLLER_OPTIONS;
    options.driver = drivers[below(4)];
    MUST_BE(coir_poller_new_with(&options, &w.poller), 0);
    for (int i = 0; i < PIPES; i++) {
        make_pipe(w.pipes[i]);
        w.interests[i] = COIR_READ | triggers[below(3)];
        add_pipe(i);
    }
    for (int i = 0; i < SOURCES; i++)
        MUST_BE(coir_source_add(&w.sources[i], w.poller, (uint64_t)(PIPES + i)), 0);
}

static void flicker(void)
{
    if ((w.flickers = !w.flickers))
        MUST_BE(coir_source_add(&w.flickering, w.poller, PIPES + SOURCES), 0);
    else
        coir_source_remove(&w.flickering);
}

static void close_poller(void)
{
    coir_source_remove(&w.flickering);
    for (int i = 0; i < SOURCES; i++)
        coir_source_remove(&w.sources[i]);
    for (int i = 0; i < PIPES; i++) {
        MUST_BE(coir_poller_remove(w.poller, w.pipes[i][0]), 0);
        close(w.pipes[i][0]);
        close(w.pipes[i][1]);
    }
    coir_poller_free(w.poller);
}

/* On a thread of its own. */
static int use_poller(void *arg)
{
    (void)arg;
    while (!poller_is_done()) {
        coir_poller_event events[4];
        int n = coir_poller_wait(w.poller, events, 1 + below(4), coir_in(patience));
        MUST(n > 0 || n == -EINTR);
        for (int i = 0; i < n; i++) {
            int token = (int)events[i].token;
            if (token < PIPES) {
                read_pipe(token);
                continue;
            }
            if (token == PIPES + SOURCES) {
                MUST(w.flickers);
                continue;
            }
            MUST(w.was_set[token - PIPES] && !w.was_reported[token - PIPES]);
            w.was_reported[token - PIPES] = true;
        }
        flicker();
    }
    close_poller();
    return 0;
}

static int run_poller(void *arg)
{
    return coir_offload(use_poller, arg);
}

/* ---- a loop beside them ---- */

static struct {
    coir_loop *loop;
    int ends[2];
    coir_watch bytes, room;
    int got, called;
    bool looks_for_room;
} l;

static void on_room(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    const bool *once = arg;
    MUST(events & COIR_WRITE && l.looks_for_room);
    l.looks_for_room = !*once && below(2);
    if (!l.looks_for_room && !*once)
        coir_watch_stop(loop, watch);
}

/* The loop does not run for it. */
static void look_for_room(coir_loop *loop)
{
    static bool once;
    once = below(2);
    int rc = coir_watch_start(loop, &l.room, l.ends[0],
                              COIR_WRITE | COIR_WATCH_WEAK | (once ? COIR_WATCH_ONCE : 0), on_room,
                              &once);
    MUST(rc == 0 || rc == -ENOMEM);
    l.looks_for_room = rc == 0;
}

static void on_byte(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    char byte;
    (void)arg;
    MUST(events & COIR_READ);
    l.got += read(l.ends[0], &byte, 1) == 1; /* io_uring: as wait_for_room */
    if (l.got == BYTES_MOST)
        coir_watch_stop(loop, watch);
    else if (!l.looks_for_room)
        look_for_room(loop);
}

static void be_called(void *arg)
{
    MUST_BE((intptr_t)arg, l.called++);
}

static int answer_slowly(void *arg)
{
    usleep((useconds_t)below(100));
    be_called(arg);
    return l.called;
}

/* Who never waits for a call gets ahead of the loop. */
static void *feed_loop(void *arg)
{
    bool waits = below(2);
    (void)arg;
    for (intptr_t i = 0; i < BYTES_MOST; i++) {
        do /* again, where the loop has left no room: as modify_pipe */
            usleep((useconds_t)below(500));
        while (write(l.ends[1], "x", 1) != 1);
        if (waits && below(2))
            MUST_BE(coir_loop_call(l.loop, answer_slowly, (void *)i), i + 1);
        else
            MUST_BE(coir_loop_post(l.loop, be_called, (void *)i), 0);
    }
    coir_loop_release(l.loop);
    return NULL;
}

static void *post_and_release(void *arg)
{
    MUST_BE(coir_loop_post(l.loop, be_called, arg), 0);
    coir_loop_release(l.loop);
    return NULL;
}

/* The loop may look for what is left just then. */
static void run_for_a_post(void)
{
    pthread_t poster;
    coir_loop_hold(l.loop);
    MUST_BE(pthread_create(&poster, NULL, post_and_release, (void *)(intptr_t)l.called), 0);
    usleep((useconds_t)below(5));
    int called = l.called;
    MUST_BE(coir_loop_run(l.loop), 0);
    MUST_BE(l.called, called + 1); /* 5 */
    MUST_BE(pthread_join(poster, NULL), 0);
}

static const char *const drivers[] = {NULL, "epoll", "io_uring", "poll"};

static void *take_memory(size_t bytes, void *arg)
{
    (void)arg;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static struct block {
    unsigned char *memory;
    size_t bytes;
} freed[BLOCKS_MOST];
static size_t freed_count;

/* It is kept for a while: nobody may change it any more. */
static void spoil_memory(void *memory, size_t bytes, void *arg)
{
    (void)arg;
    MUST(freed_count < BLOCKS_MOST);
    memset(memory, SPOILT, bytes);
    freed[freed_count++] = (struct block){memory, bytes};
}

static void free_spoilt(void)
{
    while (freed_count) {
        const struct block *block = &freed[--freed_count];
        for (size_t i = 0; i < block->bytes; i++)
            MUST_BE(block->memory[i], SPOILT); /* 6 */
        free(block->memory);
    }
}

static void open_loop(coir_loop **ret_loop, const char *driver)
{
    static const coir_allocator spoiling = COIR_ALLOCATOR(take_memory, spoil_memory, NULL);
    coir_loop_options options = COIR_LOOP_OPTIONS;
    options.driver = driver;
    options.allocator = &spoiling;
    MUST_BE(coir_loop_new_with(&options, ret_loop), 0);
}

/* ---- a loop that is freed at once ---- */

static struct {
    coir_loop *loop;
    coir_socket *socket;
    coir_queued_write write;
    coir_timer tick;
    int posted, called, ticks;
} last;

static void count_call(void *arg)
{
    if (arg)
        coir_loop_stop(last.loop);
    last.called++;
}

static int count_and_stop(void *arg)
{
    count_call(arg);
    return 0;
}

static void post_one(void *arg)
{
    last.posted++;
    MUST_BE(coir_loop_post(last.loop, count_call, arg), 0);
}

/* A release does not, where a socket is left. */
static void *end_run(void *arg)
{
    const bool *writes = arg;
    switch (below(*writes ? 3 : 4)) {
    case 0: coir_loop_stop(last.loop); break;
    case 1: post_one(&last); break;
    case 2:
        last.posted++;
        MUST_BE(coir_loop_call(last.loop, count_and_stop, &last), 0);
        break;
    default: coir_loop_release(last.loop);
    }
    return NULL;
}

static void on_no_answer(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket, (void)arg;
    MUST(result < 0);
}

static void on_not_written(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)socket, (void)write;
    MUST(result < 0);
    post_one(arg);
}

/* It never ends by itself. */
static void begin_to_write(void)
{
    MUST_BE(coir_socket_connect(last.loop, "192.0.2.1:7", on_no_answer, NULL, &last.socket), 0);
    MUST_BE(coir_socket_write(last.socket, &last.write, "x", 1, on_not_written, NULL), 0);
}

/* So that the loop does not sleep yet when its run is to end. */
static void on_tick(coir_loop *loop, coir_timer *timer, void *arg)
{
    if (last.ticks-- > 0)
        coir_timer_start(loop, timer, 0, on_tick, arg);
}

static void run_and_free(void)
{
    pthread_t thread;
    bool writes = below(6) == 0;
    memset(&last, 0, sizeof last);
    open_loop(&last.loop, writes ? drivers[below(4)] : "poll"); /* which is freed the soonest */
    if (writes)
        begin_to_write();
    last.ticks = (int)below(40);
    coir_timer_start(last.loop, &last.tick, 0, on_tick, NULL);
    coir_loop_hold(last.loop);
    MUST_BE(pthread_create(&thread, NULL, end_run, &writes), 0);
    MUST_BE(coir_loop_run(last.loop), 0);
    coir_loop_free(last.loop);
    MUST_BE(last.called, last.posted); /* 6 */
    MUST(!writes || last.posted);
    MUST_BE(pthread_join(thread, NULL), 0);
    free_spoilt();
}

/* On a thread of its own. */
static int use_loop(void *arg)
{
    pthread_t feeder;
    (void)arg;
    open_loop(&l.loop, drivers[below(4)]);
    MUST_BE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, l.ends), 0);
    while (coir_watch_start(l.loop, &l.bytes, l.ends[0], COIR_READ, on_byte, NULL) == -ENOMEM)
        usleep(100);
    coir_loop_hold(l.loop);
    MUST_BE(pthread_create(&feeder, NULL, feed_loop, NULL), 0);
    MUST_BE(coir_loop_run(l.loop), 0);
    MUST(l.got == BYTES_MOST && l.called == BYTES_MOST); /* 5 */
    MUST_BE(pthread_join(feeder, NULL), 0);
    for (uint64_t i = below(24); i; i--)
        run_for_a_post();
    coir_loop_free(l.loop);
    free_spoilt();
    close(l.ends[0]);
    close(l.ends[1]);
    for (uint64_t i = below(4); i; i--)
        run_and_free();
    return 0;
}

static int run_loop(void *arg)
{
    return coir_offload(use_loop, arg);
}

/* ---- all of it ---- */

/* The newest events of each worker, as one JSON text. */
static void read_trace(void)
{
    static char text[1 << 17];
    int ends[2];
    make_pipe(ends);
    MUST_BE(coir_trace_write(ends[1]), 0);
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n = 1; n > 0; len += n > 0 ? (size_t)n : 0)
        MUST((n = read(ends[0], text + len, sizeof text - len)) >= 0);
    close(ends[0]);
    while (len && text[len - 1] == '\n')
        len--;
    MUST(len && text[0] == '{' && text[len - 1] == '}');
    MUST_BE(coir_trace_stop(), 0);
}

static int use_all(void)
{
    static int numbers[WAITERS];
    COIR_SCOPE(scope);
    for (int i = 0; i < WAITERS; i++) {
        numbers[i] = i;
        MUST_BE(coir_go_anywhere(scope, be_a_waiter, &numbers[i]), 0);
    }
    open_poller();
    MUST_BE(coir_go(scope, run_poller, NULL), 0);
    if (below(2))
        MUST_BE(coir_go(scope, run_loop, NULL), 0);
    MUST_BE(coir_go_anywhere(scope, feed_poller, NULL), 0);
    return coir_scope_wait(scope);
}

static int play(void *arg)
{
    (void)arg;
    bool traced = below(3) == 0;
    if (traced)
        MUST_BE(coir_trace_start(1 + below(60)), 0);
    int rc = use_all();
    if (traced)
        read_trace();
    return rc;
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    memset(&l, 0, sizeof l);
    freed_count = 0;
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}
