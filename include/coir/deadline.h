/* Deadlines and shields: they hold from where they stand to the end of their block.
 *
 *   {
 *       COIR_DEADLINE(coir_in(500 * COIR_MS));
 *       n = coir_read(conn, buf, sizeof buf);      -ETIME once it has passed
 *   }
 *
 * A deadline is inherited by everything called in its block, and by the tasks of scopes opened in
 * it; leaving the block ends it. In a shielded block cancellation and outer deadlines are not seen;
 * they are seen again behind it.
 *
 * One rule: once a block's deadline has passed, every suspending call (COIR_SUSPENDS) and every
 * spawn inside says -ETIME, until the block is left; a task that was cancelled gets -ECANCELED from
 * them instead, until it ends. A call in progress is withdrawn and says so at once; one that cannot
 * be withdrawn, as a file's, gives its own result, and the next call says -ETIME.
 *
 * Whose deadline was it? A call may also hand on an -ETIME or -ECANCELED that is not the caller's:
 * the result of a task that was joined, of a function that was called, of a peer that was too slow
 * for a limit of a protocol.
 *
 *   coir_deadline_passed(block)     this block's has passed: its work was too slow
 *   coir_task_interrupted() != 0         otherwise: a block around, or the opener of the task's
 * scope, wants an end: return what was got coir_task_interrupted() == 0         otherwise: the call
 * was not interrupted; what it was made on failed with this error */
#ifndef COIR_DEADLINE_H
#define COIR_DEADLINE_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_block {
    uint64_t opaque[16];
} coir_block;

#define COIR_DEADLINE(when) COIR_DEADLINE_IN_(COIR_CONCAT(coir_deadline_, __LINE__), when)
#define COIR_DEADLINE_IN_(name, when)               \
    coir_block name COIR_CLEANUP(coir_block_leave); \
    coir_deadline_enter(&name, when)

/* The same, and `name` is the block, a pointer: for coir_deadline_passed and coir_deadline_move. */
#define COIR_DEADLINE_AS(name, when)                          \
    coir_block name##_storage COIR_CLEANUP(coir_block_leave); \
    coir_block *name = (coir_deadline_enter(&name##_storage, when), &name##_storage)

#define COIR_SHIELD COIR_SHIELD_IN_(COIR_CONCAT(coir_shield_, __LINE__))
#define COIR_SHIELD_IN_(name)                       \
    coir_block name COIR_CLEANUP(coir_block_leave); \
    coir_shield_enter(&name)

/* What the macros call. Blocks nest; outside of a fiber they do nothing.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_deadline_enter(coir_block *block, coir_time when);
COIR_API void coir_shield_enter(coir_block *block);
COIR_API void coir_block_leave(coir_block *block);

/* Moves a deadline, also one that has passed: the block's calls are made again then. What it has
 * interrupted stays so: a scope that was open inside of the block when the deadline passed, or was
 * opened after that, has asked its tasks to end, and refuses spawns with -ETIME.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_deadline_move(coir_block *block, coir_time when);

/* Whether the block's own deadline has passed, as far as the block's calls were told. Also after
 * the block was left, if its storage is still there; false for a shield.
 * Suspends: no.  Threads: owner. */
COIR_API bool coir_deadline_passed(const coir_block *block);

/* The nearest deadline that the calling task is under in its own blocks, or COIR_NEVER. */
COIR_API coir_time coir_task_deadline(void);

#ifdef __cplusplus
}
#endif

#endif
