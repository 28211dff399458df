#include "sys/thread.h"

#include <signal.h>

#include "sys/cpu.h"

int ci_thread_start(struct ci_thread *thread, void *(*fn)(void *arg), void *arg)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < ci_countof(faults); i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    ci_cpu_exchange_pin();
    int rc = -pthread_create(&thread->handle, NULL, fn, arg);
    ci_cpu_exchange_pin();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

void ci_thread_join(struct ci_thread *thread)
{
    pthread_join(thread->handle, NULL);
}

void ci_thread_detach(struct ci_thread *thread)
{
    pthread_detach(thread->handle);
}

const char *ci_thread_mark(void)
{
    static CI_THREAD_LOCAL char mark;
    return &mark;
}

void ci_thread_adopt_stack(struct ci_stack_view *view)
{
    ci_stack_view_adopt_thread(view);
}

void ci_mutex_init(struct ci_mutex *mutex)
{
    pthread_mutex_init(&mutex->handle, NULL);
}

void ci_mutex_done(struct ci_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->handle);
}

void ci_mutex_lock(struct ci_mutex *mutex)
{
    pthread_mutex_lock(&mutex->handle);
}

void ci_mutex_unlock(struct ci_mutex *mutex)
{
    pthread_mutex_unlock(&mutex->handle);
}

void ci_condition_init(struct ci_condition *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&condition->handle, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void ci_condition_done(struct ci_condition *condition)
{
    pthread_cond_destroy(&condition->handle);
}

void ci_condition_signal(struct ci_condition *condition)
{
    pthread_cond_signal(&condition->handle);
}

void ci_condition_broadcast(struct ci_condition *condition)
{
    pthread_cond_broadcast(&condition->handle);
}

int ci_condition_wait(struct ci_condition *condition, struct ci_mutex *mutex, coir_time deadline)
{
    if (deadline == COIR_NEVER)
        return -pthread_cond_wait(&condition->handle, &mutex->handle);
    struct timespec until = {deadline / COIR_S, deadline % COIR_S};
    return -pthread_cond_timedwait(&condition->handle, &mutex->handle, &until);
}
