#include "model/model.h"

#include "sys/barrier.h"
#include "task/current.h"
#include "task/deadlock.h"
#include "task/local.h"
#include "task/run.h"
#include "task/run_state.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "task/runtime.h"

enum { THREADS_MOST = 6, CHOICES_MOST = 100000, STACK = 256 * 1024 };

struct thread {
    struct ci_context context;
    struct ci_worker *worker; /* NULL: a plain one */
    void (*fn)(void);
    struct ci_worker *current; /* ci_worker_current, while it does not run */
    struct ci_local *carried;
    bool done, asleep, woken, spinning;
    char *stack;
    uint32_t *stored; /* by a store that no other thread sees yet, or NULL */
    uint32_t stored_value;
};

struct choice {
    uint16_t taken, count;
};

static struct thread threads[THREADS_MOST];
static struct ci_context outside;
static int thread_count, running;
static int preemptions_left;
static struct choice choices[CHOICES_MOST];
static size_t depth, known;
static bool modelling;
static const struct model *model_now;
static bool whole, frees; /* model_run_whole */

/* ---- the scheduler ---- */

static void print_order(void)
{
    modelling = false;
    fprintf(stderr, "  %s, with the choices", model_now->name);
    for (size_t i = 0; i < depth; i++)
        if (choices[i].taken)
            fprintf(stderr, " %zu:%d", i, choices[i].taken);
    fprintf(stderr, "\n");
    for (int i = 0; i < thread_count; i++)
        fprintf(stderr, "    thread %d %s\n", i,
                threads[i].done     ? "has ended"
                : threads[i].asleep ? "sleeps"
                                    : "runs");
}

static CI_NORETURN void fail(const char *why)
{
    test_fail(__FILE__, __LINE__, "%s", why);
}

/* One of `count`, 0 first: the next one of this run's choices. */
static int choose(int count)
{
    if (count < 2)
        return 0;
    if (depth == CHOICES_MOST)
        fail("too many choices");
    if (depth == known)
        choices[known++] = (struct choice){0, (uint16_t)count};
    else if (choices[depth].count != count)
        fail("the run is not the same as before");
    return choices[depth++].taken;
}

static bool can_run(const struct thread *thread)
{
    return !thread->done && !thread->spinning && !(thread->asleep && !thread->woken);
}

static void switch_to(int next)
{
    struct thread *from = &threads[running], *to = &threads[next];
    if (from == to)
        return;
    from->current = ci_worker_current;
    from->carried = ci_carried_locals;
    running = next;
    ci_context_switch(&from->context, &to->context);
    ci_worker_current = threads[running].current;
    ci_carried_locals = threads[running].carried;
}

/* Those that can run beside the running one. */
static int others(int list[THREADS_MOST])
{
    int count = 0;
    for (int i = 0; i < thread_count; i++)
        if (i != running && can_run(&threads[i]))
            list[count++] = i;
    return count;
}

static void leave_to_another(const char *otherwise)
{
    int list[THREADS_MOST], count = others(list);
    if (!count) {
        for (int i = 0; i < thread_count; i++)
            if (threads[i].spinning && i != running)
                threads[i].spinning = false;
        count = others(list);
    }
    if (!count)
        fail(otherwise);
    switch_to(list[choose(count)]);
}

/* ---- stores that others see late, but before the thread's next store ---- */

bool model_without_barrier;

static void show_store(struct thread *thread)
{
    if (thread->stored)
        __atomic_store_n(thread->stored, thread->stored_value, __ATOMIC_SEQ_CST);
    thread->stored = NULL;
}

bool ci_barrier_prepare(void)
{
    return true;
}

bool ci_barrier_pays(void)
{
    return true;
}

void ci_barrier_everywhere(void)
{
    if (!modelling || model_without_barrier)
        return;
    ci_model_point(true);
    for (int i = 0; i < thread_count; i++)
        show_store(&threads[i]);
}

void ci_model_store_buffered(uint32_t *word, uint32_t value)
{
    ci_model_point(true);
    if (!modelling)
        __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    else {
        threads[running].stored = word;
        threads[running].stored_value = value;
    }
}

