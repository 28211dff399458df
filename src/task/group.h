/* Several futures awaited at once: all of them, or the first.
 *
 * 1. `live` counts the members that have begun and not ended. A group ends when it is 0 and none is
 * to be begun.
 * 2. `winner` of a coir_any goes from CI_NOBODY to an index, once; any thread may do that, before
 *    it hands something over to a member. From then on every other member's claim is refused.
 * 3. While two coir_anys are decided together, the `winner` of the one that is being polled is
 *    CI_UNDECIDED. A process-wide lock guards this; a thread that finds CI_UNDECIDED waits until
 *    both are decided.
 * 4. A group that closes begins no more members and cancels those that run; one that had completed
 * keeps its result.
 */
#ifndef CI_TASK_GROUP_H
#define CI_TASK_GROUP_H

#include "base/options.h"
#include "task/branch.h"

enum ci_group_mode { CI_GROUP_JOIN, CI_GROUP_JOIN_OR_CANCEL, CI_GROUP_ANY };

/* The winner is an index, or one of these. */
enum { CI_NOBODY = -1, CI_NOBODY_EVER = -2, CI_UNDECIDED = -3 };

struct ci_group {
    coir_future future;
    struct ci_runnable *owner;
    struct ci_branch *branches;
    int32_t count, next, live, window;
    int32_t first; /* the index to begin with */
    int32_t winner;
    int32_t reason; /* the first error, or why everything was cancelled */
    uint8_t mode;
    bool closing;
};
CI_LEAVES_SPARE_WORDS(struct ci_group, coir_group);
_Static_assert(offsetof(struct ci_group, future) == 0, "ci_branch.owner");

extern const coir_future_kind ci_group_kind;

/* A group as a future. It begins `window` members at a time (0: all), from the one at `first` on
 * and round. */
coir_future *ci_group_init(coir_group *group, coir_branch *branches, size_t count,
                           enum ci_group_mode mode, size_t window, size_t first);

/* Decides a coir_any: `winner` is the member that wins, or CI_NOBODY_EVER. False: it was decided
 * before. From any thread. */
bool ci_group_decide(struct ci_group *group, int32_t winner);

#endif
