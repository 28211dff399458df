/* A load of HTTP/1.1 requests from one thread, over a plain epoll loop: it shares no code with what
 * it measures.
 *
 *   bench_load PORT [-c CONNECTIONS] [-p REQUESTS_IN_FLIGHT] [-k REQUESTS_A_CONNECTION]
 *              [-r REQUESTS_A_SECOND] [-i IDLE_CONNECTIONS] [-s SECONDS] [-u PATH]
 *
 * With -r, requests are due at a constant rate, whatever the server does, and the latency of each
 * is counted from when it was due: a server that stalls is charged for every request that waited,
 * not only for the one that it was given. Without it a request is sent as soon as an answer has
 * come. With -i, so many more connections are opened at first, ask once, and then stay as they are.
 * Prints: requests, failed connections, and the latencies in microseconds. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    INPUT = 65536,
    IN_FLIGHT_MAX = 64,
    EVENTS = 512,
    ADDRESS_CONNECTIONS = 20000, /* from one source address, whose ports are 28,000 */
    STEPS = 32,                  /* buckets of the histogram for each power of two */
    BUCKETS = 64 * STEPS,
};

struct connection {
    int fd;
    bool idle;                      /* asks once, and is not counted */
    unsigned in_flight, first;      /* requests without their answer: a ring of when each was due */
    uint64_t due_ns[IN_FLIGHT_MAX]; /* or was sent */
    unsigned long asked;            /* on this connection */
    size_t body_left;               /* of the answer that is being received */
    size_t head_size;
    char head[4096];
};

struct load {
    int port, epoll;
    unsigned connections, in_flight, per_connection, idle;
    double rate, seconds;
    char requests[IN_FLIGHT_MAX * 1024], last[1024];
    size_t request_size, last_size;
    unsigned long sent, answered, failed, idle_answered, opened;
    uint64_t start_ns, end_ns;
    uint64_t histogram[BUCKETS];
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* ---- latencies: buckets that are 1/32 of their value wide ---- */

static unsigned bucket_of(uint64_t ns)
{
    if (ns < STEPS)
        return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    return (power - 4) * STEPS + (unsigned)(ns >> (power - 5)) % STEPS;
}

static double bucket_us(unsigned bucket)
{
    if (bucket < STEPS)
        return bucket / 1e3;
    unsigned power = bucket / STEPS + 4;
    return (double)((uint64_t)(STEPS + bucket % STEPS) << (power - 5)) / 1e3;
}

static double percentile_us(const struct load *load, double percent)
{
    double wanted = (double)load->answered * percent / 100, seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += (double)load->histogram[i];
        if (seen >= wanted && seen > 0)
            return bucket_us(i);
    }
    return 0;
}

/* ---- connections ---- */

static void connection_open(struct load *load, struct connection *connection)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    unsigned address = (unsigned)(load->opened++ / ADDRESS_CONNECTIONS % 100);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + address);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)load->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        fail("socket");
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0)
        fail("bind");
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->fd = fd;
    connection->in_flight = connection->first = 0;
    connection->asked = connection->body_left = connection->head_size = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

static bool used_up(const struct load *load, const struct connection *connection)
{
    return load->per_connection && connection->asked == load->per_connection;
}

