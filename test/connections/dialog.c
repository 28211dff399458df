/* One connection, as its client sees it: what is sent next, and whether what comes is due. */
#include <stdarg.h>

#include "connections/fuzz.h"

static void note(struct dialog *dialog, char kind, long number)
{
    if (dialog->on)
        dialog->on(dialog, kind, number);
}

void dialog_fail(struct dialog *dialog, const char *format, ...)
{
    if (*dialog->failure)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(dialog->failure, sizeof dialog->failure, format, args);
    va_end(args);
}

void dialog_connected(struct dialog *dialog)
{
    dialog->may_end = dialog->half_closed = dialog->half_close_due = dialog->draining = false;
}

void dialog_begin(struct dialog *dialog)
{
    batch_make(&dialog->batch, dialog->random);
    note(dialog, 'B', (long)dialog->batch.len);
    dialog->active = true;
    dialog->sent = dialog->received = 0;
    dialog->action = dialog->answering = 0;
    dialog->waiting = -1;
    dialog->send_over = dialog->end_due = false;
    dialog->answer = (struct answer){0};
}

static bool all_sent(const struct dialog *dialog)
{
    return dialog->send_over ||
           (dialog->sent == dialog->batch.len && dialog->action == dialog->batch.action_count);
}

bool dialog_can_send(const struct dialog *dialog)
{
    return dialog->active && dialog->waiting < 0 && !all_sent(dialog);
}

/* All answers have come: is that all? */
static void look_for_end(struct dialog *dialog)
{
    if (!dialog->active || dialog->answering < dialog->batch.count)
        return;
    if (dialog->batch.closed)
        dialog->end_due = true;
    if (!dialog->end_due && all_sent(dialog))
        dialog->active = false;
}

const char *dialog_due(const struct dialog *dialog)
{
    if (!dialog->active)
        return NULL;
    if (dialog->end_due)
        return "the end of the connection is due";
    if (dialog->waiting >= 0)
        return "100 Continue, or an answer, is due";
    if (dialog->answering < dialog->batch.count &&
        (dialog->half_closed || dialog->sent >= dialog->batch.requests[dialog->answering].to))
        return "an answer is due";
    if (dialog_can_send(dialog))
        return "the server does not take what is sent";
    return dialog->send_over ? "the rest of what was refused is due"
                             : "nothing is due (a defect of the fuzzer)";
}

/* ---- sending ---- */

static void wait_for_continue(struct dialog *dialog, int request)
{
    if (dialog->answering > request || dialog->answer.said_continue)
        return;
    note(dialog, 'W', request);
    dialog->waiting = request;
}

const struct action *dialog_next(struct dialog *dialog, const char **ret_bytes, size_t *ret_len)
{
    const struct batch *batch = &dialog->batch;
    const struct action *action =
        dialog->action < batch->action_count ? &batch->actions[dialog->action] : NULL;
    if (action && action->at <= dialog->sent) {
        dialog->action++;
        if (action->kind == HALF_CLOSE)
            dialog->send_over = dialog->half_closed = true;
        if (action->kind == WAIT_CONTINUE)
            wait_for_continue(dialog, action->request);
        look_for_end(dialog);
        return action;
    }
    size_t len = (action ? action->at : batch->len) - dialog->sent;
    *ret_len = len < batch->piece_max ? len : batch->piece_max;
    *ret_bytes = batch->bytes + dialog->sent;
    return NULL;
}

void dialog_sent(struct dialog *dialog, size_t len)
{
    dialog->sent += len;
    look_for_end(dialog);
}

/* What the server has said before that is still to be read. */
void dialog_cannot_send(struct dialog *dialog)
{
    dialog->send_over = true;
    dialog->waiting = -1;
}

/* ---- receiving ---- */

/* The final answer came instead of the 100: the body is not sent. */
static void give_up_body(struct dialog *dialog)
{
    dialog->waiting = -1;
    dialog->send_over = true;
    dialog->batch.count = dialog->answering;
    dialog->half_close_due = !dialog->answer.close;
    dialog->end_due = true;
}

static void answered(struct dialog *dialog)
{
    const struct expect *expect = &dialog->batch.requests[dialog->answering].expect;
    note(dialog, 'A', dialog->answering);
    dialog->answered++;
    dialog->answering++;
    dialog->may_end |= expect->may_end;
    if (dialog->waiting == dialog->answering - 1)
        give_up_body(dialog);
    if (dialog->answer.close) {
        dialog->batch.count = dialog->answering;
        dialog->end_due = true;
        dialog->send_over |= one_in(dialog->random, 2);
    }
    dialog->answer = (struct answer){0};
    look_for_end(dialog);
}

void dialog_take(struct dialog *dialog, const char *bytes, size_t len)
{
    dialog->received += len;
    while (len && !*dialog->failure) {
        size_t used;
        const char *error;
        if (!dialog->active || dialog->answering >= dialog->batch.count) {
            dialog_fail(dialog, "%zu bytes that were not asked for", len);
            return;
        }
        struct expect *expect = &dialog->batch.requests[dialog->answering].expect;
        expect->may_close |= dialog->draining;
        enum took took = answer_take(&dialog->answer, expect, bytes, len, &used, &error);
        bytes += used;
        len -= used;
        if (took == TOOK_WRONG) {
            dialog_fail(dialog,
                        "the answer to request %d (status %d, not %d?) is wrong at byte %zu of its "
                        "body: %s",
                        dialog->answering, dialog->answer.status, expect->status,
                        dialog->answer.body_len, error);
        } else if (took == TOOK_CONTINUE) {
            note(dialog, '1', dialog->answering);
            if (dialog->waiting == dialog->answering)
                dialog->waiting = -1;
        } else if (took == TOOK_ALL) {
            answered(dialog);
        }
    }
}

/* Whether the end may come before the next answer. */
static bool may_end(const struct dialog *dialog)
{
    bool between = !dialog->answer.state && !dialog->answer.head_len;
    return between && (dialog->may_end || dialog->draining);
}

/* The connection has ended, by a reset or not. */
void dialog_end(struct dialog *dialog, bool reset)
{
    bool due = dialog->active ? dialog->end_due : false;
    if (dialog->active && !due && dialog->answering < dialog->batch.count) {
        const struct expect *expect = &dialog->batch.requests[dialog->answering].expect;
        const char *wrong = answer_end(&dialog->answer, expect);
        if (wrong && !may_end(dialog))
            dialog_fail(dialog, "%s, request %d", wrong, dialog->answering);
        else if (reset && !expect->loose && !may_end(dialog))
            dialog_fail(dialog, "reset instead of the end, in the answer to request %d",
                        dialog->answering);
        else if (!wrong && !expect->loose)
            dialog->answered++;
    } else if (!due && !dialog->may_end && !dialog->draining) {
        dialog_fail(dialog, "the connection ended without a reason");
    } else if (reset) {
        dialog_fail(dialog, "reset instead of the end");
    }
    dialog->active = false;
}
