/* Simulated threads: how they switch, sleep, wait for each other, and enter the kernel. kernel.h 1
 * to 3. Their mutexes are in thread_lock.c. */
#include "sys/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/kernel/kernel.h"
#include "sys/lock.h"

enum { STACK = 256 * 1024, GUARD = 4096, THREADS_MOST = 512 };

uint32_t ci_kpoints_left = UINT32_MAX;

static void **locals[CI_KTHREAD_LOCALS], *outside_locals[CI_KTHREAD_LOCALS];
static int local_count;
void *(*ci_kthread_exchange)(void *kept);
static void *outside_kept;

/* ---- stacks, kept from run to run ---- */

struct spare {
    struct spare *next;
};
static struct spare *spares; /* at their tops */

static char *take_stack(void)
{
    if (spares) {
        char *stack = (char *)(spares + 1) - STACK;
        spares = spares->next;
        return stack;
    }
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ci_check(stack != MAP_FAILED, "kernel/kernel.h 5");
    mprotect(stack, GUARD, PROT_NONE);
    return stack;
}

static void give_stack(char *stack)
{
    struct spare *spare = (struct spare *)(void *)(stack + STACK) - 1;
    ci_note_unmap(stack + GUARD, STACK - GUARD);
    spare->next = spares;
    spares = spare;
}

/* ---- switching ---- */

static struct ci_stack_view *came_from; /* the stack of the last switch */

/* Not traced by TSan, see base/sanitizer.c. */
CI_UNTRACED static CI_NOINLINE void jump(struct ci_context *from, struct ci_stack_view *left,
                                         struct ci_context *to, const struct ci_stack_view *there)
{
    if (ci_sanitizer) {
        came_from = left;
        ci_stack_view_leave_here(left, there);
    }
    ci_context_jump(from, to);
    if (ci_sanitizer)
        ci_stack_view_enter_from(left, came_from);
}

static void exchange_locals(void **save, void *const *load)
{
    for (int i = 0; i < local_count; i++) {
        save[i] = *locals[i];
        *locals[i] = load[i];
    }
}

static void exchange_kept(void **save, void **load)
{
    if (!ci_kthread_exchange)
        return;
    void *kept = *load;
    *load = NULL;
    *save = ci_kthread_exchange(kept);
}

/* NULL: to the scenario. Returns when another thread switches back to the caller. */
static void switch_to(struct ci_kthread *to)
{
    struct ci_kthread *from = ci_k.thread;
    if (from == to)
        return;
    ci_check(!to || !to->ended, "kernel/kernel.h 1");
    ci_check(!ci_k.runs_events, "kernel/kernel.h 2");
    exchange_locals(from ? from->locals : outside_locals, to ? to->locals : outside_locals);
    exchange_kept(from ? &from->kept : &outside_kept, to ? &to->kept : &outside_kept);
    ci_k.thread = to;
    ci_k.process = to ? to->process : NULL;
    jump(from ? &from->context : &ci_k.outside, from ? &from->left : &ci_k.outside_left,
         to ? &to->context : &ci_k.outside, to ? &to->left : &ci_k.outside_left);
}

/* ---- choosing ---- */

/* Static, because the current stack may be a small one of the program. */
static struct ci_kthread *runnable[THREADS_MOST];

/* At most `now`: it can run. */
static coir_time runs_at(const struct ci_kthread *thread, coir_time now)
{
    if (thread->waits_for && thread->deadline > now && !thread->ready(thread->ready_arg))
        return thread->deadline;
    return thread->spins_until;
}

/* `*ret_next`: when the first of the others can run. */
static int find_runnable(coir_time *ret_next)
{
    int count = 0;
    coir_time now = ci_know();
    *ret_next = COIR_NEVER;
    ci_list_for_each (node, &ci_k.threads) {
        struct ci_kthread *thread = ci_container_of(node, struct ci_kthread, link);
        coir_time at = runs_at(thread, now);
        if (at > now)
            *ret_next = at < *ret_next ? at : *ret_next;
        else if (count < THREADS_MOST)
            runnable[count++] = thread;
    }
    return count;
}

/* When no thread can run before `next`. False: nothing is left that could happen, or the time limit
 * is reached; ci_k.outcome says which. */
static bool let_time_pass(coir_time next)
{
    coir_time event = ci_world_next_event(ci_k.world);
    next = event < next ? event : next;
    ci_k.outcome = next == COIR_NEVER ? -EDEADLK : next > ci_k.time_max ? -ETIME : 0;
    if (ci_k.outcome == 0 && next > ci_k.world->now)
        ci_k.world->now = next;
    return ci_k.outcome == 0;
}

