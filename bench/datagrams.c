/* UDP echo: datagrams per CPU second of the server, of coir on each driver and of a bare loop
 * (epoll, recvmmsg, sendmmsg), in interleaved pairs. The client is a process of its own, on another
 * CPU, and the same for both. Usage: bench_datagrams [PAIRS [MESSAGES]] */
#include <arpa/inet.h>
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = COIR_DATAGRAMS_MAX, ROOM = 65536, SEGMENT_OPTION = 103, MERGE_OPTION = 104 };

/* A message is so many segments of so many bytes (GSO and GRO), or one datagram; `window` are on
 * their way. */
static const struct mode {
    const char *name;
    int segments, len, window;
} modes[] = {{"GSO and GRO, 32 segments of 1,200 bytes", 32, 1200, 2},
             {"plain, 200 bytes, 32 a call", 1, 200, 32}};

static const struct mode *mode;
static long messages = 20000;
static char buffers[BATCH][ROOM];
static struct mmsghdr headers[BATCH];
static struct iovec pieces[BATCH];
static struct sockaddr_storage names[BATCH];
static union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
} controls[BATCH];

static void must(bool right, const char *what)
{
    if (right)
        return;
    perror(what);
    _exit(1);
}

static void pin(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static double cpu_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

static int open_bound(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), one = 1;
    must(fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0, "bind");
    if (mode->segments > 1)
        must(setsockopt(fd, IPPROTO_UDP, MERGE_OPTION, &one, sizeof one) == 0, "UDP_GRO");
    return fd;
}

/* ---- plain calls, of the bare loop and of the client ---- */

static void prepare(int i)
{
    pieces[i] = (struct iovec){buffers[i], ROOM};
    headers[i].msg_hdr = (struct msghdr){
        .msg_name = &names[i],
        .msg_namelen = sizeof names[i],
        .msg_iov = &pieces[i],
        .msg_iovlen = 1,
        .msg_control = controls[i].bytes,
        .msg_controllen = sizeof controls[i],
    };
}

/* What came goes back: the bytes, the sender, the length of the segments. */
static void turn_round(int i)
{
    struct msghdr *header = &headers[i].msg_hdr;
    struct cmsghdr *control = CMSG_FIRSTHDR(header);
    pieces[i].iov_len = headers[i].msg_len;
    if (control && control->cmsg_level == IPPROTO_UDP) {
        int segment;
        memcpy(&segment, CMSG_DATA(control), sizeof segment);
        uint16_t len = (uint16_t)segment;
        control->cmsg_type = SEGMENT_OPTION;
        control->cmsg_len = CMSG_LEN(sizeof len);
        memcpy(CMSG_DATA(control), &len, sizeof len);
        header->msg_controllen = CMSG_SPACE(sizeof len);
    } else {
        header->msg_control = NULL;
        header->msg_controllen = 0;
    }
}

static long datagrams_of(long bytes)
{
    return (bytes + mode->len - 1) / mode->len;
}

static void be_bare(int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int epoll = epoll_create1(0);
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    for (int i = 0; i < BATCH; i++)
        prepare(i);
    for (long done = 0, goal = messages * mode->segments; done < goal;) {
        int count = recvmmsg(fd, headers, BATCH, MSG_DONTWAIT, NULL), sent = 0;
        if (count < 0) {
            must(errno == EAGAIN, "recvmmsg");
            epoll_wait(epoll, &event, 1, -1);
            continue;
        }
        for (int i = 0; i < count; i++) {
            done += datagrams_of(headers[i].msg_len);
            turn_round(i);
        }
        for (int n; sent < count; sent += n)
            if ((n = sendmmsg(fd, headers + sent, (unsigned)(count - sent), MSG_DONTWAIT)) <= 0)
                break;
        for (int i = 0; i < count; i++)
            prepare(i);
    }
    close(epoll);
}

/* ---- the client ---- */

static void send_message(int fd)
{
    struct iovec piece = {buffers[0], (size_t)mode->segments * (size_t)mode->len};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    uint16_t len = (uint16_t)mode->len;
    if (mode->segments > 1) {
        header.msg_control = controls[0].bytes;
        header.msg_controllen = CMSG_SPACE(sizeof len);
        *CMSG_FIRSTHDR(&header) = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof len),
                                                   .cmsg_level = IPPROTO_UDP,
                                                   .cmsg_type = SEGMENT_OPTION};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), &len, sizeof len);
    }
    sendmsg(fd, &header, 0);
}

