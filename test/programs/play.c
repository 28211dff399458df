/* A program is played: its acts run in a runtime that lives as the program says, and everything is
 * accounted for at the end. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "coir/sim.h"
#include "program.h"

/* ---- for the acts ---- */

void program_end(void)
{
    syscall(SYS_exit_group, 3);
    abort();
}

void program_fail(const struct act *act, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    flockfile(stderr);
    fprintf(stderr, "  act %d (%s): ", act->number, act->kind ? act->kind->name : "none");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    funlockfile(stderr);
    va_end(args);
    program_end();
}

bool act_complete(const struct act *act)
{
    return act->played && !act->hurried && !act->run->program->stops;
}

void act_count(struct act *act)
{
    __atomic_add_fetch(&act->run->program->operations, 1, __ATOMIC_RELAXED);
}

int actor_interrupted(struct actor *actor, int rc)
{
    struct act *act = actor->act;
    bool because = act->hurry != HURRY_NOT || act->run->program->stops;
    if (rc != -ECANCELED && rc != -ETIME)
        program_fail(act, "actor %d: error %d: %s", actor->number, rc, coir_strerror(rc));
    if (!because)
        program_fail(act, "actor %d was interrupted (%d), and nothing says why", actor->number, rc);
    return rc;
}

static void compute(unsigned rounds)
{
    for (volatile unsigned i = 0; i < rounds; i++) {
    }
}

void actor_rest(struct actor *actor)
{
    const struct step *step = &actor->script.steps[actor->at % actor->script.count];
    if (actor->act->run->program->simulated && step->rest < 3)
        return;
    switch (step->rest) {
    case 0: compute(2000); break;
    case 1:
    case 2: coir_yield(); break;
    case 3: coir_sleep_for(step->us * COIR_US / 4); break;
    case 4: coir_sleep_for(1); break;
    default: break;
    }
}

int actor_lull(struct actor *actor)
{
    return coir_sleep_for((1 + (coir_time)draw(&actor->random, 40)) * COIR_US);
}

void act_name(const struct act *act, int number, char *text, size_t size)
{
    const struct program *program = act->run->program;
    snprintf(text, size, "/tmp/coir-programs-%d-%llu-%d-%d", program->simulated ? 0 : (int)getpid(),
             (unsigned long long)program->seed, act->number, number);
}

/* ---- an act ---- */

static int play_actor(void *arg)
{
    struct actor *actor = arg;
    return actor->act->kind->play(actor);
}

static void *play_thread(void *arg)
{
    struct actor *actor = arg;
    actor->act->kind->play(actor);
    if (!actor->released) {
        __atomic_sub_fetch(&actor->act->threads, 1, __ATOMIC_RELEASE);
        coir_runtime_release(actor->act->run->runtime);
    }
    return NULL;
}

static int start_actor(coir_scope *scope, struct actor *actor)
{
    struct act *act = actor->act;
    if (!(actor->thread && act->kind->threads && act->any_thread)) {
        actor->thread = false;
        coir_go_options options = COIR_GO_OPTIONS;
        options.place = actor->place;
        options.name = act->kind->name;
        return coir_go_with(scope, &options, play_actor, actor);
    }
    coir_runtime_hold(act->run->runtime);
    __atomic_add_fetch(&act->threads, 1, __ATOMIC_RELAXED);
    if (pthread_create(&actor->handle, NULL, play_thread, actor) != 0)
        program_fail(act, "no thread");
    actor->started = true;
    return 0;
}

static void await_threads(const struct act *act)
{
    while (__atomic_load_n(&act->threads, __ATOMIC_ACQUIRE) && coir_sleep_for(100 * COIR_US) == 0) {
    }
}

static void play_in_scope(struct act *act, coir_scope *scope)
{
    int rc = 0;
    for (int i = 0; i < act->actor_count && rc == 0; i++)
        rc = start_actor(scope, &act->actors[i]);
    if (rc < 0) {
        actor_interrupted(&act->actors[0], rc);
        act->hurried = true;
        coir_scope_cancel(scope);
    } else if (act->hurry == HURRY_CANCEL) {
        coir_sleep_for(act->hurry_us * COIR_US);
        act->hurried = true;
        coir_scope_cancel(scope);
    }
    rc = coir_scope_wait(scope);
    if (rc < 0)
        actor_interrupted(&act->actors[0], rc);
    if (!act->hurried)
        await_threads(act);
    if (coir_task_interrupted())
        act->hurried = true;
    act->played = true;
}

