/* Keeping memory in RAM. */
#ifndef CI_SYS_RESIDENCE_H
#define CI_SYS_RESIDENCE_H

/* Locks all memory of the process that is mapped now, so that it is never paged out. 0, or a
 * negative error: -ENOMEM and -EPERM past RLIMIT_MEMLOCK. */
int ci_memory_lock(void);

#endif
