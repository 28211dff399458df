/* The SIGSEGV handler that recognises stack overflows: it reports the task and its stack, and
 * aborts. It runs on an alternate signal stack, and passes every other fault to the handler that
 * was installed before.
 *
 * A frame that is larger than the guard can step over it, unless its function was compiled with
 * -fstack-clash-protection. The handler recognises such a fault by the stack pointer, which lies
 * outside of the task's stack; it reports the fault and passes it on. */
#include "task/overflow.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/character.h"
#include "base/check.h"
#include "sys/fault.h"
#include "sys/signal.h"
#include "task/current.h"
#include "task/generator.h"
#include "task/runtime.h"

enum { SIGNAL_STACK = 64 * 1024, TEXT_SIZE = 512 };

/* guards the next three; the handler reads them without it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;
static bool installed;
static struct ci_worker *watched; /* newest first */

/* ---- a report: formatted by hand, because a handler may not call snprintf (signal-safety(7))
 * ---- */

struct text {
    char bytes[TEXT_SIZE];
    size_t len;
};

static void put(struct text *text, const char *string)
{
    while (*string && text->len < TEXT_SIZE)
        text->bytes[text->len++] = *string++;
}

static void put_name(struct text *text, const char *name)
{
    for (size_t len; *name; name += len ? len : 1) {
        char character[8] = "?";
        len = ci_character_len(name);
        if (ci_character_is_plain(name, len))
            memcpy(character, name, len);
        put(text, character);
    }
}

static void put_number(struct text *text, uintptr_t number, unsigned base)
{
    char digits[24], *at = digits + sizeof digits - 1;
    *at = '\0';
    do
        *--at = "0123456789abcdef"[number % base];
    while ((number /= base) != 0);
    put(text, base == 16 ? "0x" : "");
    put(text, at);
}

static CI_COLD void report(const struct ci_worker *worker, const char *what, const void *address,
                           const char *where)
{
    const struct ci_task *task = worker->fiber->runnable->task;
    struct text text = {.len = 0};
    put(&text, "coir: stack overflow in task ");
    put_name(&text, task->name ? task->name : "(without a name)");
    put(&text, " on worker ");
    put_number(&text, (uintptr_t)worker->index, 10);
    put(&text, what);
    put_number(&text, (uintptr_t)address, 16);
    put(&text, where);
    put_number(&text, worker->stacks.size, 10);
    put(&text, " bytes (coir_config.stack_size sets them)\n");
    ssize_t ignored CI_UNUSED = write(STDERR_FILENO, text.bytes, text.len);
}

/* ---- the handler ---- */

/* Whether `holds` is true of one of the fiber's stacks: its own, or those of the generators that it
 * runs, innermost first. */
static bool one_of_its_stacks(const struct ci_worker *worker,
                              bool (*holds)(const struct ci_stacks *, const void *, const void *),
                              const void *address)
{
    const struct ci_fiber *fiber = worker->fiber;
    const struct coir_generator *generator = fiber->generator;
    while (generator && !holds(&worker->stacks, generator, address))
        generator = ci_generator_outer(generator);
    return generator || holds(&worker->stacks, fiber, address);
}

/* Whether the address lies on the thread's alternate signal stack: this worker's, or one that was
 * set after it. */
static bool on_signal_stack(const void *address)
{
    stack_t current;
    if (sigaltstack(NULL, &current) < 0 || current.ss_flags & SS_DISABLE)
        return false;
    return (uintptr_t)address - (uintptr_t)current.ss_sp < current.ss_size;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const struct ci_worker *worker = ci_worker_current;
    if (worker && worker->fiber && worker->signal_stack) {
        const void *sp = ci_fault_stack_pointer(context);
        if (one_of_its_stacks(worker, ci_stack_in_guard, info->si_addr)) {
            ci_signal_leave(); /* a report on a terminal in raw mode is hard to read */
            report(worker, ": address ", info->si_addr, " is in the guard of a stack of ");
            signal(SIGABRT, SIG_DFL);
            abort();
        }
        if (sp && !one_of_its_stacks(worker, ci_stack_holds, sp) && !on_signal_stack(sp))
            report(worker, ": the stack pointer ", sp, " lies outside of its stack of ");
    }
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        ci_signal_take_default(number, info);
    }
}

/* ---- installing it ---- */

static void install(struct ci_worker *worker)
{
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&lock);
    if (!installed)
        sigaction(SIGSEGV, &action, &before);
    installed = true;
    worker->next_watched = watched;
    watched = worker;
    pthread_mutex_unlock(&lock);
}

/* Removes the worker's alternate signal stack. One thread may drive several runtimes, which end in
 * any order: if another worker has set its stack after this one, that worker will restore the stack
 * that this one replaced. */
static void remove_signal_stack(struct ci_worker *worker)
{
    stack_t current;
    if (sigaltstack(NULL, &current) == 0 && current.ss_sp == worker->signal_stack) {
        /* the thread may have had one before */
        sigaltstack(&worker->signal_stack_before, NULL);
        return;
    }
    for (struct ci_worker *other = watched; other; other = other->next_watched)
        if (other->signal_stack_before.ss_sp == worker->signal_stack)
            other->signal_stack_before = worker->signal_stack_before;
}

/* The last worker restores the previous handler, unless another one has been installed after
 * ours. */
static void uninstall(struct ci_worker *worker)
{
    struct sigaction current;
    struct ci_worker **at = &watched;
    pthread_mutex_lock(&lock);
    while (*at != worker)
        at = &(*at)->next_watched;
    *at = worker->next_watched;
    remove_signal_stack(worker);
    if (!watched && sigaction(SIGSEGV, NULL, &current) == 0 && current.sa_flags & SA_SIGINFO &&
        current.sa_sigaction == on_fault) {
        sigaction(SIGSEGV, &before, NULL);
        installed = false;
    }
    pthread_mutex_unlock(&lock);
}

int ci_overflow_watch(struct ci_worker *worker)
{
    if (!(worker->signal_stack = ci_alloc(&worker->runtime->allocator, SIGNAL_STACK)))
        return -ENOMEM;
    stack_t stack = {.ss_sp = worker->signal_stack, .ss_size = SIGNAL_STACK};
    sigaltstack(&stack, &worker->signal_stack_before);
    install(worker);
    return 0;
}

void ci_overflow_unwatch(struct ci_worker *worker)
{
    if (!worker->signal_stack)
        return;
    uninstall(worker);
    ci_free(&worker->runtime->allocator, worker->signal_stack, SIGNAL_STACK);
    worker->signal_stack = NULL;
}
