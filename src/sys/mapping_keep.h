/* Mappings that outlive their users, for a thread that has many short ones: a campaign of simulated
 * runs would spend a third of its time on having the pages of stacks and buffers mapped again. */
#ifndef CI_SYS_MAPPING_KEEP_H
#define CI_SYS_MAPPING_KEEP_H

#include <stdbool.h>
#include <stddef.h>

enum { CI_MAPPINGS_KEPT = 32 };

struct ci_kept_mapping {
    void *start;
    size_t size;
    size_t stack_size; /* of the stacks that it consists of; 0: it has none */
    size_t guarded;    /* bytes from `start` on, of stacks that have their guards */
};

struct ci_mapping_keep {
    size_t count;
    struct ci_kept_mapping mappings[CI_MAPPINGS_KEPT]; /* the oldest first */
};

/* From now on the calling thread keeps in *keep the mappings that it would unmap, and takes them
 * from there. NULL: it does not, as at the beginning; what was kept stays. */
void ci_mapping_keep(struct ci_mapping_keep *keep);

/* Whether the calling thread keeps any. */
bool ci_mapping_is_kept(void);

/* Keeps a mapping, with what it holds. False: it is the caller's to unmap. */
bool ci_mapping_give(const struct ci_kept_mapping *mapping);

/* Gives the caller a mapping of the sizes in *mapping: its start and guards. False: none is kept.
 */
bool ci_mapping_take(struct ci_kept_mapping *mapping);

#endif
