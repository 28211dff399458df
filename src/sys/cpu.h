/* The CPUs that this process may use. */
#ifndef CI_SYS_CPU_H
#define CI_SYS_CPU_H

/* How many: what affinity allows, cut by the quota of the control groups; at least 1. */
unsigned ci_cpu_available(void);

/* Ties the calling thread to the `index`-th (modulo) CPU of its affinity mask. 0 or -errno. */
int ci_cpu_pin(unsigned index);

/* Takes that back; of a thread that is not tied it changes nothing. */
void ci_cpu_unpin(void);

/* Before a tied thread starts another one, or a process, which inherits its mask; and again after
 * that. */
void ci_cpu_exchange_pin(void);

#endif