static void run_events(void)
{
    ci_check(!ci_k.runs_events, "kernel/kernel.h 2");
    ci_k.runs_events = true;
    ci_world_run_due(ci_k.world);
    ci_k.runs_events = false;
}

/* The thread that runs next, chosen by the seed among all that can run. NULL: back to the
 * scenario. */
static struct ci_kthread *choose(void)
{
    coir_time next;
    int count;
    run_events();
    while ((count = find_runnable(&next)) == 0) {
        if (!let_time_pass(next))
            return NULL;
        run_events();
    }
    ci_k.world->steps++;
    return runnable[count > 1 ? ci_kbelow((uint64_t)count) : 0];
}

bool ci_kthread_wait(const char *what, coir_fd fd, bool (*ready)(void *arg), void *arg,
                     coir_time deadline)
{
    struct ci_kthread *self = ci_k.thread;
    ci_check(self, "kernel/kernel.h 3"); /* the scenario itself cannot sleep */
    self->awake = 0;
    self->waits_for = what;
    self->waits_fd = fd;
    self->ready = ready;
    self->ready_arg = arg;
    self->deadline = deadline;
    switch_to(choose());
    self->waits_for = NULL;
    bool holds = ready(arg);
    ci_check(holds || deadline <= ci_know(), "kernel/kernel.h 3");
    return holds;
}

/* slack: prctl(2), PR_SET_TIMERSLACK */
static const coir_time slack = 50 * COIR_US, late_most = 1 * COIR_MS;

