/* Many programs, in processes that are watched: one that dies or is not done in time is a failure,
 * and is told with its text and the command that plays it again. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "program.h"

enum { JOBS_MOST = 16, PROGRAMS_A_PROCESS = 300, DRIVERS_MOST = 8 };

struct job {
    pid_t pid;
    uint64_t seed;
    int driver;
    int64_t began; /* the program that runs: ns; 0: none */
};

struct shared {
    uint64_t next;
    uint64_t programs[DRIVERS_MOST], operations[DRIVERS_MOST];
    bool stop;
    struct job jobs[JOBS_MOST];
};

static struct options {
    const char *self;
    const char *drivers[DRIVERS_MOST];
    int driver_count;
    uint64_t from, to, seconds, only, repeat, limit;
    bool one, keep_going, trace;
    unsigned workers, jobs;
    uint32_t acts; /* which ones play, as bits */
    const char *kinds, *lives;
} options = {.from = 1,
             .to = UINT64_MAX / 2,
             .repeat = 1,
             .jobs = 1,
             .acts = UINT32_MAX,
             .limit = CI_ASAN || CI_TSAN ? 90 : 40};

static struct shared *shared;
static struct program *current;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- one program ---- */

static struct program *make(uint64_t seed, int driver)
{
    struct program *program =
        program_draw(seed, options.drivers[driver], options.workers, options.lives);
    if (program)
        program->traced = options.trace;
    for (int i = 0; program && i < program->act_count; i++) {
        struct act *act = &program->acts[i];
        act->left_out |=
            !(options.acts & 1u << i) || (options.kinds && !strstr(options.kinds, act->kind->name));
    }
    return program;
}

static void play(struct job *job)
{
    struct program *program = current = make(job->seed, job->driver);
    if (!program)
        exit(4);
    __atomic_store_n(&job->began, now(), __ATOMIC_RELAXED);
    program_play(program);
    __atomic_store_n(&job->began, 0, __ATOMIC_RELAXED);
    __atomic_add_fetch(&shared->programs[job->driver], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&shared->operations[job->driver], program->operations, __ATOMIC_RELAXED);
    current = NULL;
    program_free(program);
}

struct ci_task;
static void print_task(void *arg, int depth, const char *name, const char *waits_for, int cancelled,
                       const struct ci_task *task)
{
    (void)arg, (void)task;
    fprintf(stderr, "    %*s%s waits for %s%s\n", 2 * depth, "", name, waits_for,
            cancelled ? " (cancelled)" : "");
}

void ci_runtime_dump(const coir_runtime *runtime,
                     void (*line)(void *, int, const char *, const char *, int,
                                  const struct ci_task *),
                     void *arg);

/* Asked by the parent, whose patience is at an end. */
static void tell_state(int signal_number)
{
    (void)signal_number;
    for (int i = 0; current && i < current->act_count; i++) {
        const struct act *act = &current->acts[i];
        fprintf(stderr, "  act %d (%s): %s%s, %d threads run\n", i, act->kind->name,
                act->left_out ? "left out"
                : act->played ? "played"
                : act->began  ? "plays"
                              : "has not begun",
                act->hurried ? " (hurried)" : "", act->threads);
    }
    for (int i = 0; current && i < current->run_count; i++)
        if (current->runs[i].runtime && !current->runs[i].ended)
            ci_runtime_dump(current->runs[i].runtime, print_task, NULL);
    program_end();
}

/* ---- processes ---- */

static void *do_nothing(void *arg)
{
    return arg;
}

static void work(struct job *job)
{
    pthread_t thread; /* sanitizers start one of their own with the first */
    if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
        pthread_join(thread, NULL);
    signal(SIGQUIT, tell_state);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < PROGRAMS_A_PROCESS && !__atomic_load_n(&shared->stop, __ATOMIC_RELAXED);
         i++) {
        uint64_t number = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED),
                 count = (uint64_t)options.driver_count;
        uint64_t seed = options.one ? options.only : options.from + number / count;
        if (options.one ? number >= options.repeat * count : seed > options.to)
            break;
        job->seed = seed;
        job->driver = (int)(number % count);
        play(job);
    }
    exit(0); /* leak checks run here */
}

static void start(struct job *job)
{
    fflush(NULL);
    job->began = 0;
    pid_t pid = fork(); /* the job is shared: only the parent writes it down */
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work(job);
    }
    if (pid < 0)
        exit(2);
    job->pid = pid;
}

static void print_command(const struct job *job, const struct program *program)
{
    printf("  again: %s --driver %s --seed %llu --workers %u", options.self, program->driver,
           (unsigned long long)job->seed, program->workers);
    if (options.acts != UINT32_MAX)
        printf(" --acts %x", options.acts);
    if (options.kinds)
        printf(" --kinds %s", options.kinds);
    if (options.lives)
        printf(" --lives %s", options.lives);
    printf(" --repeat 100\n");
}

static void report(const struct job *job, int status, bool slow)
{
    struct program *program = make(job->seed, job->driver);
    if (slow)
        printf("FAILED program %llu on %s: not done after %llu s\n", (unsigned long long)job->seed,
               options.drivers[job->driver], (unsigned long long)options.limit);
    else if (WIFSIGNALED(status))
        printf("FAILED program %llu on %s: signal %d\n", (unsigned long long)job->seed,
               options.drivers[job->driver], WTERMSIG(status));
    else
        printf("FAILED program %llu on %s: exit status %d, see above\n",
               (unsigned long long)job->seed, options.drivers[job->driver], WEXITSTATUS(status));
    program_print(program, stdout);
    print_command(job, program);
    fflush(stdout);
    program_free(program);
}

