/* A client of requests_sim.c: it sends a batch of requests and hears the answers, in two fibers. */
#include "requests.h"

#include <errno.h>
#include <string.h>

#include "sim/must.h"

enum { BUFFER_LEAST = 2048 /* of a socket: what is longer may still lie with the client */ };

/* ---- sending ---- */

void requests_leave(struct visitor *visitor, bool reset)
{
    coir_stream *stream = visitor->stream;
    visitor->stream = NULL;
    visitor->dialog.active = false;
    if (reset && stream)
        coir_tcp_set_option(stream, COIR_TCP_RESET_ON_CLOSE, 1);
    coir_close(stream);
    coir_event_set(&visitor->changed);
}

static int act(struct visitor *visitor, const struct action *action)
{
    switch (action->kind) {
    case PAUSE: return coir_sleep_for((coir_time)action->ms * COIR_MS);
    case WAIT_CONTINUE: break;
    case HALF_CLOSE: coir_shutdown_write(visitor->stream); break;
    case CLOSE: requests_leave(visitor, false); break;
    case RESET: requests_leave(visitor, true); break;
    }
    return 0;
}

/* Names the moment at which it will send, so early that the server has seen it by then: hosts share
 * memory here, but none may call into another's runtime. */
static int name_moment(struct visitor *visitor)
{
    requests.hunts = false;
    requests.moment = coir_in(2 * LOOK * COIR_MS);
    int rc = coir_sleep_until(requests.moment);
    return visitor->stream ? rc : -ECANCELED;
}

static int send_piece(struct visitor *visitor, const char *bytes, size_t len)
{
    struct dialog *dialog = &visitor->dialog;
    if (requests.hunts && one_in(&visitor->random, 8) && name_moment(visitor) < 0)
        return -ECANCELED;
    ssize_t n = coir_write(visitor->stream, bytes, len);
    if (!visitor->stream || n == -ECANCELED || n == -ETIME)
        return -ECANCELED;
    if (n == -EPIPE || n == -ECONNRESET) {
        dialog_cannot_send(dialog);
        return 0;
    }
    if (n < 0) { /* this machine's: the rest will never come */
        visitor->error = (int)n;
        requests_leave(visitor, true);
        return 0;
    }
    visitor->moved_at = coir_now();
    dialog_sent(dialog, (size_t)n);
    for (int i = 0; i < dialog->batch.count; i++)
        if (!visitor->sent_at[i] && dialog->sent >= dialog->batch.requests[i].to)
            visitor->sent_at[i] = visitor->moved_at;
    return 0;
}

static int send_batch(void *arg)
{
    struct visitor *visitor = arg;
    struct dialog *dialog = &visitor->dialog;
    int rc = 0;
    while (rc == 0 && visitor->stream && dialog->active) {
        if (dialog->waiting >= 0) {
            rc = coir_event_wait(&visitor->changed);
            if (dialog->waiting >= 0)
                coir_event_reset(&visitor->changed);
            continue;
        }
        if (!dialog_can_send(dialog))
            break;
        const char *bytes;
        size_t len;
        const struct action *action = dialog_next(dialog, &bytes, &len);
        rc = action ? act(visitor, action) : send_piece(visitor, bytes, len);
    }
    coir_event_set(&visitor->changed);
    return 0;
}

/* ---- receiving ---- */

coir_time requests_under_way(void)
{
    return 10 * COIR_MS + requests.link.latency + requests.link.jitter +
           (requests.link.loss > 0 ? 200 * COIR_MS : 0);
}

/* A request that had arrived before the drain is answered, if nothing is before it. */
static void check_drain(const struct visitor *visitor)
{
    const struct dialog *dialog = &visitor->dialog;
    coir_time sent = dialog->active && !dialog->end_due ? visitor->sent_at[dialog->answering] : 0;
    coir_time turn = sent > visitor->answered_at ? sent : visitor->answered_at;
    bool sure = sent && turn + requests_under_way() < visitor->drained_at &&
                !requests.link.bandwidth && !requests.violent && dialog->batch.len <= BUFFER_LEAST;
    MUST(!sure || dialog->answering == dialog->batch.count ||
         dialog->batch.requests[dialog->answering].expect.loose);
}