static int play_act(void *arg)
{
    struct act *act = arg;
    COIR_DEADLINE(act->hurry == HURRY_DEADLINE ? coir_in(act->hurry_us * COIR_US) : COIR_NEVER);
    coir_scope scope;
    if (act->serving)
        coir_serving_scope_open(&scope);
    else
        coir_scope_open(&scope);
    play_in_scope(act, &scope);
    coir_scope_close(&scope);
    return 0;
}

static int play_and_cancel(struct act *act)
{
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    options.place = act->place;
    options.name = "act";
    int rc = coir_go_with(scope, &options, play_act, act);
    if (rc < 0)
        return rc;
    coir_sleep_for(act->hurry_us * COIR_US);
    act->hurried = true;
    coir_cancel(handle);
    coir_scope_wait(scope);
    return 0;
}

static void act_over(struct run *run)
{
    if (__atomic_sub_fetch(&run->acts_left, 1, __ATOMIC_ACQ_REL) == 0)
        coir_event_set(&run->over);
}

static int run_act(void *arg)
{
    struct act *act = arg;
    int rc = act->kind->begin ? act->kind->begin(act) : 0;
    if (rc == 0) {
        act->began = true;
        rc = act->hurry == HURRY_HANDLE ? play_and_cancel(act) : play_act(act);
    }
    if (rc < 0) {
        act->hurried = true;
        if (!act->run->program->stops)
            program_fail(act, "it cannot begin: %s", coir_strerror(rc));
    }
    if (act->kind->end) {
        COIR_SHIELD;
        act->kind->end(act);
    }
    act_over(act->run);
    return 0;
}

/* ---- the tasks of a run ---- */

static void spawn_all(struct run *run, coir_scope *scope)
{
    struct program *program = run->program;
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "decoys";
    options.place = COIR_ON_WORKER((int)(program->seed % program->workers));
    int rc = coir_go_with(scope, &options, decoys_tick, run);
    run->acts_left = 1;
    for (int i = 0; i < program->act_count; i++) {
        struct act *act = &program->acts[i];
        if (act->run != run || act->left_out)
            continue;
        __atomic_add_fetch(&run->acts_left, 1, __ATOMIC_RELAXED);
        options.name = act->kind->name;
        options.place = act->place;
        rc = coir_go_with(scope, &options, run_act, act);
        if (rc < 0) {
            act_over(run);
            if (!program->stops)
                program_fail(act, "it cannot be started: %s", coir_strerror(rc));
        }
    }
    act_over(run);
}

static void last_things(struct run *run)
{
    struct program *program = run->program;
    for (int i = 0; i < program->act_count && program->late_allowed; i++)
        if (program->acts[i].run == run && program->acts[i].kind->last &&
            !program->acts[i].left_out)
            program->acts[i].kind->last(&program->acts[i]);
}

int program_run(void *arg)
{
    struct run *run = arg;
    const struct program *program = run->program;
    memory_fail_at(0);
    run->runtime = coir_runtime_current();
    __atomic_store_n(&run->begun, true, __ATOMIC_RELEASE);
    if (program->life == LIFE_ABRUPT) {
        spawn_all(run, NULL);
        last_things(run);
        return 0;
    }
    COIR_SERVING_SCOPE(scope);
    spawn_all(run, scope);
    if (program->stops)
        coir_event_wait(&run->never);
    coir_scope_wait(scope);
    last_things(run);
    return 0;
}

/* ---- the lives of a runtime ---- */

static void log_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    if (level == COIR_LOG_ERROR && !memory_failed())
        fprintf(stderr, "  log: %s\n", line);
}

/* 0, or -ENOMEM, which was asked for. */
static int make_runtime(const struct program *program, coir_runtime **ret_runtime)
{
    coir_config config = COIR_CONFIG;
    config.workers = program->workers;
    config.driver = program->driver;
    config.allocator = &memory_allocator;
    config.budget = program->budget;
    config.offload_threads_max = program->offload_threads;
    config.deadlock = program->deadlock_ends ? COIR_DEADLOCK_END : COIR_DEADLOCK_IGNORE;
    config.log = log_line;
    config.stop_signals = program->life == LIFE_SIGNAL;
    int rc = coir_runtime_new(&config, ret_runtime);
    if (rc < 0 && !(rc == -ENOMEM && memory_failed()))
        program_fail(&program->acts[0], "coir_runtime_new: %s", coir_strerror(rc));
    return rc;
}

