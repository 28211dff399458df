/* Why a task should end, and what it is inside of: cancellation, deadlines, shields.
 *
 * 1. A task's blocks (deadlines, shields, scopes) nest; `interrupt` is what they and its cancellation add up to. A call looks at that one
 *    word; it is computed when something changes, never when a call is made.
 * 2. From the innermost block outwards: an expired deadline says -ETIME; a shield hides what is outside of it; beyond the outermost
 *    block is the cancellation of the task itself.
 * 3. What interrupts a task flows into the scopes that it has open inside the cause, but not into those behind a shield.
 */
#include <errno.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "task/task.h"

static int sum_up(const struct ci_task *task)
{
    for (const struct ci_block *block = task->blocks; block; block = block->outer) {
        if (block->kind == CI_BLOCK_SHIELD)
            return 0;
        if (block->expired)
            return -ETIME;
    }
    return task->cancelled;
}

void ci_task_update_interrupt(struct ci_task *task)
{
    task->interrupt = sum_up(task);
    if (!task->interrupt)
        return;
    coir_future *leaf = task->strand.inner;
    if (leaf->kind->cancel && leaf->kind->cancel(leaf, task->interrupt))
        ci_wake(task->worker, &task->strand, leaf);
}

/* Tells the scopes that the task has open inside `cause` (NULL: all), as far as no shield is between. */
static void flow_into_scopes(struct ci_task *task, const struct ci_block *cause, int reason)
{
    struct ci_block *from = task->blocks;
    for (struct ci_block *block = task->blocks; block != cause; block = block->outer)
        if (block->kind == CI_BLOCK_SHIELD)
            from = block->outer; /* the outermost shield hides everything inside of it */
    for (struct ci_block *block = from; block && block != cause; block = block->outer)
        if (block->kind == CI_BLOCK_SCOPE)
            ci_scope_interrupt(ci_container_of(block, struct ci_scope, block), reason);
}

void ci_task_cancel(struct ci_task *task, int reason)
{
    if (task->cancelled)
        return;
    task->cancelled = reason;
    ci_task_update_interrupt(task);
    flow_into_scopes(task, NULL, reason);
}

/* ---- blocks ---- */

void ci_block_enter(struct ci_block *block, struct ci_task *task, enum ci_block_kind kind)
{
    *block = (struct ci_block){task ? task->blocks : NULL, task, (uint8_t)kind, false};
    if (!task)
        return;
    task->blocks = block;
    if (ci_unlikely(task->interrupt && kind == CI_BLOCK_SHIELD))
        task->interrupt = 0;
}

void ci_block_leave(struct ci_block *block)
{
    struct ci_task *task = block->task;
    if (!task)
        return;
    ci_check(task->blocks == block); /* blocks nest */
    block->task = NULL;
    task->blocks = block->outer;
    if (ci_unlikely(block->expired || block->kind == CI_BLOCK_SHIELD))
        task->interrupt = sum_up(task);
}

static struct ci_deadline *deadline_of(coir_block *block)
{
    return (struct ci_deadline *)(void *)block;
}

static void on_deadline(struct ci_timer *timer)
{
    struct ci_deadline *deadline = ci_container_of(timer, struct ci_deadline, timer);
    struct ci_task *task = deadline->block.task;
    deadline->block.expired = true;
    ci_task_update_interrupt(task);
    flow_into_scopes(task, &deadline->block, -ETIME);
}

static struct ci_task *running_task(void)
{
    struct ci_worker *worker = ci_worker_current;
    return worker && worker->fiber ? worker->task : NULL;
}

void coir_deadline_enter(coir_block *words, coir_time when)
{
    struct ci_deadline *deadline = deadline_of(words);
    struct ci_task *task = running_task();
    ci_block_enter(&deadline->block, task, CI_BLOCK_DEADLINE);
    ci_timer_init(&deadline->timer, on_deadline);
    deadline->timer.when = when;
    if (task && when != COIR_NEVER)
        coir_deadline_move(words, when);
}

void coir_deadline_move(coir_block *words, coir_time when)
{
    struct ci_deadline *deadline = deadline_of(words);
    struct ci_task *task = deadline->block.task;
    if (!task)
        return;
    struct coir_loop *loop = &task->worker->loop;
    if (deadline->block.expired) {
        deadline->block.expired = false;
        task->interrupt = sum_up(task);
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
    ci_block_enter(&deadline_of(words)->block, running_task(), CI_BLOCK_SHIELD);
}

void coir_block_leave(coir_block *words)
{
    struct ci_block *block = &deadline_of(words)->block;
    if (block->task && block->kind == CI_BLOCK_DEADLINE)
        ci_wheel_cancel(&block->task->worker->loop.wheel, &deadline_of(words)->timer);
    ci_block_leave(block);
}

coir_time coir_deadline(void)
{
    struct ci_task *task = running_task();
    coir_time nearest = COIR_NEVER;
    for (struct ci_block *block = task ? task->blocks : NULL; block && block->kind != CI_BLOCK_SHIELD; block = block->outer)
        if (block->kind == CI_BLOCK_DEADLINE) {
            coir_time when = ci_container_of(block, struct ci_deadline, block)->timer.when;
            if (when < nearest)
                nearest = when;
        }
    return nearest;
}
