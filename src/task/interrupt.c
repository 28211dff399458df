/* Why a strand should end, and what it is inside of: cancellation, deadlines, shields.
 *
 * 1. A strand's blocks (deadlines, shields, scopes) nest; `interrupt` is what they and its cancellation add up to. A call looks at that one
 *    word; it is computed when something changes, never when a call is made.
 * 2. From the innermost block outwards: an expired deadline says -ETIME; a shield hides what is outside of it; beyond the outermost
 *    block is the cancellation of the strand itself. Every suspending call and every spawn says that, first of all.
 * 3. What interrupts a strand flows into the scopes that it has open inside the cause, but not into those behind a shield.
 */
#include <errno.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "task/task.h"

int ci_strand_interrupted_inside(const struct ci_strand *strand, const struct ci_block *outer)
{
    const struct ci_block *block = strand->blocks;
    for (; block && block != outer; block = block->outer) {
        if (block->kind == CI_BLOCK_SHIELD)
            return 0;
        if (block->expired)
            return -ETIME;
    }
    return block ? 0 : strand->cancelled;
}

/* The strand's blocks or its cancellation changed. */
static void update(struct ci_strand *strand)
{
    strand->interrupt = ci_strand_interrupted_inside(strand, NULL);
    if (!strand->interrupt)
        return;
    coir_future *leaf = strand->inner;
    if (leaf->kind->cancel && leaf->kind->cancel(leaf, strand->interrupt))
        ci_wake(strand->task->worker, strand, leaf);
}

/* Tells the scopes that the strand has open inside `cause` (NULL: all), as far as no shield is between. */
static void flow_into_scopes(struct ci_strand *strand, const struct ci_block *cause, int reason)
{
    struct ci_block *from = strand->blocks;
    for (struct ci_block *block = strand->blocks; block != cause; block = block->outer)
        if (block->kind == CI_BLOCK_SHIELD)
            from = block->outer; /* the outermost shield hides everything inside of it */
    for (struct ci_block *block = from; block && block != cause; block = block->outer)
        if (block->kind == CI_BLOCK_SCOPE)
            ci_scope_interrupt(ci_container_of(block, struct ci_scope, block), reason);
}

void ci_strand_cancel(struct ci_strand *strand, int reason)
{
    if (strand->cancelled)
        return;
    strand->cancelled = reason;
    update(strand);
    flow_into_scopes(strand, NULL, reason);
}

/* ---- blocks ---- */

void ci_block_enter(struct ci_block *block, struct ci_strand *strand, enum ci_block_kind kind)
{
    *block = (struct ci_block){strand ? strand->blocks : NULL, strand, (uint8_t)kind, false};
    if (!strand)
        return;
    strand->blocks = block;
    if (ci_unlikely(strand->interrupt && kind == CI_BLOCK_SHIELD))
        strand->interrupt = 0;
}

void ci_block_leave(struct ci_block *block)
{
    struct ci_strand *strand = block->strand;
    if (!strand)
        return;
    ci_check(strand->blocks == block); /* blocks nest */
    block->strand = NULL;
    strand->blocks = block->outer;
    if (ci_unlikely(block->expired || block->kind == CI_BLOCK_SHIELD))
        strand->interrupt = ci_strand_interrupted_inside(strand, NULL);
}

static struct ci_deadline *deadline_of(coir_block *block)
{
    return (struct ci_deadline *)(void *)block;
}

static void on_deadline(struct ci_timer *timer)
{
    struct ci_deadline *deadline = ci_container_of(timer, struct ci_deadline, timer);
    struct ci_strand *strand = deadline->block.strand;
    deadline->block.expired = true;
    update(strand);
    flow_into_scopes(strand, &deadline->block, -ETIME);
}

static struct ci_strand *running_strand(void)
{
    struct ci_worker *worker = ci_worker_current;
    return worker && worker->fiber ? worker->strand : NULL;
}

void coir_deadline_enter(coir_block *words, coir_time when)
{
    struct ci_deadline *deadline = deadline_of(words);
    struct ci_strand *strand = running_strand();
    ci_block_enter(&deadline->block, strand, CI_BLOCK_DEADLINE);
    ci_timer_init(&deadline->timer, on_deadline);
    deadline->timer.when = when;
    if (strand && when != COIR_NEVER)
        coir_deadline_move(words, when);
}

void coir_deadline_move(coir_block *words, coir_time when)
{
    if (ci_forked())
        return;
    struct ci_deadline *deadline = deadline_of(words);
    struct ci_strand *strand = deadline->block.strand;
    if (!strand)
        return;
    struct coir_loop *loop = &strand->task->worker->loop;
    if (deadline->block.expired) {
        deadline->block.expired = false;
        strand->interrupt = ci_strand_interrupted_inside(strand, NULL);
    }
    if (when <= loop->now) { /* it has passed: no timer is needed to say so */
        ci_wheel_cancel(&loop->wheel, &deadline->timer);
        deadline->timer.when = when;
        on_deadline(&deadline->timer);
    } else if (when == COIR_NEVER) {
        ci_wheel_cancel(&loop->wheel, &deadline->timer);
        deadline->timer.when = when;
    } else if (ci_timer_started(&deadline->timer)) {
        ci_wheel_move(&loop->wheel, &deadline->timer, when);
    } else {
        ci_loop_start_timer(loop, &deadline->timer, when);
    }
}

void coir_shield_enter(coir_block *words)
{
    ci_block_enter(&deadline_of(words)->block, running_strand(), CI_BLOCK_SHIELD);
}

void coir_block_leave(coir_block *words)
{
    if (ci_forked())
        return;
    struct ci_block *block = &deadline_of(words)->block;
    if (block->strand && block->kind == CI_BLOCK_DEADLINE)
        ci_wheel_cancel(&block->strand->task->worker->loop.wheel, &deadline_of(words)->timer);
    ci_block_leave(block);
}

bool coir_deadline_passed(const coir_block *words)
{
    return ((const struct ci_deadline *)(const void *)words)->block.expired;
}

coir_time coir_task_deadline(void)
{
    struct ci_strand *strand = running_strand();
    coir_time nearest = COIR_NEVER;
    for (struct ci_block *block = strand ? strand->blocks : NULL; block && block->kind != CI_BLOCK_SHIELD; block = block->outer)
        if (block->kind == CI_BLOCK_DEADLINE) {
            coir_time when = ci_container_of(block, struct ci_deadline, block)->timer.when;
            if (when < nearest)
                nearest = when;
        }
    return nearest;
}
