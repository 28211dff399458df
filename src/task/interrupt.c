/* Why a runnable should end, and what it is inside of: cancellation, deadlines, shields.
 *
 * 1. A runnable's blocks (deadlines, shields, scopes) nest; `interrupt` is what they and its
 * cancellation add up to. A call looks at that one word; it is computed when something changes,
 * never when a call is made.
 * 2. From the innermost block outwards: an expired deadline says -ETIME; a shield hides what is
 * outside of it; beyond the outermost block is the cancellation of the runnable itself. Every
 * suspending call and every spawn says that, first of all.
 * 3. What interrupts a runnable flows into the scopes that it has open inside the cause, but not
 * into those behind a shield.
 */
#include <errno.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "task/task.h"

int ci_runnable_interrupted_inside(const struct ci_runnable *runnable, const struct ci_block *outer)
{
    const struct ci_block *block = runnable->blocks;
    for (; block && block != outer; block = block->outer) {
        if (block->kind == CI_BLOCK_SHIELD)
            return 0;
        if (block->expired)
            return -ETIME;
    }
    return block ? 0 : runnable->cancelled;
}

/* The runnable's blocks or its cancellation changed. */
static void update(struct ci_runnable *runnable)
{
    runnable->interrupt = ci_runnable_interrupted_inside(runnable, NULL);
    if (!runnable->interrupt)
        return;
    coir_future *leaf = runnable->inner;
    if (leaf->kind->cancel && leaf->kind->cancel(leaf, runnable->interrupt))
        ci_wake(runnable->task->worker, runnable, leaf);
}

/* Tells the scopes that the runnable has open inside `cause` (NULL: all), as far as no shield is
 * between. */
static void flow_into_scopes(struct ci_runnable *runnable, const struct ci_block *cause, int reason)
{
    struct ci_block *from = runnable->blocks;
    for (struct ci_block *block = runnable->blocks; block != cause; block = block->outer)
        if (block->kind == CI_BLOCK_SHIELD)
            from = block->outer; /* the outermost shield hides everything inside of it */
    for (struct ci_block *block = from; block && block != cause; block = block->outer)
        if (block->kind == CI_BLOCK_SCOPE)
            ci_scope_interrupt(ci_container_of(block, struct ci_scope, block), reason);
}

void ci_runnable_cancel(struct ci_runnable *runnable, int reason)
{
    if (runnable->cancelled)
        return;
    runnable->cancelled = reason;
    update(runnable);
    flow_into_scopes(runnable, NULL, reason);
}

/* ---- blocks ---- */

void ci_block_enter(struct ci_block *block, struct ci_runnable *runnable, enum ci_block_kind kind)
{
    *block = (struct ci_block){runnable ? runnable->blocks : NULL, runnable, (uint8_t)kind, false};
    if (!runnable)
        return;
    runnable->blocks = block;
    if (ci_unlikely(runnable->interrupt && kind == CI_BLOCK_SHIELD))
        runnable->interrupt = 0;
}

void ci_block_leave(struct ci_block *block)
{
    struct ci_runnable *runnable = block->runnable;
    if (!runnable)
        return;
    ci_check(runnable->blocks == block); /* blocks nest */
    block->runnable = NULL;
    runnable->blocks = block->outer;
    if (ci_unlikely(block->expired || block->kind == CI_BLOCK_SHIELD))
        runnable->interrupt = ci_runnable_interrupted_inside(runnable, NULL);
}

static struct ci_deadline *deadline_of(coir_block *block)
{
    return (struct ci_deadline *)(void *)block;
}

static void on_deadline(struct ci_timer *timer)
{
    struct ci_deadline *deadline = ci_container_of(timer, struct ci_deadline, timer);
    struct ci_runnable *runnable = deadline->block.runnable;
    deadline->block.expired = true;
    update(runnable);
    flow_into_scopes(runnable, &deadline->block, -ETIME);
}

static struct ci_runnable *running(void)
{
    struct ci_worker *worker = ci_worker_current;
    return worker && worker->fiber ? worker->runnable : NULL;
}

void coir_deadline_enter(coir_block *words, coir_time when)
{
    struct ci_deadline *deadline = deadline_of(words);
    struct ci_runnable *runnable = running();
    ci_block_enter(&deadline->block, runnable, CI_BLOCK_DEADLINE);
    ci_timer_init(&deadline->timer, on_deadline);
    deadline->timer.when = when;
    if (runnable && when != COIR_NEVER)
        coir_deadline_move(words, when);
}

void coir_deadline_move(coir_block *words, coir_time when)
{
    if (ci_forked())
        return;
    struct ci_deadline *deadline = deadline_of(words);
    struct ci_runnable *runnable = deadline->block.runnable;
    if (!runnable)
        return;
    struct coir_loop *loop = &runnable->task->worker->loop;
    if (deadline->block.expired) {
        deadline->block.expired = false;
        runnable->interrupt = ci_runnable_interrupted_inside(runnable, NULL);
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
    ci_block_enter(&deadline_of(words)->block, running(), CI_BLOCK_SHIELD);
}

void coir_block_leave(coir_block *words)
{
    if (ci_forked())
        return;
    struct ci_block *block = &deadline_of(words)->block;
    if (block->runnable && block->kind == CI_BLOCK_DEADLINE)
        ci_wheel_cancel(&block->runnable->task->worker->loop.wheel, &deadline_of(words)->timer);
    ci_block_leave(block);
}

bool coir_deadline_passed(const coir_block *words)
{
    return ((const struct ci_deadline *)(const void *)words)->block.expired;
}

coir_time coir_task_deadline(void)
{
    struct ci_runnable *runnable = running();
    coir_time nearest = COIR_NEVER;
    for (struct ci_block *block = runnable ? runnable->blocks : NULL;
         block && block->kind != CI_BLOCK_SHIELD; block = block->outer)
        if (block->kind == CI_BLOCK_DEADLINE) {
            coir_time when = ci_container_of(block, struct ci_deadline, block)->timer.when;
            if (when < nearest)
                nearest = when;
        }
    return nearest;
}
