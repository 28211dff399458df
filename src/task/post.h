/* Calls that are posted to a worker: a queue of its own, in blocks. Its message is in the worker's
 * inbox while there is something in it, so a post costs one lock, and a wake-up only if the worker
 * sleeps; and its records lie side by side.
 *
 *    EMPTY -- a post: its message is sent --> PENDING -- the worker finds nothing more --> EMPTY
 */
#ifndef CI_TASK_POST_H
#define CI_TASK_POST_H

#include "base/inbox.h"
#include "coir/base.h"
#include "sys/lock.h"

struct ci_post_block;
struct ci_worker;

struct ci_posts {
    /* what senders write, under the lock */
    CI_CACHE_ALIGNED struct ci_lock lock;
    unsigned used; /* of the last block */
    bool pending;  /* the message is on its way, or being delivered */
    unsigned spare_count;
    struct ci_post_block *first, *last;
    struct ci_post_block *spare; /* blocks to use again */

    /* what the worker writes */
    CI_CACHE_ALIGNED struct ci_message message;
    struct ci_post_block *block; /* whose calls it makes */
    unsigned taken;              /* of the block */
};

void ci_posts_init(struct ci_posts *posts);
void ci_posts_done(struct ci_posts *posts, const coir_allocator *allocator);

/* The run has ended: when this returns, no post is accepted any more, and who has accepted one and
 * is to send the message is a visitor of the runtime. */
void ci_posts_settle(struct ci_posts *posts);

#endif