/* When another thread sees the store matters only to its loads of that word. */
uint32_t ci_model_load_buffered(const uint32_t *word)
{
    ci_model_point(false);
    for (int i = 0; modelling && i < thread_count; i++)
        if (i != running && threads[i].stored == word && choose(2))
            show_store(&threads[i]);
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

void ci_model_point(bool writes)
{
    if (!modelling)
        return;
    if (writes)
        show_store(&threads[running]);
    for (int i = 0; writes && i < thread_count; i++)
        threads[i].spinning = false;
    int list[THREADS_MOST], count = preemptions_left ? others(list) : 0;
    int choice = choose(count + 1);
    if (choice == 0)
        return;
    preemptions_left--;
    switch_to(list[choice - 1]);
}

void ci_pause(unsigned round)
{
    (void)round;
    if (!modelling)
        return;
    show_store(&threads[running]);
    threads[running].spinning = true;
    leave_to_another("everybody spins");
    threads[running].spinning = false;
}

void model_pause(void)
{
    ci_pause(0);
}

/* In place of sys/gate.c. */
void ci_gate_init(struct ci_gate *gate)
{
    gate->open = false;
}

void ci_gate_done(struct ci_gate *gate)
{
    (void)gate;
}

void ci_gate_open(struct ci_gate *gate)
{
    ci_model_point(true);
    gate->open = true;
}

void ci_gate_wait(struct ci_gate *gate)
{
    while (!gate->open)
        ci_pause(0);
}

/* ---- drivers that sleep and wake ---- */

struct model_driver {
    struct ci_driver base;
    int thread;
};

static int driver_wait(struct ci_driver *driver, coir_time deadline)
{
    struct thread *thread = &threads[((struct model_driver *)(void *)driver)->thread];
    ci_model_point(false);
    if (deadline == 0 || !modelling) {
        thread->woken = false;
        return 0;
    }
    thread->asleep = true;
    if (!thread->woken)
        leave_to_another("everybody sleeps: a wake-up was lost");
    thread->asleep = thread->woken = false;
    return 0;
}

static void driver_wake(struct ci_driver *driver)
{
    ci_model_point(true);
    threads[((struct model_driver *)(void *)driver)->thread].woken = true;
}

static coir_time driver_now(struct ci_driver *driver)
{
    (void)driver;
    return COIR_S;
}

static uint64_t driver_random(struct ci_driver *driver)
{
    (void)driver;
    return 0;
}

static void driver_free(struct ci_driver *driver)
{
    free(driver);
}

static const struct ci_driver_kind driver_kind = {
    .name = "model",
    .wait = driver_wait,
    .wake = driver_wake,
    .now = driver_now,
    .random = driver_random,
    .free = driver_free,
};

static int open_driver(void *arg, int worker, const coir_allocator *allocator,
                       struct ci_driver **ret_driver)
{
    (void)arg;
    (void)allocator;
    struct model_driver *driver = calloc(1, sizeof *driver);
    driver->base.kind = &driver_kind;
    driver->thread = worker;
    *ret_driver = &driver->base;
    return 0;
}

/* ---- memory that is looked at after it was freed ---- */

enum { BLOCKS_MOST = 64, FREED = 0xdd };
static struct block {
    unsigned char *memory;
    size_t size;
} freed[BLOCKS_MOST];
static int freed_count;

static void *take_memory(size_t size, void *context)
{
    (void)context;
    return aligned_alloc(64, (size + 63) & ~(size_t)63);
}

static void keep_memory(void *memory, size_t size, void *context)
{
    (void)context;
    if (!memory)
        return;
    if (freed_count == BLOCKS_MOST)
        fail("too much is freed");
    memset(memory, FREED, size);
    freed[freed_count++] = (struct block){memory, size};
}

static const coir_allocator keeping = COIR_ALLOCATOR(take_memory, keep_memory, NULL);

static void check_freed(void)
{
    for (int i = 0; i < freed_count; i++) {
        for (size_t at = 0; at < freed[i].size; at++)
            if (freed[i].memory[at] != FREED)
                fail("memory was used after it was freed");
        free(freed[i].memory);
    }
    freed_count = 0;
}

/* ---- runs ---- */

static struct ci_gate begun;
static int whole_result;
coir_runtime *model_runtime;

/* Worker 0's thread, of a run that is modelled as a whole. */
static void run_whole(struct ci_worker *worker)
{
    coir_runtime *runtime = worker->runtime;
    if (ci_runtime_begin(runtime, model_now->start, runtime) < 0)
        fail("cannot begin");
    ci_gate_open(&begun);
    ci_worker_run(worker);
    for (unsigned i = 1; i < model_now->workers; i++)
        while (!threads[i].done)
            ci_pause(0);
    ci_run_settle(runtime);
    whole_result = ci_runtime_result(runtime);
    if (frees)
        coir_runtime_free(runtime);
}

static void run_thread(struct thread *self)
{
    if (!self->worker) {
        self->fn();
    } else if (!whole) {
        ci_worker_run(self->worker);
    } else if (self == &threads[0]) {
        run_whole(self->worker);
    } else {
        ci_gate_wait(&begun);
        ci_worker_run(self->worker);
    }
}

static void thread_main(void)
{
    ci_context_entered();
    struct thread *self = &threads[running];
    ci_worker_current = NULL;
    ci_carried_locals = NULL;
    run_thread(self);
    show_store(self);
    self->done = true;
    for (int i = 0; i < thread_count; i++)
        threads[i].spinning = false; /* it may be what they wait for */
    int list[THREADS_MOST], left = 0;
    for (int i = 0; i < thread_count; i++)
        left += !threads[i].done;
    if (left && !others(list))
        leave_to_another("everybody sleeps: a wake-up was lost");
    struct ci_context *to =
        left ? &threads[running = list[choose(others(list))]].context : &outside;
    ci_worker_current = left ? threads[running].current : NULL;
    ci_carried_locals = left ? threads[running].carried : NULL;
    ci_context_switch(&self->context, to);
    abort();
}

static void add_thread(struct ci_worker *worker, void (*fn)(void))
{
    struct thread *thread = &threads[thread_count++];
    char *stack = thread->stack ? thread->stack : aligned_alloc(64, STACK);
    *thread = (struct thread){.worker = worker, .fn = fn, .stack = stack};
    ci_context_init(&thread->context, thread_main, stack + STACK);
}

static coir_runtime *new_runtime(const struct model *model)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = model->workers;
    if (ci_runtime_new_on(&config, whole ? &keeping : NULL, open_driver, NULL, &runtime) < 0)
        fail("no runtime");
    runtime->config.deadlock = model->deadlock;
    for (unsigned i = 0; i < model->workers; i++)
        runtime->workers[i].loop.may_sleep = model->deadlock ? ci_deadlock_may_sleep : NULL;
    return runtime;
}

