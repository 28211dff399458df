/* Tells a stack overflow from other faults: the task is named, with its stack, and the process aborts.
 * The handler runs on a stack of its own and passes every other fault on to the handler that was there before. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "task/task.h"

enum { SIGNAL_STACK = 64 * 1024 };

static struct sigaction before;
static bool installed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CI_COLD void report(const struct ci_worker *worker, const void *address)
{
    const struct ci_fiber *fiber = worker->fiber;
    const struct ci_task *task = fiber->strand->task;
    const char *name = task->name ? task->name : "(without a name)";
    char text[400];
    int len = snprintf(text, sizeof text,
                       "coir: stack overflow in task %s on worker %d: address %p is in the guard of a stack of %zu bytes "
                       "(coir_config.stack_size sets them)\n",
                       name, worker->index, address, worker->stacks.size);
    ssize_t ignored CI_UNUSED = write(STDERR_FILENO, text, (size_t)len);
}

/* The fiber's own stack, or that of the generator that it runs. */
static bool in_a_guard(const struct ci_worker *worker, const void *address)
{
    const struct ci_fiber *fiber = worker->fiber;
    return ci_stack_in_guard(&worker->stacks, fiber, address) ||
           (fiber->generator && ci_stack_in_guard(&worker->stacks, fiber->generator, address));
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const struct ci_worker *worker = ci_worker_current;
    if (worker && worker->fiber && in_a_guard(worker, info->si_addr)) {
        report(worker, info->si_addr);
        signal(SIGABRT, SIG_DFL);
        abort();
    }
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        signal(number, SIG_DFL); /* the instruction runs again and the default action follows */
    }
}

int ci_overflow_watch(struct ci_worker *worker)
{
    if (!(worker->signal_stack = ci_alloc(&worker->runtime->allocator, SIGNAL_STACK)))
        return -ENOMEM;
    stack_t stack = {.ss_sp = worker->signal_stack, .ss_size = SIGNAL_STACK};
    sigaltstack(&stack, NULL);
    pthread_mutex_lock(&lock);
    if (!installed) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
        sigemptyset(&action.sa_mask);
        sigaction(SIGSEGV, &action, &before);
        installed = true;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

void ci_overflow_unwatch(struct ci_worker *worker)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    ci_free(&worker->runtime->allocator, worker->signal_stack, SIGNAL_STACK);
    worker->signal_stack = NULL;
}
