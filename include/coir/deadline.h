/* Deadlines and shields: they hold from where they stand to the end of their block.
 *
 *   {
 *       COIR_DEADLINE(coir_in(500 * COIR_MS));
 *       n = coir_read(conn, buf, sizeof buf);      -ETIME once it has passed
 *   }
 *
 * A deadline is inherited by everything called in its block, and by the tasks of scopes opened in it; leaving the block ends it.
 * In a shielded block cancellation and outer deadlines are not seen; they are seen again behind it. */
#ifndef COIR_DEADLINE_H
#define COIR_DEADLINE_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_block {
    uint64_t opaque[12];
} coir_block;

#define COIR_DEADLINE(when) COIR_DEADLINE_IN_(COIR_CONCAT(coir_deadline_, __LINE__), when)
#define COIR_DEADLINE_IN_(name, when)               \
    coir_block name COIR_CLEANUP(coir_block_leave); \
    coir_deadline_enter(&name, when)

#define COIR_SHIELD COIR_SHIELD_IN_(COIR_CONCAT(coir_shield_, __LINE__))
#define COIR_SHIELD_IN_(name)                       \
    coir_block name COIR_CLEANUP(coir_block_leave); \
    coir_shield_enter(&name)

/* What the macros call. Blocks nest; outside of a fiber they do nothing.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_deadline_enter(coir_block *block, coir_time when);
COIR_API void coir_shield_enter(coir_block *block);
COIR_API void coir_block_leave(coir_block *block);

/* Moves a deadline, also one that has passed. */
COIR_API void coir_deadline_move(coir_block *block, coir_time when);

/* The nearest deadline that the calling task is under in its own blocks, or COIR_NEVER. */
COIR_API coir_time coir_deadline(void);

#ifdef __cplusplus
}
#endif

#endif
