/* SIGURG takes a thread's stack: a program that does not use it ignores it, and so do debuggers.
 * The handler is installed while a stack is taken; what is not ours goes to the one that was there
 * before. */
#include "sys/thread_trace.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__GLIBC__) || defined(__APPLE__)
#include <execinfo.h>
#define WALK(frames, most) backtrace(frames, most)
#else
#define WALK(frames, most) ((void)(frames), (void)(most), 0)
#endif

#include "base/atomic.h"
#include "base/check.h"
#include "sys/clock.h"
#include "sys/fault.h"

enum { NUMBER = SIGURG, OWN_FRAMES = 8 /* of the handler, at most */, SIGNAL_STACK = 64 * 1024 };
enum { IDLE, ASKED, TAKEN };

static const coir_time look = 50 * COIR_US;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `asking` */
static unsigned asking;                                  /* threads that ask */
static struct sigaction before;

/* Those of this thread. */
static CI_THREAD_LOCAL struct ci_traced *here;
static CI_THREAD_LOCAL void *signal_stack; /* made for it; NULL: it had one */

/* ---- the handler ---- */

static CI_UNTRACED void take(struct ci_traced *traced, void *const *frames, int count,
                             const void *context)
{
    const void *at = ci_fault_program_counter(context);
    int first = 0;
    while (first < count && frames[first] != at)
        first++;
    traced->exact = first < count; /* otherwise it stands among the frames of the handler */
    if (!traced->exact)
        first = 0;
    traced->count = count - first < CI_THREAD_TRACE_FRAMES ? count - first : CI_THREAD_TRACE_FRAMES;
    for (int i = 0; i < traced->count; i++)
        traced->frames[i] = frames[first + i];
    traced->note(traced);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int error = errno;
    bool asked = false;
    for (struct ci_traced *traced = here; traced; traced = traced->next) {
        void *frames[CI_THREAD_TRACE_FRAMES + OWN_FRAMES];
        if (ci_load(&traced->state) != ASKED) /* pairs with the store in ci_thread_trace_ask */
            continue;
        take(traced, frames, WALK(frames, CI_THREAD_TRACE_FRAMES + OWN_FRAMES), context);
        ci_store(&traced->state, TAKEN); /* pairs with the load in ci_thread_trace_await */
        asked = true;
    }
    errno = error;
    if (asked || before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
        return;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
}

/* ---- the thread ---- */

/* A thread that has no stack for its handlers gets one: what it runs may be the function of a fiber
 * that has no room for them. -ENOMEM. */
static int make_signal_stack(void)
{
    stack_t stack;
    if (sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE))
        return 0;
    void *memory =
        mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    stack = (stack_t){.ss_sp = memory, .ss_size = SIGNAL_STACK};
    sigaltstack(&stack, NULL);
    signal_stack = memory;
    return 0;
}

/* Who has replaced it since may put it back: then it stays. */
static void free_signal_stack(void)
{
    stack_t stack;
    void *memory = signal_stack;
    signal_stack = NULL;
    if (!memory || sigaltstack(NULL, &stack) < 0 || stack.ss_sp != memory)
        return;
    stack = (stack_t){.ss_flags = SS_DISABLE};
    if (sigaltstack(&stack, NULL) == 0)
        munmap(memory, SIGNAL_STACK);
}

static bool unblock(void)
{
    sigset_t signals, blocked;
    sigemptyset(&signals);
    sigaddset(&signals, NUMBER);
    pthread_sigmask(SIG_UNBLOCK, &signals, &blocked);
    return sigismember(&blocked, NUMBER);
}

static void block(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, NUMBER);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

bool ci_thread_trace_is_free(void)
{
    sigset_t blocked;
    struct sigaction now;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    return !sigismember(&blocked, NUMBER) && sigaction(NUMBER, NULL, &now) == 0 &&
           !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
}

int ci_thread_trace_enter(struct ci_traced *traced, bool answers, ci_thread_trace_note *note)
{
    int rc = here ? 0 : make_signal_stack();
    if (rc < 0)
        return rc;
    traced->note = note;
    traced->thread = pthread_self();
    traced->state = IDLE;
    traced->next = here;
    __atomic_signal_fence(__ATOMIC_RELEASE); /* the handler on this thread may follow the list */
    here = traced;
    traced->unblocked = answers && unblock();
    return 0;
}

void ci_thread_trace_leave(struct ci_traced *traced)
{
    struct ci_traced **at = &here;
    while (*at != traced) {
        ci_check(*at != NULL, "thread_trace.h 1");
        at = &(*at)->next;
    }
    *at = traced->next;
    if (traced->unblocked && here)
        here->unblocked = true;
    else if (traced->unblocked)
        block();
    if (!here)
        free_signal_stack();
}

/* ---- the thread that asks ---- */

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    void *frames[1];
    int count CI_UNUSED = WALK(frames, 1); /* the first call loads the unwinder, and allocates */
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&lock);
    if (asking++ == 0)
        sigaction(NUMBER, &action, &before);
    pthread_mutex_unlock(&lock);
}

/* The last one restores the previous handler, unless another has been installed after ours. */
static void uninstall(void)
{
    struct sigaction current;
    pthread_mutex_lock(&lock);
    if (--asking == 0 && sigaction(NUMBER, NULL, &current) == 0 && current.sa_flags & SA_SIGINFO &&
        current.sa_sigaction == on_signal)
        sigaction(NUMBER, &before, NULL);
    pthread_mutex_unlock(&lock);
}

int ci_thread_trace_ask(struct ci_traced *traced)
{
    install();
    ci_store(&traced->state, ASKED); /* pairs with the load in on_signal */
    int rc = -pthread_kill(traced->thread, NUMBER);
    if (rc < 0)
        uninstall();
    return rc;
}

int ci_thread_trace_await(struct ci_traced *traced, coir_time end)
{
    bool taken;
    while (!(taken = ci_load(&traced->state) == TAKEN) && /* pairs with the store in on_signal */
           ci_clock_now() < end)
        ci_clock_sleep(look);
    if (taken)
        ci_store(&traced->state, IDLE);
    uninstall();
    return taken ? 0 : -ETIMEDOUT;
}

int ci_thread_trace_take(struct ci_traced *traced, coir_time timeout)
{
    coir_time end = ci_clock_now() + timeout;
    int rc = ci_thread_trace_ask(traced);
    return rc < 0 ? rc : ci_thread_trace_await(traced, end);
}