/* Sends requests that are due at these times in one call. The last of a connection says so. */
static void ask(struct load *load, struct connection *connection, const uint64_t *due_ns,
                unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        connection->due_ns[(connection->first + connection->in_flight++) % IN_FLIGHT_MAX] =
            due_ns[i];
    connection->asked += count;
    bool last = used_up(load, connection);
    struct iovec parts[] = {
        {.iov_base = load->requests, .iov_len = (count - last) * load->request_size},
        {.iov_base = load->last, .iov_len = last ? load->last_size : 0},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    size_t size = parts[0].iov_len + parts[1].iov_len;
    if (sendmsg(connection->fd, &message, MSG_NOSIGNAL) != (ssize_t)size)
        load->failed++;
    load->sent += count;
}

/* Without a rate: as many as may be in flight. */
static void ask_at_once(struct load *load, struct connection *connection, uint64_t now)
{
    uint64_t due_ns[IN_FLIGHT_MAX];
    unsigned count = load->in_flight - connection->in_flight;
    if (load->per_connection && load->per_connection - connection->asked < count)
        count = (unsigned)(load->per_connection - connection->asked);
    for (unsigned i = 0; i < count; i++)
        due_ns[i] = now;
    if (count)
        ask(load, connection, due_ns, count);
}

/* ---- answers ---- */

static size_t content_length(const char *head, size_t size)
{
    static const char name[] = "content-length:";
    for (size_t at = 0; at + sizeof name < size; at++)
        if (head[at] == '\n' && strncasecmp(head + at + 1, name, sizeof name - 1) == 0)
            return strtoul(head + at + sizeof name, NULL, 10);
    return 0;
}

static void answered(struct load *load, struct connection *connection, uint64_t now)
{
    if (connection->idle) {
        load->idle_answered++;
    } else if (now >= load->start_ns) {
        load->answered++;
        load->histogram[bucket_of(now - connection->due_ns[connection->first])]++;
    }
    connection->first = (connection->first + 1) % IN_FLIGHT_MAX;
    connection->in_flight--;
}

/* Takes one more byte of a head, and is true when that has ended it. */
static bool head_ends(struct connection *connection, char byte)
{
    if (connection->head_size == sizeof connection->head)
        connection->head_size = 0; /* not HTTP: it will be noticed by the time that it takes */
    connection->head[connection->head_size++] = byte;
    return connection->head_size >= 4 &&
           memcmp(connection->head + connection->head_size - 4, "\r\n\r\n", 4) == 0;
}

static void take(struct load *load, struct connection *connection, const char *data, size_t size,
                 uint64_t now)
{
    for (size_t at = 0; at < size;) {
        if (connection->body_left) {
            size_t part = size - at < connection->body_left ? size - at : connection->body_left;
            at += part;
            connection->body_left -= part;
        } else if (head_ends(connection, data[at++])) {
            connection->body_left = content_length(connection->head, connection->head_size);
            connection->head_size = 0;
        } else {
            continue;
        }
        if (!connection->body_left && connection->in_flight)
            answered(load, connection, now);
    }
}

/* Reads what there is. A connection that has ended is opened again. */
static void receive(struct load *load, struct connection *connection)
{
    static char input[INPUT];
    ssize_t n = recv(connection->fd, input, sizeof input, MSG_DONTWAIT);
    if (n > 0) {
        take(load, connection, input, (size_t)n, now_ns());
    } else if (n == 0 || errno != EAGAIN) {
        if (connection->in_flight || !used_up(load, connection))
            load->failed++;
        close(connection->fd);
        connection_open(load, connection);
    }
}

/* ---- the loop ---- */

static struct connection *free_connection(struct load *load, struct connection *all, unsigned *next)
{
    for (unsigned i = 0; i < load->connections; i++) {
        struct connection *connection = &all[(*next + i) % load->connections];
        if (connection->in_flight < load->in_flight && !used_up(load, connection)) {
            *next = (*next + i + 1) % load->connections;
            return connection;
        }
    }
    return NULL;
}

/* Sends what is due and finds a connection; the rest stays due. Returns the time to the next. */
static uint64_t ask_what_is_due(struct load *load, struct connection *all)
{
    static unsigned next;
    uint64_t period_ns = (uint64_t)(1e9 / load->rate), now = now_ns();
    for (;;) {
        uint64_t due_ns = load->start_ns + load->sent * period_ns;
        if (due_ns > now)
            return due_ns - now;
        struct connection *connection = free_connection(load, all, &next);
        if (!connection)
            return 1000000; /* an answer comes first */
        ask(load, connection, &due_ns, 1);
    }
}

static int wait_for(struct load *load, struct epoll_event *events, uint64_t ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000),
                               .tv_nsec = (long)(ns % 1000000000)};
    int count = epoll_pwait2(load->epoll, events, EVENTS, &timeout, NULL);
    if (count < 0 && errno != EINTR)
        fail("epoll_pwait2");
    return count;
}

