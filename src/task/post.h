/* Records of posted calls. */
#ifndef CI_TASK_POST_H
#define CI_TASK_POST_H

#include "base/pool.h"

struct ci_posts {
    struct ci_pool own;
    void *foreign; /* records of one other worker, to be returned to it */
    unsigned foreign_count;
};

void ci_posts_init(struct ci_posts *posts, const coir_allocator *allocator);

#endif