/* Whether the job's program has had its time: asks it what it is doing, and ends it. */
static bool end_slow(const struct job *job)
{
    int64_t began = __atomic_load_n(&job->began, __ATOMIC_RELAXED);
    if (!job->pid || !began || now() - began < (int64_t)options.limit * 1000000000)
        return false;
    kill(job->pid, SIGQUIT);
    for (int i = 0; i < 100; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)job->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            return true;
        usleep(20000);
    }
    kill(job->pid, SIGKILL);
    return true;
}

/* One look at a job: true while it runs. */
static bool attend(struct job *job, uint64_t *failed)
{
    int status = 0;
    bool slow = end_slow(job);
    pid_t pid = waitpid(job->pid, &status, slow ? 0 : WNOHANG);
    if (pid == 0)
        return true;
    job->pid = 0;
    if (status != 0) {
        ++*failed;
        report(job, status, slow);
        if (!options.keep_going)
            __atomic_store_n(&shared->stop, true, __ATOMIC_RELAXED);
    }
    uint64_t count = (uint64_t)options.driver_count,
             number = __atomic_load_n(&shared->next, __ATOMIC_RELAXED);
    bool more =
        options.one ? number < options.repeat * count : options.from + number / count <= options.to;
    if (!more || shared->stop)
        return false;
    start(job);
    return true;
}

static uint64_t run_all(void)
{
    uint64_t failed = 0;
    int64_t end = options.seconds ? now() + (int64_t)options.seconds * 1000000000 : INT64_MAX;
    for (unsigned i = 0; i < options.jobs; i++)
        start(&shared->jobs[i]);
    for (bool any = true; any;) {
        any = false;
        for (unsigned i = 0; i < options.jobs; i++)
            any |= shared->jobs[i].pid && attend(&shared->jobs[i], &failed);
        if (now() > end)
            __atomic_store_n(&shared->stop, true, __ATOMIC_RELAXED);
        usleep(2000);
    }
    return failed;
}

/* ---- the command line ---- */

static int usage(void)
{
    fprintf(stderr,
            "usage: %s [--seeds A-B] [--seconds N] [--driver NAME[,NAME]] [--workers N] [--jobs N] "
            "[--limit SECONDS] [--keep-going]\n"
            "       %s --seed N [--repeat N] [--driver NAME] [--workers N] [--acts HEX] [--kinds "
            "NAME,NAME] [--lives NAME,NAME] [--trace]\n",
            options.self, options.self);
    return 2;
}

static void set_drivers(char *names)
{
    for (char *name = strtok(names, ","); name && options.driver_count < DRIVERS_MOST;
         name = strtok(NULL, ","))
        options.drivers[options.driver_count++] = name;
}

static bool parse_one(const char *name, char *value)
{
    char *end = value;
    uint64_t number = strtoull(value, &end, 0);
    if (strcmp(name, "--driver") == 0) {
        set_drivers(value);
        return options.driver_count > 0;
    }
    if (strcmp(name, "--kinds") == 0)
        return (options.kinds = value) != NULL;
    if (strcmp(name, "--lives") == 0)
        return (options.lives = value) != NULL;
    if (strcmp(name, "--seeds") == 0 && *end == '-') {
        options.from = number;
        options.to = strtoull(end + 1, &end, 0);
    } else if (strcmp(name, "--seconds") == 0) {
        options.seconds = number;
    } else if (strcmp(name, "--seed") == 0) {
        options.one = true;
        options.only = number;
    } else if (strcmp(name, "--repeat") == 0) {
        options.repeat = number;
    } else if (strcmp(name, "--limit") == 0) {
        options.limit = number;
    } else if (strcmp(name, "--workers") == 0 && number <= WORKERS_MOST) {
        options.workers = (unsigned)number;
    } else if (strcmp(name, "--jobs") == 0 && number >= 1 && number <= JOBS_MOST) {
        options.jobs = (unsigned)number;
    } else if (strcmp(name, "--acts") == 0) {
        options.acts = (uint32_t)strtoul(value, &end, 16);
    } else {
        return false;
    }
    return *end == '\0' && *value;
}

static bool parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--keep-going") == 0)
            options.keep_going = true;
        else if (strcmp(argv[i], "--trace") == 0)
            options.trace = true;
        else if (i + 1 >= argc || !parse_one(argv[i], argv[i + 1]))
            return false;
        else
            i++;
    }
    return true;
}

/* Those that work here. */
static void choose_drivers(void)
{
    static const char *const names[] = {"io_uring", "epoll", "poll", "sim"};
    for (int i = 0; i < 4; i++) {
        coir_config config = COIR_CONFIG;
        coir_runtime *runtime;
        config.workers = 1;
        config.driver = names[i];
        bool works = i == 3 || coir_runtime_new(&config, &runtime) == 0;
        if (works)
            options.drivers[options.driver_count++] = names[i];
        if (works && i < 3)
            coir_runtime_free(runtime);
    }
}

static void print_text(void)
{
    for (int i = 0; i < options.driver_count; i++) {
        struct program *program = make(options.only, i);
        program_print(program, stdout);
        program_free(program);
    }
}

int main(int argc, char **argv)
{
    options.self = argv[0];
    unsetenv("COIR_WORKERS");
    unsetenv("COIR_DRIVER");
    if (!parse(argc, argv))
        return usage();
    if (!options.driver_count)
        choose_drivers();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    if (options.one)
        print_text();
    uint64_t failed = run_all(), passed = 0;
    for (int i = 0; i < options.driver_count; i++) {
        passed += shared->programs[i];
        printf("%-8s %8llu programs %12llu operations\n", options.drivers[i],
               (unsigned long long)shared->programs[i], (unsigned long long)shared->operations[i]);
    }
    printf("programs: %llu passed, %llu failed\n", (unsigned long long)passed,
           (unsigned long long)failed);
    return failed || !passed;
}