static int step_through(coir_runtime *runtime, struct run *run)
{
    int rc = coir_runtime_begin(runtime, program_run, run);
    while (rc == 0) {
        coir_time next = coir_runtime_next(runtime),
                  left = next == COIR_NEVER ? COIR_S : next - coir_now();
        struct pollfd fd = {.fd = coir_runtime_fd(runtime), .events = POLLIN};
        struct timespec wait = {left / COIR_S, left % COIR_S};
        if (left > 0)
            ppoll(&fd, 1, &wait, NULL);
        if (!coir_runtime_step(runtime))
            return coir_runtime_end(runtime);
    }
    return rc;
}

static void check_result(struct run *run, coir_runtime *runtime)
{
    const struct program *program = run->program;
    const struct act *act = &program->acts[0];
    coir_counters counters = COIR_COUNTERS;
    if (run->result < 0 && !(run->result == -ECANCELED && program->stops) &&
        !(run->result == -ENOMEM && memory_failed()))
        program_fail(act, "the run ended with: %s", coir_strerror(run->result));
    coir_counters_get(runtime, &counters);
    ACT_CHECK_EQ(act, counters.stacks_live, 0);
    ACT_CHECK_EQ(act, counters.tasks_live, 0);
}

static int sleep_little(void *arg)
{
    (void)arg;
    return coir_sleep_for(1);
}

static void call_late(const struct program *program, coir_runtime *runtime)
{
    coir_call call;
    int rc = (int)coir_block_on(runtime, coir_call_init(&call, sleep_little, NULL));
    if (rc >= 0)
        program_fail(&program->acts[0], "coir_block_on ran something in a runtime that had ended");
}

static void run_once(struct run *run, coir_runtime *runtime)
{
    struct program *program = run->program;
    run->runtime = runtime;
    if (program->life == LIFE_EARLY)
        coir_runtime_stop(runtime);
    run->result = program->life == LIFE_STEPPED ? step_through(runtime, run)
                                                : coir_runtime_run(runtime, program_run, run);
    __atomic_store_n(&run->ended, true, __ATOMIC_RELEASE);
    check_result(run, runtime);
}

/* The runs of one runtime, from its making to its end. */
static void live(struct run *first, int count)
{
    struct program *program = first->program;
    coir_runtime *runtime;
    if (make_runtime(program, &runtime) < 0) {
        __atomic_store_n(&first->ended, true, __ATOMIC_RELEASE);
        return;
    }
    for (int i = 0; i < count; i++)
        run_once(&first[i], runtime);
    if (program->late_call)
        call_late(program, runtime);
    for (int i = 0; i < program->act_count; i++) {
        struct act *act = &program->acts[i];
        for (int j = 0; j < act->actor_count && act->run >= first && act->run < first + count; j++)
            if (act->actors[j].started)
                pthread_join(act->actors[j].handle, NULL);
    }
    for (int i = 0; i < program->act_count; i++) {
        struct act *act = &program->acts[i];
        if (act->run >= first && act->run < first + count && act->kind->check && !act->left_out)
            act->kind->check(act);
    }
    coir_runtime_free(runtime);
}

static void *live_in_thread(void *arg)
{
    live(arg, 1);
    return NULL;
}

/* One signal, once both runtimes run (a second one would end the process): both are to hear it.
 * Under TSan the stopper sends it to itself: TSan puts a handler off until the fiber that was
 * interrupted calls into it again, and that one may wait for good. */
static void *stop_them(void *arg)
{
    struct program *program = arg;
    struct timespec wait = {0, program->stop_us * 1000}, again = {0, 100000};
    for (int i = 0; i < program->run_count; i++)
        while (!__atomic_load_n(&program->runs[i].begun, __ATOMIC_ACQUIRE) &&
               !__atomic_load_n(&program->runs[i].ended, __ATOMIC_ACQUIRE))
            nanosleep(&again, NULL);
    nanosleep(&wait, NULL);
    if (CI_TSAN)
        pthread_kill(pthread_self(), SIGTERM);
    else
        kill(getpid(), SIGTERM);
    return NULL;
}

struct stopper {
    struct program *program;
    coir_runtime *runtime;
};

static void *stop_it(void *arg)
{
    const struct stopper *stopper = arg;
    struct timespec wait = {0, stopper->program->stop_us * 1000};
    if (stopper->program->stop_us)
        nanosleep(&wait, NULL);
    coir_runtime_stop(stopper->runtime);
    return NULL;
}

