/* check_model [--trace] MODE FROM-TO: runs check_real, makes the same calls on the simulated
 * kernel, and compares the answers: check.h 2. */
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sim/kernel.h"
#include "sim/kernel/ring.h"
#include "sim/kernel/socket.h"
#include "sys/clock.h"

enum { TRIES = 3000, LATE_TRIES = 2000, STEPS_MAX = 64, DIFFERENCES_MAX = 20, REPEATS = 10 };
enum { TIMERS_US = 20000 }; /* half of TCP_DELACK_MIN: a call that took less has waited for none */
enum { FILL_BITS = 2 };

struct record {
    struct step step;
    struct answer answer;
    uint32_t time; /* on the real kernel, in microseconds */
};

/* A program, as the real kernel has answered it. */
struct program {
    uint64_t seed;
    enum mode mode;
    uint32_t count;
    struct record records[STEPS_MAX];
};

static struct {
    const struct program *program;
    uint32_t step;        /* that is being made */
    uint32_t same;        /* steps, until the first difference */
    struct answer answer; /* of the model, there */
    unsigned choices;     /* for each OP_FILL that comes, FILL_BITS */
    struct fill {
        coir_fd fd;
        bool all_arrives; /* at the receiver */
        bool moves_later; /* what has not arrived does so in a drain of another connection that
                             takes long enough for the timers of TCP */
    } fills[STEPS_MAX], *fill;
} now;

/* ---- what only the simulated kernel needs ---- */

void kernel_settle(struct game *game)
{
    (void)game;
    ci_clock_sleep(COIR_MS);
}

void kernel_await(struct game *game, coir_fd fd)
{
    (void)fd;
    kernel_settle(game);
}

coir_fd kernel_copy(coir_fd fd)
{
    return ci_kfd_install(ci_kfile_ref(ci_kfd_find(fd)));
}

bool kernel_is_same_file(coir_fd a, coir_fd b)
{
    return ci_kfd_find(a) == ci_kfd_find(b);
}

/* Here no two sockets are given the same. */
bool kernel_keeps_port(unsigned port)
{
    (void)port;
    return true;
}

bool kernel_is_own_name(const struct slot *slot)
{
    (void)slot;
    return true;
}

int kernel_add(coir_fd fd, uint64_t number)
{
    ssize_t n = ci_sys_write(fd, &number, sizeof number);
    return n < 0 ? (int)n : 0;
}

static struct ci_ksocket *connected_at(coir_fd fd)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    struct ci_ksocket *socket = file && ci_ksocket_is(file) ? ci_ksocket_of(file) : NULL;
    return socket && socket->peer ? socket : NULL;
}

/* As much as the real kernel took. Half of it arrives, or all of it, of which the sender does not
 * know before it has been read, or before its timers have asked again: the tries go through what
 * the fills of a program may do. */
void kernel_prepare_fill(coir_fd fd)
{
    *now.fill++ = (struct fill){fd, now.choices & 1, now.choices & 2};
    now.choices >>= FILL_BITS;
    const struct answer *answer = &now.program->records[now.step].answer;
    struct ci_ksocket *socket = connected_at(fd);
    if (!socket || ci_kunix_is(socket))
        return;
    size_t arrives = (size_t)answer->words[0] / (now.fill[-1].all_arrives ? 1 : 2);
    socket->peer->in_most = socket->peer->in.bytes + arrives;
    socket->out_most = (size_t)answer->words[0] - (now.fill[-1].all_arrives ? 0 : arrives);
}

size_t kernel_fill_size(coir_fd fd, uint32_t sent, size_t len)
{
    size_t all = (size_t)now.program->records[now.step].answer.words[0];
    struct ci_ksocket *socket = connected_at(fd);
    bool is_unix = socket && ci_kunix_is(socket);
    if ((!now.fill[-1].all_arrives && !is_unix) || !socket)
        return len;
    if (is_unix)
        socket->out_most = SIZE_MAX;
    if (sent == all)
        socket->out_most = 0;
    return sent == all || all - sent > len ? len : all - sent;
}

static void make_room(coir_fd fd, bool had_all)
{
    struct ci_ksocket *socket = connected_at(fd);
    if (!socket)
        return;
    socket->out_most = 425984;
    if (ci_kunix_is(socket))
        return;
    socket->peer->in_most = 425984;
    if (had_all && socket->no_space && ci_knetwork_is_writable(socket)) {
        socket->no_space = false;
        ci_kfile_wake(&socket->file, POLLOUT | POLLWRNORM);
    }
}

/* On the real kernel: whether the call that is being made took so long. */
static bool waited_for_timers(void)
{
    const struct record *record = &now.program->records[now.step];
    return record[1].step.op != OP_END && record[1].time - record->time >= TIMERS_US;
}