static void be_client(const struct sockaddr_in *server)
{
    struct timeval patience = {.tv_usec = 100000};
    int fd = open_bound();
    pin(1);
    must(connect(fd, (const struct sockaddr *)server, sizeof *server) == 0, "connect");
    fcntl(fd, F_SETFL, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (int i = 0; i < mode->window; i++)
        send_message(fd);
    for (;;) { /* until it is killed */
        for (int i = 0; i < BATCH; i++)
            prepare(i);
        int count = recvmmsg(fd, headers, BATCH, MSG_WAITFORONE, NULL);
        if (count <= 0)
            for (int i = 0; i < mode->window; i++) /* all were lost */
                send_message(fd);
        else if (mode->segments > 1)
            for (int i = 0; i < count; i++)
                send_message(fd);
        else {
            for (int i = 0; i < count; i++)
                turn_round(i);
            sendmmsg(fd, headers, (unsigned)count, 0);
        }
    }
}

/* ---- coir ---- */

static int echo(void *address)
{
    static coir_datagram datagrams[BATCH];
    coir_udp_options options = COIR_UDP_OPTIONS;
    coir_udp *udp;
    options.address = address;
    options.merge = mode->segments > 1;
    int rc = coir_udp_open_with(&options, &udp);
    if (rc < 0)
        return rc;
    for (int i = 0; i < BATCH; i++) {
        datagrams[i].size = sizeof datagrams[i];
        datagrams[i].data = buffers[i];
        datagrams[i].room = ROOM;
    }
    ssize_t count = 0, n;
    for (long done = 0, goal = messages * mode->segments; done < goal;) {
        if ((count = coir_udp_recv_many(udp, datagrams, BATCH)) < 0)
            break;
        for (ssize_t i = 0; i < count; i++)
            done += datagrams_of((long)datagrams[i].len);
        for (ssize_t sent = 0; sent < count; sent += n)
            if ((n = coir_udp_send_many(udp, datagrams + sent, (size_t)(count - sent))) < 0)
                return (int)n;
    }
    coir_udp_close(udp);
    return count < 0 ? (int)count : 0;
}

static void be_coir(const char *driver, int fd)
{
    char address[32];
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 1;
    config.driver = driver;
    snprintf(address, sizeof address, "fd:%d", fd);
    must(coir_runtime_new(&config, &runtime) == 0, driver);
    must(coir_runtime_run(runtime, echo, address) == 0, "echo");
    coir_runtime_free(runtime);
}

/* ---- the comparison ---- */

/* Datagrams, in and out, per CPU second. A process each: what one leaves behind is not the next
 * one's. */
static double measure(const char *driver)
{
    int pipe_fds[2], fd = open_bound();
    double rate = 0;
    struct sockaddr_in own;
    socklen_t len = sizeof own;
    getsockname(fd, (struct sockaddr *)&own, &len);
    must(pipe(pipe_fds) == 0, "pipe");
    pid_t client = fork();
    if (client == 0)
        be_client(&own);
    pid_t server = fork();
    if (server == 0) {
        pin(0);
        double begin = cpu_seconds();
        if (driver)
            be_coir(driver, fd);
        else
            be_bare(fd);
        rate = (double)(2 * messages * mode->segments) / (cpu_seconds() - begin);
        _exit(write(pipe_fds[1], &rate, sizeof rate) != sizeof rate);
    }
    close(fd);
    close(pipe_fds[1]);
    must(read(pipe_fds[0], &rate, sizeof rate) == sizeof rate, "the server");
    close(pipe_fds[0]);
    kill(client, SIGKILL);
    waitpid(client, NULL, 0);
    waitpid(server, NULL, 0);
    return rate;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compare(const char *driver, int pairs)
{
    double ratio[100], coir[100], bare[100];
    for (int i = 0; i < pairs; i++) {
        coir[i] = measure(driver);
        bare[i] = measure(NULL);
        ratio[i] = coir[i] / bare[i];
    }
    qsort(ratio, (size_t)pairs, sizeof *ratio, by_size);
    qsort(coir, (size_t)pairs, sizeof *coir, by_size);
    qsort(bare, (size_t)pairs, sizeof *bare, by_size);
    printf("%-8s  coir %.0f, bare %.0f, ratio %.3f (%.3f to %.3f), goal 0.95\n", driver,
           coir[pairs / 2], bare[pairs / 2], ratio[pairs / 2], ratio[0], ratio[pairs - 1]);
}

int main(int argc, char **argv)
{
    static const char *const drivers[] = {"io_uring", "epoll", "poll"};
    int pairs = argc > 1 ? atoi(argv[1]) : 11;
    if (argc > 2)
        messages = atol(argv[2]);
    must(pairs > 0 && pairs <= 100 && messages > 0, "usage: bench_datagrams [PAIRS [MESSAGES]]");
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        mode = &modes[m];
        printf("== UDP echo, %s: datagrams per CPU second, %d pairs\n", mode->name, pairs);
        for (size_t i = 0; i < 3; i++)
            compare(drivers[i], pairs);
        fflush(stdout);
    }
    return 0;
}