static void hear_end(struct visitor *visitor, ssize_t n)
{
    struct dialog *dialog = &visitor->dialog;
    if (n < 0 && n != -ECONNRESET && n != -EPIPE)
        visitor->error = (int)n;
    if (dialog->draining && !dialog->answer.head_len)
        check_drain(visitor);
    dialog_end(dialog, n < 0);
    requests_leave(visitor, false);
}

static void hear(struct visitor *visitor, const char *bytes, ssize_t n)
{
    struct dialog *dialog = &visitor->dialog;
    visitor->moved_at = coir_now();
    dialog->draining |= visitor->drained_at != 0;
    if (n <= 0) {
        hear_end(visitor, n);
        return;
    }
    int answering = dialog->answering;
    dialog_take(dialog, bytes, (size_t)n);
    if (dialog->answering > answering)
        visitor->answered_at = visitor->moved_at;
    if (dialog->half_close_due)
        coir_shutdown_write(visitor->stream);
    dialog->half_close_due = false;
    coir_event_set(&visitor->changed);
    if (dialog->active && dialog->batch.reset_after &&
        dialog->received >= dialog->batch.reset_after)
        requests_leave(visitor, true);
}

/* Reads, until something else has changed: -EAGAIN. A read that has got something has got it,
 * though the event may have been first. */
static ssize_t read_or_change(struct visitor *visitor, char *bytes, size_t len)
{
    coir_io_op read;
    coir_wait_op change;
    coir_branch branches[] = {COIR_BRANCH(coir_read_op(&read, visitor->stream, bytes, len)),
                              COIR_BRANCH(coir_event_wait_op(&change, &visitor->changed))};
    int rc = coir_any(branches, 2);
    if (!visitor->stream || rc < 0)
        return visitor->stream ? rc : -EAGAIN;
    bool done = coir_branch_is_complete(&branches[0]) && read.future.result != -ECANCELED;
    return done ? read.future.result : -EAGAIN; /* a loser may be told late that it was cancelled */
}

/* A socket may be reported readable and have nothing: -EAGAIN, and the event is looked at again. */
static ssize_t select_and_read(struct visitor *visitor, char *bytes, size_t len)
{
    coir_case cases[] = {coir_case_stream(visitor->stream, COIR_READ),
                         coir_case_event(&visitor->changed)};
    int rc = coir_select(cases, 2);
    if (!visitor->stream || rc != 0)
        return rc < 0 && visitor->stream ? rc : -EAGAIN;
    return cases[0].result < 0 ? cases[0].result : coir_try_read(visitor->stream, bytes, len);
}

static void look_for_silence(struct visitor *visitor)
{
    if (coir_now() - visitor->moved_at < requests.patience)
        return;
    if (visitor->strict) {
        dialog_fail(&visitor->dialog, "silent: %s", dialog_due(&visitor->dialog));
    } else {
        visitor->error = -ETIME;
        requests_leave(visitor, true);
    }
}

static void hear_batch(struct visitor *visitor)
{
    struct dialog *dialog = &visitor->dialog;
    while (visitor->stream && dialog->active && !*dialog->failure) {
        char *bytes = visitor->bytes;
        ssize_t n;
        {
            COIR_DEADLINE(coir_in(requests.patience));
            n = one_in(&visitor->random, 2) ? read_or_change(visitor, bytes, visitor->read_max)
                                            : select_and_read(visitor, bytes, visitor->read_max);
        }
        if (!visitor->stream)
            return;
        if (dialog->waiting < 0)
            coir_event_reset(&visitor->changed);
        if (n == -ETIME)
            look_for_silence(visitor);
        else if (n != -EAGAIN)
            hear(visitor, bytes, n);
        if (visitor->reads_slowly && visitor->reads_slowly--)
            coir_sleep_for((coir_time)(1 + below(&visitor->random, 20)) * COIR_MS);
    }
}

void requests_converse(struct visitor *visitor)
{
    COIR_SCOPE(scope);
    dialog_begin(&visitor->dialog);
    visitor->moved_at = coir_now();
    visitor->answered_at = 0;
    memset(visitor->sent_at, 0, sizeof visitor->sent_at);
    coir_event_reset(&visitor->changed);
    int rc = coir_go(scope, send_batch, visitor);
    if (rc < 0) { /* no memory */
        visitor->error = rc;
        requests_leave(visitor, true);
        return;
    }
    if (one_in(&visitor->random, 4))
        coir_sleep_for((coir_time)(1 + below(&visitor->random, 30)) * COIR_MS);
    hear_batch(visitor);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
}