/* After a run that was begun before the model ran. */
static int end_run(const struct model *model, coir_runtime *runtime)
{
    ci_run_settle(runtime);
    for (unsigned i = 0; i < model->workers; i++) /* what a new runtime begins with */
        runtime->workers[i].loop.asleep = runtime->workers[i].loop.alert = false;
    runtime->was_visited = false;
    return ci_runtime_result(runtime);
}

/* One for all runs: a thread that has none gets one mapped each time that it enters a runtime. */
static void give_signal_stack(void)
{
    static char memory[64 * 1024];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    if (sigaltstack(&stack, NULL) < 0)
        fail("no signal stack");
}

static void run_once(const struct model *model, coir_runtime *runtime)
{
    thread_count = running = 0;
    depth = 0;
    preemptions_left = model->preemptions;
    model->reset();
    ci_gate_init(&begun);
    model_runtime = runtime;
    if (!whole && ci_runtime_begin(runtime, model->start, runtime) < 0)
        fail("cannot begin");
    for (unsigned i = 0; i < model->workers; i++)
        add_thread(&runtime->workers[i], NULL);
    for (int i = 0; i < 2; i++)
        if (model->plain[i])
            add_thread(NULL, model->plain[i]);
    modelling = true;
    ci_context_switch(&outside, &threads[0].context);
    modelling = false;
    ci_worker_current = NULL;
    int result = whole ? whole_result : end_run(model, runtime);
    if (model->result != MODEL_ANY_RESULT && result != model->result) {
        fprintf(stderr, "  the result is %d, not %d\n", result, model->result);
        fail("a wrong result");
    }
    model->check();
}

/* The next sequence of choices, in order; false when that was the last. */
static bool next_order(void)
{
    known = depth;
    while (known > 0 && choices[known - 1].taken + 1 == choices[known - 1].count)
        known--;
    if (known == 0)
        return false;
    choices[known - 1].taken++;
    return true;
}

void model_run(const struct model *model)
{
    coir_runtime *runtime = NULL;
    uint64_t orders = 0, most = 0;
    const char *limit = getenv("ORDERS");
    uint64_t orders_most = limit ? strtoull(limit, NULL, 0) : UINT64_MAX;
    model_now = model;
    test_on_fail = print_order;
    give_signal_stack();
    known = 0;
    do {
        if (!runtime)
            runtime = new_runtime(model);
        run_once(model, runtime);
        orders++;
        if (whole) {
            if (!frees)
                coir_runtime_free(runtime);
            runtime = NULL;
            check_freed();
        }
        if (depth > most)
            most = depth;
    } while (next_order() && orders < orders_most);
    coir_runtime_free(runtime);
    printf("  %s: %llu orders with at most %d preemptions, %llu choices in the longest%s\n",
           model->name, (unsigned long long)orders, model->preemptions, (unsigned long long)most,
           orders == orders_most ? " (not all)" : "");
}

void model_run_whole(const struct model *model, bool then_frees)
{
    whole = true;
    frees = then_frees;
    model_run(model);
    whole = false;
}
