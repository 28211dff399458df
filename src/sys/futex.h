/* Sleeping until another thread has changed a word. Whoever changes it wakes afterwards; whoever
 * waits looks again, as a wait may end for no reason. */
#ifndef CI_SYS_FUTEX_H
#define CI_SYS_FUTEX_H

#include <stdint.h>

#include "coir/base.h"

/* Blocks the thread while the word has this value, for `timeout` at most (COIR_NEVER: without
 * end). */
void ci_futex_wait(uint32_t *word, uint32_t value, coir_time timeout);

/* Wakes all threads that wait at the word. */
void ci_futex_wake(uint32_t *word);

#endif
