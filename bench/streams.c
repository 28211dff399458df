/* Streams against bare loops over the same sockets, in interleaved rounds: a broadcast of 1 KiB to
 * 1,000 connections, a copy of 1 GiB, an echo over Unix sockets. CPU of the thread that does the
 * work; what feeds it and takes from it runs on another CPU. Usage: bench_streams broadcast | copy
 * | echo [ROUNDS] */
#include <arpa/inet.h>
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MOST = 101 };
static int rounds = 15;
static double bare[ROUNDS_MOST], ours[ROUNDS_MOST], ratio[ROUNDS_MOST];

static void must(bool right, const char *what)
{
    if (!right) {
        perror(what);
        exit(1);
    }
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu(void)
{
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *what, const char *unit, double goal)
{
    for (int i = 0; i < rounds; i++)
        ratio[i] = ours[i] / bare[i];
    qsort(bare, (size_t)rounds, sizeof *bare, compare);
    qsort(ours, (size_t)rounds, sizeof *ours, compare);
    qsort(ratio, (size_t)rounds, sizeof *ratio, compare);
    printf("%s: coir %.3f, bare %.3f %s; ratio %.3f (quartiles %.3f, %.3f), goal %.2f\n", what,
           ours[rounds / 2], bare[rounds / 2], unit, ratio[rounds / 2], ratio[rounds / 4],
           ratio[3 * rounds / 4], goal);
}

static void print_ratio(const char *what, double *of)
{
    qsort(of, (size_t)rounds, sizeof *of, compare);
    printf("%s: ratio %.3f (quartiles %.3f, %.3f)\n", what, of[rounds / 2], of[rounds / 4],
           of[3 * rounds / 4]);
}

static void set_wait(int fd, bool waits)
{
    fcntl(fd, F_SETFL, waits ? 0 : O_NONBLOCK);
}

/* A TCP connection: fds[0] is the near end. */
static void connect_pair(int fds[2])
{
    static int listener = -1;
    static struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        must(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 10) == 0 &&
                 getsockname(listener, (struct sockaddr *)&at, &len) == 0,
             "listen");
    }
    fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    must(fds[1] >= 0 && connect(fds[1], (struct sockaddr *)&at, sizeof at) == 0, "connect");
    fds[0] = accept(listener, NULL, NULL);
    must(fds[0] >= 0, "accept");
}

/* ---- a broadcast ---- */

enum { RECEIVERS = 1000, MESSAGES = 20, PAYLOAD = 1024 };
static int receivers[RECEIVERS][2];
static coir_write_queue *queues[RECEIVERS];
static char payload[PAYLOAD];

static void send_bare(void)
{
    for (int m = 0; m < MESSAGES; m++)
        for (int i = 0; i < RECEIVERS; i++) {
            struct iovec piece = {payload, PAYLOAD};
            must(writev(receivers[i][0], &piece, 1) == PAYLOAD, "writev");
        }
}

static void send_by_queues(void)
{
    for (int m = 0; m < MESSAGES; m++) {
        coir_buffer *buffer;
        must(coir_buffer_wrap(payload, PAYLOAD, NULL, NULL, &buffer) == 0, "buffer");
        for (int i = 0; i < RECEIVERS; i++)
            must(coir_write_queue_try_push(queues[i], buffer) == 0, "push");
        coir_buffer_unref(buffer);
        must(coir_write_queue_flush(queues[RECEIVERS - 1]) == 0, "flush");
    }
}

