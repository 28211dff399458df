/* Calls that are posted to a worker.
 *
 * 1. The record of a worker's post comes from that worker's own pool and goes back to it. The
 *    worker that made the call collects such records, of one sender at a time, and returns them in
 *    batches: so neither worker allocates. A plain thread's records are allocated and freed.
 *
 * When a runtime is freed, records that have not been returned are freed with the slabs of their
 * pool.
 */
#include "task/post.h"

#include <errno.h>

#include "base/check.h"
#include "task/current.h"
#include "task/local.h"
#include "task/run_state.h"

enum { RETURNED_TOGETHER = 64 };

struct post {
    struct ci_message message;
    void (*fn)(void *arg);
    void *arg;
    struct ci_worker *sender; /* NULL: a plain thread */
    struct ci_worker *target;
    struct ci_local *locals; /* of the task that posted */
};

void ci_posts_init(struct ci_posts *posts, const coir_allocator *allocator)
{
    *posts = (struct ci_posts){0};
    ci_pool_init(&posts->own, allocator, sizeof(struct post), 0);
}

/* ---- returning records ---- */

static struct post *post_of(struct ci_message *message)
{
    return ci_container_of(message, struct post, message);
}

/* On the sender: the first record of a batch; the others are chained at its `arg`. */
static void came_home(struct ci_message *message)
{
    struct ci_worker *home = post_of(message)->sender;
    ci_check(!ci_worker_current || ci_worker_current == home, "post.c 1");
    for (struct post *post = post_of(message), *next; post; post = next) {
        next = post->arg;
        ci_pool_give(&home->posts.own, post);
    }
}

static void send_home(struct ci_posts *posts)
{
    struct post *first = posts->foreign;
    posts->foreign = NULL;
    posts->foreign_count = 0;
    first->message.deliver = came_home;
    ci_loop_send(&first->sender->loop, &first->message);
}

static void give_back(struct ci_worker *worker, struct post *post)
{
    struct ci_posts *posts = &worker->posts;
    if (post->sender == worker) {
        ci_pool_give(&posts->own, post);
        return;
    }
    if (posts->foreign && ((struct post *)posts->foreign)->sender != post->sender)
        send_home(posts);
    post->arg = posts->foreign;
    posts->foreign = post;
    if (++posts->foreign_count == RETURNED_TOGETHER)
        send_home(posts);
}

/* ---- posting ---- */

static void came(struct ci_message *message)
{
    struct post copy = *post_of(message);
    if (!copy.sender)
        ci_free(&copy.target->runtime->allocator, post_of(message), sizeof copy);
    else if (ci_likely(ci_worker_current != NULL))
        give_back(copy.target, post_of(message));
    else
        /* the run is being settled: no other thread is left */
        ci_pool_give(&copy.sender->posts.own, post_of(message));
    ci_carried_locals = copy.locals;
    copy.fn(copy.arg);
    ci_carried_locals = NULL;
    ci_local_drop(copy.target, copy.locals);
}

/* The post was refused. */
static CI_COLD void drop(coir_runtime *runtime, struct post *post)
{
    if (!post->sender) {
        ci_free(&runtime->allocator, post, sizeof *post);
        return;
    }
    ci_local_drop(post->sender, post->locals);
    ci_pool_give(&post->sender->posts.own, post);
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
    struct post *post =
        sender ? ci_pool_take(&sender->posts.own) : ci_alloc(&runtime->allocator, sizeof *post);
    if (!post)
        return -ENOMEM;
    const struct ci_runnable *runnable = sender ? sender->runnable : NULL;
    struct ci_local *locals =
        runnable && runnable->task->locals ? ci_local_inherit(runnable->task->locals) : NULL;
    *post = (struct post){{NULL, came}, fn, arg, sender, &runtime->workers[index], locals};
    int rc = ci_run_send(post->target, &post->message);
    if (rc < 0)
        drop(runtime, post);
    return rc;
}
