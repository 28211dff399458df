/* The clocks. No other file reads the time. */
#ifndef CI_SYS_CLOCK_H
#define CI_SYS_CLOCK_H

#include "sys/ticks.h"

/* CLOCK_REALTIME: since 1970. */
coir_time ci_clock_wall(void);

/* Blocks the thread; a signal may end it early. */
void ci_clock_sleep(coir_time duration);

/* How many ticks pass in `duration`. The first call measures the rate, for 100 us. */
uint64_t ci_clock_ticks_in(coir_time duration);

#endif