void kernel_end_fill(coir_fd fd)
{
    bool had_all = false;
    for (const struct fill *fill = now.fills; fill < now.fill; fill++) {
        if (fill->fd == fd)
            had_all = fill->all_arrives;
        else if (fill->moves_later && waited_for_timers())
            make_room(fill->fd, true);
    }
    make_room(fd, had_all);
}

/* ---- one try ---- */

static bool is_same(const struct answer *a, const struct answer *b)
{
    return a->count == b->count && memcmp(a->words, b->words, a->count * sizeof a->words[0]) == 0;
}

static void *play(void *arg)
{
    static char arena[ARENA];
    static struct game game;
    (void)arg;
    game_open(&game, now.program->seed, now.program->mode, arena);
    for (now.step = now.same = 0; now.step < now.program->count; now.step++) {
        const struct record *record = &now.program->records[now.step];
        act(&game, &record->step, &now.answer);
        if (!is_same(&now.answer, &record->answer))
            break;
        now.same++;
    }
    game_close(&game);
    return NULL;
}

static void print_line(const char *line, void *arg)
{
    (void)arg;
    puts(line);
}

/* How many datagrams a Unix socket of this machine holds. */
static uint32_t datagrams_most(void)
{
    static uint32_t most;
    FILE *file = most ? NULL : fopen("/proc/sys/net/unix/max_dgram_qlen", "re");
    if (!most && (!file || fscanf(file, "%" SCNu32, &most) != 1))
        most = 10;
    if (file)
        fclose(file);
    return most + 1;
}

/* The machine's kernel is a new one. What ends a call early for reasons that the program cannot see
 * is not drawn. */
static void choose(int try)
{
    if (try <= LATE_TRIES)
        ci_kcalm();
    ci_k.settings.late_one_in = try == 0 ? 0 : 2;
    ci_k.settings.interrupt_one_in = ci_k.settings.buffer_sizes = ci_k.settings.point_one_in = 0;
    ci_k.settings.datagrams_most = datagrams_most();
    struct ci_kring_traits *traits = &ci_kring_traits;
    uint32_t cut = traits->cut_one_in;
    traits->version = 18;
    traits->refuse_one_in = traits->size_most = traits->withheld = 0;
    traits->cut_one_in = try <= LATE_TRIES ? 0 : cut;
}

/* Whether the model gives the same answers. */
static bool attempt(const struct program *program, int try, bool trace)
{
    struct ci_world world;
    now.program = program;
    now.choices = (unsigned)try;
    now.fill = now.fills;
    ci_world_init(&world, program->seed + (uint64_t)try * 0x10000000000u);
    world.trace = trace ? print_line : NULL;
    ci_sim_kernel->open(&world, 3600 * COIR_S, NULL, 0);
    choose(try);
    ci_sim_kernel->start(ci_world_add_node(&world, "here"), play, NULL);
    int rc = ci_sim_kernel->run();
    if (rc < 0)
        printf("seed %" PRIu64 ": %s\n", program->seed, coir_strerror(rc));
    ci_check(rc == 0);
    ci_sim_kernel->close();
    ci_world_done(&world);
    return now.same == program->count;
}

/* ---- programs ---- */

static bool read_program(FILE *file, struct program *program)
{
    for (program->count = 0;; program->count++) {
        ci_check(program->count < STEPS_MAX);
        struct record *record = &program->records[program->count];
        if (fread(&record->step, sizeof record->step, 1, file) != 1 ||
            fread(&record->time, sizeof record->time, 1, file) != 1 ||
            fread(&record->answer.count, sizeof record->answer.count, 1, file) != 1 ||
            fread(record->answer.words, sizeof record->answer.words[0], record->answer.count,
                  file) != record->answer.count)
            return false;
        if (record->step.op == OP_END)
            return true;
    }
}

/* The program beside this one, with its output to be read. */
static FILE *start_real(const char *self, enum mode mode, uint64_t from, uint64_t to,
                        pid_t *ret_pid)
{
    char path[4096], range[64];
    const char *slash = strrchr(self, '/');
    int fds[2];
    snprintf(path, sizeof path, "%.*scheck_real", slash ? (int)(slash - self + 1) : 0, self);
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, from, to);
    if (pipe(fds) < 0 || (*ret_pid = fork()) < 0)
        return NULL;
    if (*ret_pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execl(path, path, mode_names[mode], range, (char *)NULL);
        perror(path);
        _exit(127);
    }
    close(fds[1]);
    return fdopen(fds[0], "r");
}

