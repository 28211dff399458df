/* Signals as events: a sink that the handler writes to, and a wait for its eventfd.
 *
 * 1. A wait takes one pending signal, but only when it is certain to report it: a wait that is a
 *    case of a select decides the select first.
 */
#include "coir/signal.h"

#include <errno.h>

#include "base/check.h"
#include "io/io.h"
#include "sys/call.h"
#include "sys/signal.h"
#include "task/completed.h"

struct coir_signals {
    struct ci_signal_sink sink;
    struct ci_worker *worker;
};

struct signals_op {
    coir_future future;
    struct ci_io_op io;
    coir_signals *signals;
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
    ci_signal_detach(&signals->sink);
    struct ci_worker *worker = signals->worker;
    worker->loop.driver->kind->forget(worker->loop.driver, signals->sink.eventfd);
    ci_sys_close(signals->sink.eventfd);
    ci_free(&worker->runtime->allocator, signals, sizeof *signals);
}

/* The lowest signal that is pending, or 0. */
static int first_pending(coir_signals *signals)
{
    uint64_t pending = ci_load(&signals->sink.pending);
    return pending ? __builtin_ctzll(pending) : 0;
}

static coir_future *signals_poll(coir_future *future)
{
    struct signals_op *self = ci_container_of(future, struct signals_op, future);
    coir_signals *signals = self->signals;
    int number;
    COIR_BEGIN(future);
    while (!first_pending(signals)) {
        COIR_AWAIT(future, ci_io_init(&self->io, NULL,
                                      &(struct ci_op){.fd = signals->sink.eventfd,
                                                      .kind = CI_OP_FOREIGN,
                                                      .events = COIR_READ}));
        if (self->io.future.result < 0)
            COIR_RETURN(future, self->io.future.result);
        uint64_t count;
        ci_sys_read(signals->sink.eventfd, &count, sizeof count);
    }
    if (!ci_claim(ci_worker_current->runnable, future))
        COIR_RETURN(future, -ECANCELED);
    number = first_pending(signals);
    ci_check(ci_fetch_and(&signals->sink.pending, ~((uint64_t)1 << number)) >> number & 1,
             "io/signal.c 1");
    COIR_RETURN(future, number);
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
    int rc = CI_ELSEWHERE(signals->worker);
    return rc < 0 ? rc : (int)ci_await_in_fiber(coir_signals_wait_op(&op, signals));
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