static void run(struct load *load, struct connection *all)
{
    static struct epoll_event events[EVENTS];
    load->start_ns = now_ns();
    load->end_ns = load->start_ns + (uint64_t)(load->seconds * 1e9);
    for (unsigned i = 0; load->rate == 0 && i < load->connections; i++)
        ask_at_once(load, &all[i], load->start_ns);
    for (uint64_t now; (now = now_ns()) < load->end_ns;) {
        uint64_t wait_ns = load->rate > 0 ? ask_what_is_due(load, all) : load->end_ns - now;
        int count = wait_for(load, events, wait_ns);
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            receive(load, connection);
            if (load->rate == 0 && !connection->idle && connection->in_flight == 0)
                ask_at_once(load, connection, now_ns());
        }
    }
}

/* Each asks once, and is answered, before the load begins. */
static void open_idle(struct load *load, struct connection *idle)
{
    static struct epoll_event events[EVENTS];
    for (unsigned i = 0; i < load->idle; i++) {
        uint64_t due_ns = 0;
        idle[i].idle = true;
        connection_open(load, &idle[i]);
        ask(load, &idle[i], &due_ns, 1);
        while (load->idle_answered + 64 < i + 1 ||
               (i + 1 == load->idle && load->idle_answered <= i)) {
            int count = wait_for(load, events, 1000000000);
            for (int k = 0; k < count; k++)
                receive(load, events[k].data.ptr);
        }
    }
    load->sent = 0;
    if (load->idle) {
        printf("open %u\n", load->idle);
        fflush(stdout);
    }
}

static void prepare(struct load *load, const char *path)
{
    char *request = load->requests;
    load->request_size =
        (size_t)sprintf(request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", path, load->port);
    load->last_size = (size_t)sprintf(load->last, "%.*sConnection: close\r\n\r\n",
                                      (int)load->request_size - 2, request);
    for (unsigned i = 1; i < IN_FLIGHT_MAX; i++)
        memcpy(request + i * load->request_size, request, load->request_size);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t wanted = load->connections + load->idle + 100;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        limit.rlim_max = limit.rlim_max < wanted ? wanted : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            fail("setrlimit");
    }
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
}

static void report(const struct load *load)
{
    printf("requests %lu failed %lu seconds %.3f p50 %.1f p90 %.1f p99 %.1f p99.9 %.1f p99.99 %.1f "
           "max %.1f\n",
           load->answered, load->failed, load->seconds, percentile_us(load, 50),
           percentile_us(load, 90), percentile_us(load, 99), percentile_us(load, 99.9),
           percentile_us(load, 99.99), percentile_us(load, 100));
}

static struct load load = {.connections = 64, .in_flight = 1, .seconds = 1};

int main(int argc, char **argv)
{
    const char *path = "/hello";
    for (int option; (option = getopt(argc, argv, "c:p:k:r:i:s:u:")) != -1;)
        switch (option) {
        case 'c': load.connections = (unsigned)atoi(optarg); break;
        case 'p': load.in_flight = (unsigned)atoi(optarg); break;
        case 'k': load.per_connection = (unsigned)atoi(optarg); break;
        case 'r': load.rate = atof(optarg); break;
        case 'i': load.idle = (unsigned)atoi(optarg); break;
        case 's': load.seconds = atof(optarg); break;
        case 'u': path = optarg; break;
        default: return 2;
        }
    if (optind != argc - 1 || strlen(path) > 500 || load.in_flight < 1 ||
        load.in_flight > IN_FLIGHT_MAX || (load.connections == 0 && load.idle == 0)) {
        fputs("bench_load: the head of bench/load.c says how it is used\n", stderr);
        return 2;
    }
    load.port = atoi(argv[optind]);
    prepare(&load, path);
    struct connection *all = calloc(load.connections + load.idle, sizeof *all);
    if (!all)
        fail("calloc");
    open_idle(&load, all + load.connections);
    for (unsigned i = 0; i < load.connections; i++)
        connection_open(&load, &all[i]);
    run(&load, all);
    report(&load);
    free(all);
    return load.failed != 0;
}
