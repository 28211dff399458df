/* Calls that are posted to a worker.
 *
 * 1. While the queue has a call that was not made, its message is pending.
 *
 * A sender looks whether the run has ended with the queue's lock held, and is a visitor of the
 * runtime before it gives the lock back, if it has the message to send. So when the run is settled,
 * which takes the lock once and then waits for visitors, every call is in its queue, and its
 * message was sent, or it was refused. The message is sent without the lock: that may be a system
 * call, and the worker that it wakes takes the lock.
 *
 * The worker makes the calls that are in the queue when the message is delivered. What comes after
 * them waits for the next turn.
 */
#include "task/post.h"

#include <errno.h>

#include "base/check.h"
#include "task/current.h"
#include "task/local.h"
#include "task/run_state.h"

struct post {
    void (*fn)(void *arg);
    void *arg;
    struct ci_local *locals; /* of the task that posted */
};

enum { BLOCK_BYTES = 4096, SPARES_MAX = 2 };
enum { BLOCK_POSTS = (BLOCK_BYTES - 2 * sizeof(void *)) / sizeof(struct post) };

struct ci_post_block {
    struct ci_post_block *next; /* of the queue, or of the spare ones */
    struct post posts[BLOCK_POSTS];
};

static void came(struct ci_message *message);

void ci_posts_init(struct ci_posts *posts)
{
    *posts = (struct ci_posts){.message = {NULL, came}};
}

static void free_blocks(struct ci_post_block *block, const coir_allocator *allocator)
{
    while (block) {
        struct ci_post_block *next = block->next;
        ci_free(allocator, block, sizeof *block);
        block = next;
    }
}

void ci_posts_done(struct ci_posts *posts, const coir_allocator *allocator)
{
    ci_check(!posts->pending, "post.c 1");
    free_blocks(posts->first, allocator);
    free_blocks(posts->spare, allocator);
}

void ci_posts_settle(struct ci_posts *posts)
{
    ci_lock_take(&posts->lock);
    ci_lock_give(&posts->lock);
}

/* ---- on the worker ---- */

static struct ci_worker *worker_of(struct ci_posts *posts)
{
    return ci_container_of(posts, struct ci_worker, posts);
}

/* Gives back the block that the worker has finished, behind which there is another. */
static void finish_block(struct ci_posts *posts)
{
    struct ci_post_block *done = posts->block;
    posts->taken = 0;
    ci_lock_take(&posts->lock);
    posts->block = posts->first = done->next;
    bool keep = posts->spare_count < SPARES_MAX;
    if (keep) {
        done->next = posts->spare;
        posts->spare = done;
        posts->spare_count++;
    }
    ci_lock_give(&posts->lock);
    if (!keep)
        ci_free(&worker_of(posts)->runtime->allocator, done, sizeof *done);
}

/* True: there is nothing in the queue, and the next post sends the message. */
static bool become_empty(struct ci_posts *posts)
{
    ci_lock_take(&posts->lock);
    bool empty = posts->block == posts->last && posts->taken == posts->used;
    if (empty) {
        posts->pending = false;
        posts->used = posts->taken = 0;
    }
    ci_lock_give(&posts->lock);
    return empty;
}

static void make(struct ci_worker *worker, struct post *post)
{
    ci_carried_locals = post->locals;
    post->fn(post->arg);
    ci_carried_locals = NULL;
    ci_local_drop(worker, post->locals);
}

static void make_until(struct ci_posts *posts, unsigned end)
{
    struct ci_worker *worker = worker_of(posts);
    while (posts->taken < end) {
        struct post post = posts->block->posts[posts->taken++];
        make(worker, &post);
    }
}

static void came(struct ci_message *message)
{
    struct ci_posts *posts = ci_container_of(message, struct ci_posts, message);
    ci_lock_take(&posts->lock);
    const struct ci_post_block *last = posts->last;
    unsigned end = posts->used;
    posts->block = posts->first;
    ci_lock_give(&posts->lock);
    while (posts->block != last) {
        make_until(posts, BLOCK_POSTS);
        finish_block(posts);
    }
    make_until(posts, end);
    if (!become_empty(posts))
        ci_inbox_push(&worker_of(posts)->loop.inbox, message); /* its own: no wake-up is needed */
}

/* ---- posting ---- */

/* With the lock held: where the next post goes. NULL: a block is missing. */
static struct post *next_place(struct ci_posts *posts)
{
    if (ci_likely(posts->last && posts->used < BLOCK_POSTS))
        return &posts->last->posts[posts->used];
    struct ci_post_block *block = posts->spare;
    if (!block)
        return NULL;
    posts->spare = block->next;
    posts->spare_count--;
    block->next = NULL;
    if (posts->last)
        posts->last->next = block;
    else
        posts->first = block;
    posts->last = block;
    posts->used = 0;
    return &block->posts[0];
}

/* With the lock held; gives it back meanwhile. */
static int add_block(struct ci_posts *posts, const coir_allocator *allocator)
{
    ci_lock_give(&posts->lock);
    struct ci_post_block *block = ci_alloc(allocator, sizeof *block);
    ci_lock_take(&posts->lock);
    if (!block)
        return -ENOMEM;
    block->next = posts->spare;
    posts->spare = block;
    posts->spare_count++;
    return 0;
}

static int put(struct ci_worker *target, const struct post *post)
{
    struct ci_posts *posts = &target->posts;
    struct post *place = NULL;
    int rc = 0;
    ci_lock_take(&posts->lock);
    while (!rc && !place) {
        if (ci_run_ended(target->runtime))
            rc = -COIR_EENDED;
        else if (!(place = next_place(posts)))
            rc = add_block(posts, &target->runtime->allocator);
    }
    bool sends = !rc && !posts->pending;
    if (!rc) {
        *place = *post;
        posts->used++;
        posts->pending = true;
    }
    if (sends)
        ci_fetch_add(&target->runtime->visitors, 1); /* pairs with the look in ci_run_settle */
    ci_lock_give(&posts->lock);
    if (sends) {
        ci_loop_send(&target->loop, &posts->message);
        ci_fetch_sub(&target->runtime->visitors, 1);
    }
    return rc;
}

int coir_runtime_post(coir_runtime *runtime, int index, void (*fn)(void *arg), void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!runtime || !fn)
        return CI_MISUSE(-EINVAL, "runtime or fn is NULL");
    if (index < 0 || index >= runtime->worker_count)
        return -EINVAL;
    struct ci_worker *sender =
        ci_worker_current && ci_worker_current->runtime == runtime ? ci_worker_current : NULL;
    if (!sender)
        ci_run_note_visit(runtime);
    const struct ci_runnable *runnable = sender ? sender->runnable : NULL;
    struct post post = {fn, arg, NULL};
    if (ci_unlikely(runnable && runnable->task->locals))
        post.locals = ci_local_inherit(runnable->task->locals);
    int rc = put(&runtime->workers[index], &post);
    if (ci_unlikely(rc < 0) && post.locals)
        ci_local_drop(sender, post.locals);
    return rc;
}