/* What has come is taken away, unmeasured. */
static double measured(void (*send)(void))
{
    static char bytes[MESSAGES * PAYLOAD];
    double start = cpu();
    send();
    double used = cpu() - start;
    for (int i = 0; i < RECEIVERS; i++)
        must(recv(receivers[i][1], bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes, "recv");
    return used / (RECEIVERS * MESSAGES) * 1e6;
}

static int broadcast(void *arg)
{
    struct rlimit files = {5000, 5000};
    (void)arg;
    setrlimit(RLIMIT_NOFILE, &files);
    pin(0);
    for (int i = 0; i < RECEIVERS; i++) {
        coir_stream *stream;
        connect_pair(receivers[i]);
        must(coir_stream_adopt(receivers[i][0], &stream) == 0, "adopt");
        must(coir_write_queue_new(stream, &queues[i]) == 0, "queue");
    }
    measured(send_bare);
    measured(send_by_queues);
    for (int i = 0; i < rounds; i++) {
        bare[i] = measured(send_bare);
        ours[i] = measured(send_by_queues);
    }
    print("a broadcast of 1 KiB to 1,000 connections, CPU a delivery", "us", 1.05);
    exit(0);
}

/* ---- a copy ---- */

static const size_t gigabyte = 1 << 30;
static int source[2], sink[2];

static void *feed(void *arg)
{
    static char bytes[256 * 1024];
    size_t left = gigabyte;
    (void)arg;
    pin(1);
    for (ssize_t n; left; left -= (size_t)n)
        if ((n = write(source[1], bytes, left < sizeof bytes ? left : sizeof bytes)) < 0)
            break;
    return NULL;
}

static void *drain(void *arg)
{
    static char bytes[256 * 1024];
    size_t left = gigabyte;
    (void)arg;
    pin(1);
    for (ssize_t n; left; left -= (size_t)n)
        if ((n = recv(sink[1], bytes, sizeof bytes, MSG_TRUNC)) <= 0)
            break;
    return NULL;
}

static void wait_bare(int fd, short events)
{
    struct pollfd ask = {.fd = fd, .events = events};
    poll(&ask, 1, -1);
}

static void copy_bare(void)
{
    int pipes[2];
    must(pipe2(pipes, O_NONBLOCK) == 0, "pipe");
    size_t size = (size_t)fcntl(pipes[1], F_SETPIPE_SZ, 1024 * 1024), left = gigabyte;
    while (left) {
        ssize_t n =
            splice(source[0], NULL, pipes[1], NULL, left < size ? left : size, SPLICE_F_NONBLOCK);
        if (n < 0)
            wait_bare(source[0], POLLIN);
        for (ssize_t m; n > 0; n -= m) {
            m = splice(pipes[0], NULL, sink[0], NULL, (size_t)n, SPLICE_F_NONBLOCK);
            if (m < 0) {
                wait_bare(sink[0], POLLOUT);
                m = 0;
            }
            left -= (size_t)m;
        }
    }
    close(pipes[0]);
    close(pipes[1]);
}

static coir_stream *copied[2];

static void copy_by_coir(void)
{
    must(coir_stream_copy(copied[1], copied[0], gigabyte, NULL) == (ssize_t)gigabyte, "copy");
}

static double copy_once(void (*copy)(void))
{
    pthread_t feeder, drainer;
    pthread_create(&feeder, NULL, feed, NULL);
    pthread_create(&drainer, NULL, drain, NULL);
    double start = cpu();
    copy();
    double used = cpu() - start;
    pthread_join(feeder, NULL);
    pthread_join(drainer, NULL);
    return used;
}

static int copy(void *arg)
{
    (void)arg;
    pin(0);
    connect_pair(source);
    connect_pair(sink);
    must(coir_stream_adopt(source[0], &copied[0]) == 0, "adopt");
    must(coir_stream_adopt(sink[0], &copied[1]) == 0, "adopt");
    for (int i = 0; i < rounds; i++) {
        bare[i] = copy_once(copy_bare);
        ours[i] = copy_once(copy_by_coir);
    }
    print("a copy of 1 GiB from socket to socket, CPU", "s", 1.05);
    exit(0);
}

/* ---- an echo over Unix sockets ---- */

/* The same loop over two sets of sockets costs up to 5 % more or less by where their memory lies.
 * So each round is a process of its own, in which two bare loops and coir take turns; and the ratio
 * of the two bare loops tells what the other ratio is worth. The fourth is the least that a fiber
 * for each connection can cost: the bare loop, which switches to a stack of each connection. */
enum { PEERS = 64, SIZE = 64, ECHOES = 200, TURNS = 6, STACK = 65536 };
enum { BARE, COIR, BARE_TOO, FIBERS, ECHOERS };

struct echoer {
    int near[PEERS], far[PEERS];
    clockid_t clock;
    double cost; /* CPU us of an echo */
};
static struct echoer echoers[ECHOERS];
static pthread_barrier_t ready;
static int results; /* a pipe to the parent */

static void *echo_bare(void *arg)
{
    struct echoer *echoer = arg;
    int epoll = epoll_create1(0);
    char bytes[4096];
    pin(0);
    pthread_getcpuclockid(pthread_self(), &echoer->clock);
    for (int i = 0; i < PEERS; i++)
        epoll_ctl(epoll, EPOLL_CTL_ADD, echoer->near[i],
                  &(struct epoll_event){.events = EPOLLIN, .data.fd = echoer->near[i]});
    pthread_barrier_wait(&ready);
    for (;;) {
        struct epoll_event events[PEERS];
        int count = epoll_wait(epoll, events, PEERS, -1);
        for (int i = 0; i < count; i++) {
            ssize_t n = recv(events[i].data.fd, bytes, sizeof bytes, 0);
            if (n > 0)
                send(events[i].data.fd, bytes, (size_t)n, MSG_NOSIGNAL);
        }
    }
    return NULL;
}

#ifdef __x86_64__
struct fiber {
    int fd;
    void *stack; /* its pointer while another one runs */
};
static void *loop_stack;

/* Pushes the registers that a call preserves, leaves the stack pointer in *FROM, takes TO. */
void switch_stacks(void **from, void *to);
__asm__(".text\n"
        "switch_stacks:\n"
        "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
        "ret\n");

static struct fiber *running;

static void echo_on_a_stack(void)
{
    struct fiber *fiber = running;
    char bytes[4096];
    for (;;) {
        switch_stacks(&fiber->stack, loop_stack);
        ssize_t n = recv(fiber->fd, bytes, sizeof bytes, 0);
        if (n > 0)
            send(fiber->fd, bytes, (size_t)n, MSG_NOSIGNAL);
    }
}

static void run_fiber(struct fiber *fiber)
{
    running = fiber;
    switch_stacks(&loop_stack, fiber->stack);
}

static void *echo_fibers(void *arg)
{
    static struct fiber fibers[PEERS];
    struct echoer *echoer = arg;
    int epoll = epoll_create1(0);
    char *stacks = aligned_alloc(STACK, STACK * PEERS);
    must(stacks, "stacks");
    pin(0);
    pthread_getcpuclockid(pthread_self(), &echoer->clock);
    for (int i = 0; i < PEERS; i++) {
        void **top = (void **)(void *)(stacks + (i + 1) * STACK) - 8 * (i % 16 + 1);
        top[-2] = (void *)echo_on_a_stack;
        fibers[i] = (struct fiber){.fd = echoer->near[i], .stack = top - 8};
        run_fiber(&fibers[i]);
        epoll_ctl(epoll, EPOLL_CTL_ADD, fibers[i].fd,
                  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &fibers[i]});
    }
    pthread_barrier_wait(&ready);
    for (;;) {
        struct epoll_event events[PEERS];
        int count = epoll_wait(epoll, events, PEERS, -1);
        for (int i = 0; i < count; i++)
            run_fiber(events[i].data.ptr);
    }
    return NULL;
}
#else
#define echo_fibers echo_bare
#endif

