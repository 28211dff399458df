/* What is counted of locks that have a name: how often a task had to wait for one, and for how
 * long. Locks of one name count together. Taking a lock that is free costs the same with a name
 * and without: nothing is counted then.
 *
 * A lock may be released without a word, so it has the number of a record and no place in a list;
 * the records are the process's, and stay. */
#ifndef CI_TASK_LOCK_COUNTS_H
#define CI_TASK_LOCK_COUNTS_H

#include "task/metrics_text.h"

/* Numbers from 1; 0: a lock without a name. */
enum { CI_LOCK_NAMES = 64, CI_LOCK_NAME = 32 };

/* The number for a name (31 bytes of it), made at its first use; 0: there are too many. */
uint8_t ci_lock_number(const char *name);

/* Its name; NULL: the number is 0. */
const char *ci_lock_name(uint8_t number);

/* A task begins to wait for a lock of that number. Returns the time, for the end of its wait. */
uint64_t ci_lock_wait_begins(uint8_t number);

/* It has got the lock. From any thread. `since` 0: its wait began before the lock had a name. */
void ci_lock_wait_ended(uint8_t number, uint64_t since);

/* Before a simulated world begins, which knows of no other: no lock has a name any more. */
void ci_lock_counts_forget(void);

void ci_lock_counts_put(struct ci_metrics_text *text);

#endif
