/* Signals as events: a sink that the handler writes to, and a wait for its eventfd. A wait takes
 * one pending signal and reports it; a case of a select that another case has decided gives it
 * back. */
#include "coir/signal.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/check.h"
#include "io/io.h"
#include "sys/call.h"
#include "sys/signal.h"
#include "task/completed.h"

struct coir_signals {
    struct ci_signal_sink sink;
    struct ci_worker *worker;
    uint32_t waits; /* tasks, of any worker */
};

struct signals_op {
    coir_future future;
    struct ci_io_op io;
    coir_signals *signals;
    int number; /* the one that was taken */
};
CI_FIBER_OP_FITS(struct signals_op); /* as a case */
CI_LEAVES_SPARE_WORDS(struct signals_op, coir_signals_op);

int coir_signals_open(const int *numbers, size_t count, coir_signals **ret_signals)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!numbers || !count || !ret_signals)
        return CI_MISUSE(-EINVAL, "numbers, count or ret_signals is NULL");
    if (worker->runtime->simulated)
        return -ENOTSUP;
    uint64_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] < 1 || numbers[i] > 63)
            return -EINVAL;
        wanted |= (uint64_t)1 << numbers[i];
    }
    coir_signals *signals = ci_alloc_zero(&worker->runtime->allocator, sizeof *signals);
    if (!signals)
        return -ENOMEM;
    signals->worker = worker;
    signals->sink.wanted = wanted;
    int rc = signals->sink.eventfd = ci_sys_eventfd();
    if (rc >= 0 && (rc = ci_signal_attach(&signals->sink)) < 0)
        ci_sys_close(signals->sink.eventfd);
    if (rc < 0) {
        ci_free(&worker->runtime->allocator, signals, sizeof *signals);
        return rc;
    }
    *ret_signals = signals;
    return 0;
}

void coir_signals_close(coir_signals *signals)
{
    if (!signals || ci_forked() || CI_ELSEWHERE(signals->worker))
        return;
    if (ci_load(&signals->waits)) {
        (void)CI_MISUSE(-EBUSY, "a task waits for the signals; cancel it first");
        return;
    }
    ci_signal_detach(&signals->sink);
    struct ci_worker *worker = signals->worker;
    worker->loop.driver->kind->forget(worker->loop.driver, signals->sink.eventfd);
    ci_sys_close(signals->sink.eventfd);
    ci_free(&worker->runtime->allocator, signals, sizeof *signals);
}

static coir_future *signals_poll(coir_future *future)
{
    struct signals_op *self = ci_container_of(future, struct signals_op, future);
    coir_signals *signals = self->signals;
    COIR_BEGIN(future);
    while (!(self->number = ci_signal_take(&signals->sink))) {
        ci_fetch_add(&signals->waits, 1);
        COIR_AWAIT(future, ci_io_init(&self->io, NULL,
                                      &(struct ci_op){.fd = signals->sink.eventfd,
                                                      .kind = CI_OP_FOREIGN,
                                                      .events = COIR_READ}));
        ci_fetch_sub(&signals->waits, 1);
        if (self->io.future.result < 0)
            COIR_RETURN(future, self->io.future.result);
        uint64_t count;
        ci_sys_read(signals->sink.eventfd, &count, sizeof count);
    }
    if (!ci_claim(ci_worker_current->runnable, future)) {
        ci_signal_give_back(&signals->sink, self->number);
        COIR_RETURN(future, -ECANCELED);
    }
    COIR_RETURN(future, self->number);
}

static const coir_future_kind signals_kind = COIR_FUTURE_KIND("a signal", signals_poll, NULL);

coir_future *coir_signals_wait_op(coir_signals_op *opaque, coir_signals *signals)
{
    struct signals_op *op = (struct signals_op *)(void *)opaque;
    if (!opaque || !signals)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op or signals is NULL"));
    op->signals = signals;
    return coir_future_init(&op->future, &signals_kind);
}

int coir_signals_wait(coir_signals *signals)
{
    coir_signals_op op;
    if (!signals)
        return CI_MISUSE(-EINVAL, "signals is NULL");
    return (int)ci_await_in_fiber(coir_signals_wait_op(&op, signals));
}

static coir_future *make_wait(const coir_case *self, void *op)
{
    return coir_signals_wait_op(op, self->object);
}

coir_case coir_case_signal(coir_signals *signals)
{
    if (!signals)
        return ci_completed_case(CI_MISUSE(-EINVAL, "signals is NULL"));
    return (coir_case){.make = make_wait, .object = signals};
}