static double talk(const struct echoer *to)
{
    char bytes[SIZE] = {0};
    double start = seconds_of(to->clock);
    for (int e = 0; e < ECHOES; e++) {
        for (int i = 0; i < PEERS; i++)
            must(send(to->far[i], bytes, SIZE, MSG_NOSIGNAL) == SIZE, "send");
        for (int i = 0; i < PEERS; i++)
            must(recv(to->far[i], bytes, SIZE, MSG_WAITALL) == SIZE, "recv");
    }
    return (seconds_of(to->clock) - start) / (ECHOES * PEERS) * 1e6;
}

static void *talk_to_each(void *arg)
{
    double costs[ECHOERS];
    (void)arg;
    pin(1);
    pthread_barrier_wait(&ready);
    for (int turn = -1; turn < TURNS; turn++) /* the first is not counted */
        for (int i = 0; i < ECHOERS; i++) {
            struct echoer *echoer = &echoers[(i + turn + 1) % ECHOERS];
            double cost = talk(echoer);
            echoer->cost += turn < 0 ? 0 : cost / TURNS;
        }
    for (int i = 0; i < ECHOERS; i++)
        costs[i] = echoers[i].cost;
    must(write(results, costs, sizeof costs) == sizeof costs, "write");
    exit(0);
}

