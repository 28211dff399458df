/* check_real MODE FROM-TO: runs programs on the real kernel, and prints each call with its answer
 * and its time: check.h.
 *
 * What a loaded machine may change is kept out of the answers. Packets may be left to a kernel
 * thread (ksoftirqd), which runs when the sender has returned: settling waits for it. A program
 * that was not run for long meets timers of TCP, of which the model knows nothing: it is run again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum {
    ROUNDS = 4,     /* of a handshake: each packet may be the answer to another */
    TRIES = 20,     /* of a program that was disturbed */
    DISTURBED = 20, /* milliseconds; acknowledgements are delayed by 40 at least */
    STEPS_MAX = 64
};

static int marker; /* a datagram socket that is connected to itself */
static double waited;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void open_marker(void)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof own;
    marker = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ci_check(bind(marker, (const struct sockaddr *)(const void *)&own, len) == 0 &&
             getsockname(marker, (struct sockaddr *)(void *)&own, &len) == 0 &&
             connect(marker, (const struct sockaddr *)(const void *)&own, len) == 0);
}

static bool has_sockets(const struct game *game)
{
    for (int i = 0; i < SLOTS; i++)
        if (game->slots[i].kind == STREAM || game->slots[i].kind == DATAGRAM)
            return true;
    return false;
}

/* A processor's packets over the loopback are delivered in their order: what was sent before the
 * marker has arrived when the marker has. */
static void deliver(void)
{
    char byte = 0;
    for (int i = 0; i < ROUNDS; i++)
        ci_check(send(marker, &byte, 1, 0) == 1 && recv(marker, &byte, 1, 0) == 1);
}

/* Acknowledgements, which free the sender's buffer, may be delayed. */
void kernel_settle(struct game *game)
{
    int on = 1;
    for (int i = 0; i < SLOTS; i++)
        if (game->slots[i].kind == STREAM)
            setsockopt(game->slots[i].fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    if (has_sockets(game))
        deliver();
}

void kernel_await(struct game *game, coir_fd fd)
{
    double began = now_ms();
    (void)game;
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 100);
    waited += now_ms() - began;
}

/* A socket of TCP that is bound gets every other port from the second on, one that connects those
 * between them. One that has the port which it connects to is connected to itself. */
bool kernel_keeps_port(unsigned port)
{
    static unsigned first;
    FILE *file = first ? NULL : fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (!first && (!file || fscanf(file, "%u", &first) != 1))
        first = 32768;
    if (file)
        fclose(file);
    return (port - first) % 2;
}

bool kernel_is_own_name(const struct slot *slot)
{
    int type = slot->kind == UNIX_DATAGRAM ? SOCK_STREAM : SOCK_DGRAM,
        fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool found =
        connect(fd, (const struct sockaddr *)(const void *)&slot->name, slot->name_len) == 0 ||
        errno != ECONNREFUSED;
    close(fd);
    return !found;
}

coir_fd kernel_copy(coir_fd fd)
{
    int copy = dup(fd);
    return copy < 0 ? -errno : copy;
}

bool kernel_is_same_file(coir_fd a, coir_fd b)
{
    struct stat first, second;
    return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_ino == second.st_ino;
}

int kernel_add(coir_fd fd, uint64_t number)
{
    return write(fd, &number, sizeof number) < 0 ? -errno : 0;
}

void kernel_prepare_fill(coir_fd fd)
{
    (void)fd;
}

size_t kernel_fill_size(coir_fd fd, uint32_t sent, size_t len)
{
    (void)fd;
    (void)sent;
    return len;
}

void kernel_end_fill(coir_fd fd)
{
    (void)fd;
}

struct record {
    struct step step;
    struct answer answer;
    uint32_t time; /* when it was made, in microseconds since the program began */
};
static struct record records[STEPS_MAX];

static void print(const struct record *record)
{
    fwrite(&record->step, sizeof record->step, 1, stdout);
    fwrite(&record->time, sizeof record->time, 1, stdout);
    fwrite(&record->answer.count, sizeof record->answer.count, 1, stdout);
    fwrite(record->answer.words, sizeof record->answer.words[0], record->answer.count, stdout);
}

/* False: the program was disturbed. */
static bool try(uint64_t seed, enum mode mode, uint32_t *ret_count)
{
    static char arena[ARENA];
    static struct game game;
    struct ci_random random = {seed};
    uint32_t count = 0;
    double began = now_ms();
    waited = 0;
    game_open(&game, seed, mode, arena);
    for (struct record *record = records; draw_step(&game, &random, mode, &record->step);
         record = &records[++count]) {
        ci_check(count < STEPS_MAX - 1);
        record->time = (uint32_t)((now_ms() - began) * 1e3);
        act(&game, &record->step, &record->answer);
    }
    double took = now_ms() - began - waited;
    game_close(&game);
    *ret_count = count;
    return took < DISTURBED;
}

static void run(uint64_t seed, enum mode mode)
{
    uint32_t count;
    for (int i = 0; i < TRIES && !try(seed, mode, &count); i++)
        continue;
    for (uint32_t i = 0; i < count; i++)
        print(&records[i]);
    print(&(struct record){.step.op = OP_END});
}

static void stay_on_one_processor(void)
{
    cpu_set_t set;
    int cpu = sched_getcpu();
    CPU_ZERO(&set);
    CPU_SET(cpu < 0 ? 0 : (size_t)cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

int main(int argc, char **argv)
{
    unsigned long long from, to;
    int mode = 0;
    while (argc == 3 && mode < MODE_COUNT && strcmp(argv[1], mode_names[mode]) != 0)
        mode++;
    if (argc != 3 || mode == MODE_COUNT || sscanf(argv[2], "%llu-%llu", &from, &to) != 2) {
        fprintf(stderr, "usage: check_real epoll|poll|io_uring FROM-TO\n");
        return 2;
    }
    stay_on_one_processor();
    signal(SIGPIPE, SIG_IGN); /* ci_sys_write */
    open_marker();
    for (uint64_t seed = from; seed <= to; seed++)
        run(seed, (enum mode)mode);
    return fflush(stdout) == 0 ? 0 : 1;
}
