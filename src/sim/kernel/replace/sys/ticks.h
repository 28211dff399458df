/* In place of sys/ticks.h, over the simulated kernel: a tick is a nanosecond of the world. */
#ifndef CI_SYS_TICKS_H
#define CI_SYS_TICKS_H

#include "base/compiler.h"
#include "coir/base.h"

coir_time ci_clock_now(void);
uint64_t ci_clock_ticks(void);

#endif
