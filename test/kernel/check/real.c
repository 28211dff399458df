/* check_real MODE FROM-TO: runs programs on the real kernel, and prints each call with its answer:
 * check.h. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

/* Over the loopback everything arrives within the call that sends it, where one processor runs both
 * ends; but acknowledgements, which free the sender's buffer, may be delayed. */
void kernel_settle(struct game *game)
{
    int on = 1;
    for (int i = 0; i < SLOTS; i++)
        if (game->slots[i].kind == STREAM)
            setsockopt(game->slots[i].fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

void kernel_await(struct game *game, coir_fd fd)
{
    (void)game;
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 100);
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

static void print(const struct step *step, const struct answer *answer)
{
    fwrite(step, sizeof *step, 1, stdout);
    fwrite(&answer->count, sizeof answer->count, 1, stdout);
    fwrite(answer->words, sizeof answer->words[0], answer->count, stdout);
}

static void run(uint64_t seed, enum mode mode)
{
    static char arena[ARENA];
    static struct game game;
    struct answer answer;
    struct step step;
    struct ci_random random = {seed};
    game_open(&game, seed, mode, arena);
    while (draw_step(&game, &random, mode, &step)) {
        act(&game, &step, &answer);
        print(&step, &answer);
    }
    game_close(&game);
    answer.count = 0;
    print(&(struct step){.op = OP_END}, &answer);
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
    for (uint64_t seed = from; seed <= to; seed++)
        run(seed, (enum mode)mode);
    return fflush(stdout) == 0 ? 0 : 1;
}