static int echo_one(void *arg)
{
    char bytes[4096];
    ssize_t n;
    while ((n = coir_read(arg, bytes, sizeof bytes)) > 0)
        coir_write_all(arg, bytes, (size_t)n);
    return (int)n;
}

static int echo_once(void *arg)
{
    pthread_t thread;
    (void)arg;
    pin(0);
    pthread_getcpuclockid(pthread_self(), &echoers[COIR].clock);
    pthread_barrier_init(&ready, NULL, ECHOERS + 1);
    COIR_SCOPE(scope);
    for (int i = 0; i < ECHOERS * PEERS; i++) {
        struct echoer *echoer = &echoers[i % ECHOERS];
        int fds[2];
        coir_stream *stream;
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
        echoer->near[i / ECHOERS] = fds[0];
        echoer->far[i / ECHOERS] = fds[1];
        set_wait(fds[0], false);
        if (echoer == &echoers[COIR])
            must(coir_stream_adopt(fds[0], &stream) == 0 && coir_go(scope, echo_one, stream) == 0,
                 "go");
    }
    pthread_create(&thread, NULL, echo_bare, &echoers[BARE]);
    pthread_create(&thread, NULL, echo_bare, &echoers[BARE_TOO]);
    pthread_create(&thread, NULL, echo_fibers, &echoers[FIBERS]);
    pthread_create(&thread, NULL, talk_to_each, NULL);
    pthread_barrier_wait(&ready);
    return coir_scope_wait(scope);
}

static int echo(void)
{
    int ends[2];
    double costs[ECHOERS], null[ROUNDS_MOST], fibers[ROUNDS_MOST], to_fibers[ROUNDS_MOST];
    must(pipe(ends) == 0, "pipe");
    results = ends[1];
    for (int i = 0; i < rounds; i++) {
        if (fork() == 0)
            exit(coir_main(echo_once, NULL));
        must(read(ends[0], costs, sizeof costs) == sizeof costs, "read");
        wait(NULL);
        bare[i] = (costs[BARE] + costs[BARE_TOO]) / 2;
        ours[i] = costs[COIR];
        null[i] = costs[BARE_TOO] / costs[BARE];
        fibers[i] = costs[FIBERS] / bare[i];
        to_fibers[i] = costs[COIR] / costs[FIBERS];
    }
    print("an echo of 64 bytes over 64 Unix sockets, CPU", "us", 1.03);
    print_ratio("the bare loop beside itself", null);
#ifdef __x86_64__
    print_ratio("the bare loop with a stack for each connection, to the bare loop", fibers);
    print_ratio("coir to the bare loop with a stack for each connection", to_fibers);
#endif
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc > 2)
        rounds = atoi(argv[2]);
    if (rounds < 1 || rounds > ROUNDS_MOST)
        return 2;
    setenv("COIR_WORKERS", "1", 1);
    setenv("COIR_LOG", "warning", 1);
    return strcmp(what, "echo") == 0
               ? echo()
               : coir_main(strcmp(what, "copy") == 0 ? copy : broadcast, NULL);
}