void program_check(struct program *program)
{
    for (int i = 0; i < program->act_count; i++)
        if (program->acts[i].kind->check && !program->acts[i].left_out)
            program->acts[i].kind->check(&program->acts[i]);
}

/* Like live, and another thread stops it: before the run begins, meanwhile. */
static void live_and_be_stopped(struct program *program)
{
    struct stopper stopper = {.program = program};
    pthread_t thread;
    if (make_runtime(program, &stopper.runtime) < 0)
        return;
    pthread_create(&thread, NULL, stop_it, &stopper);
    for (coir_time begin = coir_in(program->start_us * COIR_US); coir_now() < begin;) {
    }
    run_once(&program->runs[0], stopper.runtime);
    pthread_join(thread, NULL);
    for (int i = 0; i < program->act_count; i++)
        for (int j = 0; j < program->acts[i].actor_count; j++)
            if (program->acts[i].actors[j].started)
                pthread_join(program->acts[i].actors[j].handle, NULL);
    program_check(program);
    coir_runtime_free(stopper.runtime);
}

static void live_in_pairs(struct program *program)
{
    pthread_t thread, stopper;
    if (program->life == LIFE_SIGNAL)
        pthread_create(&stopper, NULL, stop_them, program);
    pthread_create(&thread, NULL, live_in_thread, &program->runs[1]);
    live(&program->runs[0], 1);
    pthread_join(thread, NULL);
    if (program->life == LIFE_SIGNAL)
        pthread_join(stopper, NULL);
}

/* ---- in the simulator ---- */

static int scenario(coir_sim *sim, void *arg)
{
    struct program *program = arg;
    coir_sim_link(sim, NULL, NULL, program->link);
    coir_sim_faults(sim, NULL, (coir_faults){.late = program->late});
    int rc = coir_sim_host_main(sim, "host", program_run, &program->runs[0]);
    if (rc >= 0)
        program_check(program); /* what is freed there is of the host's memory */
    return rc;
}

static void print_line(const char *line, void *context)
{
    (void)context;
    puts(line);
}

static void live_in_sim(struct program *program)
{
    coir_sim_options options = COIR_SIM_OPTIONS;
    options.seed = program->seed;
    options.workers = program->workers;
    options.trace = program->traced ? print_line : NULL;
    coir_sim_result result = COIR_SIM_RESULT;
    int rc = coir_sim_run(&options, scenario, program, &result);
    if (rc < 0)
        program_fail(&program->acts[0], "the simulation ended with: %s: %s", coir_strerror(rc),
                     result.left);
}

/* ---- the whole ---- */

/* Those for which `counts` holds; NULL: all. */
static int count_entries(const char *path, bool (*counts)(const char *name))
{
    int count = 0;
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        count += !counts || counts(entry->d_name);
    if (dir)
        closedir(dir);
    return count;
}

/* A worker of the kernel's own for a ring (io-wq.c) is none: it stays for seconds. */
static bool is_thread(const char *id)
{
    char path[300], name[16] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", id);
    FILE *file = fopen(path, "re");
    bool is_read = file && fgets(name, sizeof name, file);
    if (file)
        fclose(file);
    return is_read && strncmp(name, "iou-", 4) != 0;
}

static int count_threads(void)
{
    return count_entries("/proc/self/task", is_thread);
}

static void check_left_over(const struct program *program, int fds, int threads)
{
    const struct act *act = &program->acts[0];
    ACT_CHECK_EQ(act, memory_live(), 0);
    ACT_CHECK_EQ(act, count_entries("/proc/self/fd", NULL), fds);
    for (int tries = 0; count_threads() != threads && tries < 1000; tries++)
        usleep(1000); /* a thread that was joined may be seen for a moment */
    ACT_CHECK_EQ(act, count_threads(), threads);
}

void program_play(struct program *program)
{
    int fds = count_entries("/proc/self/fd", NULL), threads = count_threads();
    for (int i = 0; i < program->run_count; i++)
        decoys_init(&program->runs[i]);
    memory_fail_at(program->simulated ? 0 : program->fail_at);
    if (program->simulated)
        live_in_sim(program);
    else if (program->life == LIFE_PAIR || program->life == LIFE_SIGNAL)
        live_in_pairs(program);
    else if (program->life == LIFE_STOPPED)
        live_and_be_stopped(program);
    else
        live(&program->runs[0], program->run_count);
    memory_fail_at(0);
    for (int i = 0; i < program->run_count; i++) {
        decoys_check(&program->runs[i]);
        decoys_free(&program->runs[i]);
    }
    check_left_over(program, fds, threads);
}