/* The first try that gives the same answers; -1: none. *ret_best: of all, the one that came
 * furthest. */
static int find_try(const struct program *program, int *ret_best)
{
    uint32_t furthest = 0;
    *ret_best = 0;
    for (int try = 0; try < TRIES; try++) {
        if (attempt(program, try, false))
            return try;
        if (now.same > furthest) {
            furthest = now.same;
            *ret_best = try;
        }
    }
    return -1;
}

static void print_words(const char *who, const struct answer *answer)
{
    printf("    %s:", who);
    for (uint32_t i = 0; i < answer->count; i++)
        printf(" %" PRId64, answer->words[i]);
    puts("");
}

static void print_difference(const struct program *program, int try)
{
    attempt(program, try, false);
    printf("seed %" PRIu64 ", step %u of %u, try %d:\n", program->seed, now.same + 1,
           program->count, try);
    for (uint32_t i = 0; i <= now.same; i++) {
        const struct record *record = &program->records[i];
        const struct step *step = &record->step;
        printf("  %u %s a=%u b=%u c=%u x=%#x y=%#x, at %u us\n", i + 1, op_names[step->op], step->a,
               step->b, step->c, step->x, step->y, record->time);
        print_words(i < now.same ? "both" : "real", &record->answer);
    }
    print_words("model", &now.answer);
}

/* Whether the real kernel gives the forbidden answer each time. One that it gives once hangs on
 * something beside the program, such as an interrupt at the wrong time. */
static bool is_repeated(const char *self, const struct program *program)
{
    static struct program again;
    int best;
    for (int i = 0; i < REPEATS; i++) {
        pid_t pid;
        FILE *file = start_real(self, program->mode, program->seed, program->seed, &pid);
        again = (struct program){.seed = program->seed, .mode = program->mode};
        bool ok = file && read_program(file, &again);
        if (file)
            fclose(file);
        waitpid(pid, NULL, 0);
        if (ok && find_try(&again, &best) >= 0)
            return false;
    }
    return true;
}

struct counts {
    uint64_t programs, steps, calm, chosen, once, forbidden;
};

static void check(const char *self, const struct program *program, struct counts *counts)
{
    int best, found = find_try(program, &best);
    counts->programs++;
    counts->steps += program->count;
    counts->calm += found == 0;
    counts->chosen += found > 0;
    if (found >= 0)
        return;
    bool repeated = is_repeated(self, program);
    counts->once += !repeated;
    counts->forbidden += repeated;
    if (counts->forbidden + counts->once <= DIFFERENCES_MAX) {
        printf("%s: ", repeated ? "forbidden" : "forbidden, but not repeated");
        print_difference(program, best);
    }
}

static int check_all(const char *self, enum mode mode, uint64_t from, uint64_t to, bool trace)
{
    static struct program program;
    struct counts counts = {0};
    pid_t pid;
    FILE *file = start_real(self, mode, from, to, &pid);
    for (uint64_t seed = from; file && seed <= to; seed++) {
        program.seed = seed;
        program.mode = mode;
        if (!read_program(file, &program))
            break;
        if (trace)
            attempt(&program, 0, true);
        check(self, &program, &counts);
    }
    int status = 1;
    if (file)
        fclose(file);
    waitpid(pid, &status, 0);
    printf("%s: %" PRIu64 " programs, %" PRIu64 " calls: %" PRIu64
           " as the model without chance, %" PRIu64 " as one of its choices, %" PRIu64
           " forbidden, %" PRIu64 " forbidden once and not repeated\n",
           mode_names[mode], counts.programs, counts.steps, counts.calm, counts.chosen,
           counts.forbidden, counts.once);
    return counts.forbidden || counts.programs != to - from + 1 || status != 0;
}

/* A network of its own, where the system allows that: in one that others use, they may listen on a
 * port that a program connects to, or connect to one of its. */
static bool leave_network(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        return false;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ci_check(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0);
    close(fd);
    return true;
}

int main(int argc, char **argv)
{
    unsigned long long from, to;
    int at = 1, mode = 0;
    bool trace = argc > 1 && strcmp(argv[1], "--trace") == 0;
    at += trace;
    while (argc == at + 2 && mode < MODE_COUNT && strcmp(argv[at], mode_names[mode]) != 0)
        mode++;
    if (argc != at + 2 || mode == MODE_COUNT ||
        sscanf(argv[at + 1], "%llu-%llu", &from, &to) != 2) {
        fprintf(stderr, "usage: check_model [--trace] epoll|poll|io_uring FROM-TO\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!leave_network())
        puts("check_model: no network of its own here: what other programs do may change answers");
    return check_all(argv[0], (enum mode)mode, from, to, trace);
}
