/* Records of posted calls. */
#ifndef CI_TASK_POST_H
#define CI_TASK_POST_H

#include "base/pool.h"

struct ci_posts {
    struct ci_pool own;
    void *foreign; /* of one other worker, to be sent home */
    unsigned foreign_count;
};

void ci_posts_init(struct ci_posts *posts, const coir_allocator *allocator);

#endif