coir_time ci_kdeadline(coir_time timeout)
{
    if (timeout <= 0)
        return timeout < 0 ? COIR_NEVER : ci_know();
    return ci_time_after(ci_time_after(ci_know(), timeout), (coir_time)ci_kbelow((uint64_t)slack));
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

void ci_kthread_sleep(const char *what, coir_time until)
{
    ci_kthread_wait(what, -1, never, NULL, until);
}

void ci_kthread_be_late(void)
{
    const struct ci_node *node = ci_k.process->node;
    uint32_t awake = ci_k.thread->awake;
    if (ci_world_fault(ci_k.world, node, node->faults.late, "late news"))
        ci_kthread_sleep("the processor", ci_kafter((uint64_t)late_most));
    ci_k.thread->awake = awake;
}

void ci_kthread_may_yield(void)
{
    if (ci_k.thread && ci_kone_in(ci_k.settings.yield_one_in))
        switch_to(choose());
}

/* ---- system calls ---- */

enum { CALL_LEAST = 100, CALL_MOST = 1600 };

/* A loop that makes calls in vain would otherwise end with the next deadline, unseen. */
static void end_spin(void)
{
    fprintf(stderr, "%s.%d spins: %u system calls without a sleep\n", ci_k.process->node->name,
            ci_k.thread->number, ci_k.settings.awake_most);
    abort();
}

void ci_kcall(void)
{
    if (!ci_k.thread)
        return;
    if (ci_k.settings.awake_most && ++ci_k.thread->awake > ci_k.settings.awake_most)
        end_spin();
    ci_k.world->now =
        ci_time_after(ci_know(), CALL_LEAST + (coir_time)ci_kbelow(CALL_MOST - CALL_LEAST));
    run_events();
    if (ci_k.before_call)
        ci_k.before_call();
    ci_kthread_may_yield();
}

/* ---- atomic operations ---- */

static void set_next_point(void)
{
    ci_kpoints_left = ci_k.settings.point_one_in
                          ? 1 + (uint32_t)ci_kbelow(2 * ci_k.settings.point_one_in)
                          : UINT32_MAX;
}

void ci_kpoint_reached(void)
{
    if (!ci_k.world) {
        ci_kpoints_left = UINT32_MAX;
        return;
    }
    set_next_point();
    if (ci_k.thread && !ci_k.runs_events)
        switch_to(choose());
}

/* In place of sys/pause.c. The processor may be another one's meanwhile. */
void ci_pause(unsigned round)
{
    (void)round;
    if (!ci_k.thread)
        return;
    ci_k.thread->spins_until = ci_kafter(ci_k.settings.spin_most);
    switch_to(choose());
    ci_k.thread->spins_until = 0;
}

/* ---- life ---- */

static bool have_left(void *arg)
{
    return ((const struct ci_kprocess *)arg)->detached == 0;
}

/* A process that ends would end its detached threads: here it waits for them, so that what they
 * hold is seen to be given back. */
static void begin_thread(void)
{
    if (ci_sanitizer)
        ci_stack_view_enter_from(NULL, came_from);
    struct ci_kthread *self = ci_k.thread;
    self->fn(self->arg);
    if (self->process->first == self && self->process->detached)
        ci_kthread_wait("detached threads", -1, have_left, self->process, COIR_NEVER);
    if (ci_k.thread_ended)
        ci_k.thread_ended(self->number);
    self->ended = true;
    ci_list_unlink(&self->link);
    ci_list_push(&ci_k.ended_threads, &self->link);
    self->process->threads--;
    self->process->detached -= self->detached;
    bool first = self->process->first == self;
    if (first) {
        self->process->ended = true;
        ci_k.outcome = 0;
    }
    switch_to(first ? NULL : choose());
    abort();
}

struct ci_kthread *ci_kthread_start(struct ci_kprocess *process, void *(*fn)(void *arg), void *arg)
{
    struct ci_kthread *thread;
    int rc = posix_memalign((void **)&thread, 64, sizeof *thread);
    ci_check(rc == 0, "kernel/kernel.h 5");
    memset(thread, 0, sizeof *thread);
    thread->process = process;
    thread->number = ++ci_k.thread_count;
    thread->fn = fn;
    thread->arg = arg;
    thread->stack = take_stack();
    ci_stack_view_init(&thread->own, thread->stack + GUARD,
                       thread->stack + STACK - sizeof(struct spare));
    thread->left = thread->own;
    ci_context_init(&thread->context, begin_thread, thread->stack + STACK - sizeof(struct spare));
    process->threads++;
    ci_list_push(&ci_k.threads, &thread->link);
    return thread;
}

static void free_thread(struct ci_kthread *thread)
{
    ci_list_unlink(&thread->link);
    ci_stack_view_done(&thread->own);
    give_stack(thread->stack);
    free(thread);
}

static void free_all(struct ci_list *threads)
{
    while (!ci_list_empty(threads))
        free_thread(ci_container_of(threads->next, struct ci_kthread, link));
}

void ci_kthreads_open(void **const *slots, int count)
{
    ci_check(count <= CI_KTHREAD_LOCALS, "kernel/kernel.h 1");
    local_count = count;
    for (int i = 0; i < count; i++)
        locals[i] = slots[i];
    ci_list_init(&ci_k.threads);
    ci_list_init(&ci_k.ended_threads);
    ci_stack_view_adopt_thread(&ci_k.outside_own);
    ci_k.outside_left = ci_k.outside_own;
    set_next_point();
}

void ci_kthreads_close(void)
{
    free_all(&ci_k.threads);
    free_all(&ci_k.ended_threads);
    ci_kpoints_left = UINT32_MAX;
}

int ci_kthreads_run(void)
{
    ci_k.outcome = 0;
    struct ci_kthread *next = choose();
    if (next)
        switch_to(next);
    return ci_k.outcome;
}

void ci_kthreads_dump(void)
{
    ci_list_for_each (node, &ci_k.threads) {
        const struct ci_kthread *thread = ci_container_of(node, struct ci_kthread, link);
        ci_world_trace(ci_k.world, thread->process->node, "  thread %d waits for %s fd=%d",
                       thread->number, thread->waits_for ? thread->waits_for : "nothing",
                       thread->waits_fd);
    }
}

/* ---- sys/thread.h ---- */

int ci_thread_start(struct ci_thread *thread, void *(*fn)(void *arg), void *arg)
{
    ci_kcall();
    thread->kthread = ci_kthread_start(ci_k.process, fn, arg);
    return 0;
}

static bool has_ended(void *arg)
{
    return ((const struct ci_kthread *)arg)->ended;
}

void ci_thread_join(struct ci_thread *thread)
{
    if (!thread->kthread->ended)
        ci_kthread_wait("the end of a thread", -1, has_ended, thread->kthread, COIR_NEVER);
    free_thread(thread->kthread);
    thread->kthread = NULL;
}

void ci_thread_detach(struct ci_thread *thread)
{
    thread->kthread->detached = true;
    thread->kthread->process->detached += !thread->kthread->ended;
    thread->kthread = NULL;
}

/* Simulated threads share the thread-local variables of a real one. */
const char *ci_thread_mark(void)
{
    return (const char *)(ci_k.thread ? (void *)ci_k.thread : &ci_k);
}

void ci_thread_adopt_stack(struct ci_stack_view *view)
{
    if (ci_k.thread)
        *view = ci_k.thread->own;
    else
        ci_stack_view_adopt_thread(view);
}
