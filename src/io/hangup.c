/* The watch of hangup.h: a poll for no event, which completes on a hang-up: every driver reports
 * those without being asked. */
#include "io/hangup.h"

#include <errno.h>

#include "base/check.h"

static void on_hangup(struct ci_op *op);

static void begin(struct ci_hangup *hangup)
{
    coir_stream *stream = hangup->stream;
    hangup->op = (struct ci_op){.done = on_hangup, .fd = stream->fd, .kind = CI_OP_POLL};
    hangup->op.events = hangup->end_cancels ? CI_EVENT_END : 0;
    hangup->started = !stream->kind->start(stream, &hangup->op);
    if (!hangup->started && hangup->op.result > 0)
        /* hung up already: the next wait of the fiber is refused */
        ci_runnable_cancel(hangup->runnable, -ECANCELED);
}

static void on_hangup(struct ci_op *op)
{
    struct ci_hangup *hangup = ci_container_of(op, struct ci_hangup, op);
    ci_check(hangup->started, "hangup.h 1");
    hangup->started = false;
    if (hangup->runnable->inner == &hangup->stopped)
        ci_wake(ci_worker_current, hangup->runnable, &hangup->stopped);
    else if (op->result == -ECANCELED)
        begin(hangup); /* end_cancels has changed: start again with the other events */
    else
        ci_runnable_cancel(hangup->runnable, -ECANCELED);
}

void ci_hangup_start(struct ci_hangup *hangup)
{
    if (!hangup->started)
        begin(hangup);
}

/* Requests the cancel of the operation. False: it is still in flight and will complete. */
static bool withdraw(struct ci_hangup *hangup)
{
    if (!hangup->stream->kind->cancel(hangup->stream, &hangup->op))
        return false;
    hangup->started = false;
    return true;
}

void ci_hangup_set_end_cancels(struct ci_hangup *hangup, bool cancels)
{
    bool changed = hangup->end_cancels != cancels;
    hangup->end_cancels = cancels;
    if (changed && hangup->started && withdraw(hangup))
        begin(hangup); /* with the other events; if it was not withdrawn, on_hangup does it */
}

static const coir_future_kind stopped_kind = COIR_FUTURE_KIND("the end of a watch", NULL, NULL);

void ci_hangup_take_back(struct ci_hangup *hangup)
{
    if (withdraw(hangup))
        return;
    struct ci_worker *worker = ci_worker_current;
    hangup->stopped = (coir_future){&stopped_kind, &worker->fiber->back, 0, 0};
    ci_leaf_suspend(worker, &hangup->stopped);
    ci_park(worker);
    ci_check(!hangup->started, "hangup.h 1");
}
