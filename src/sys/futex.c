#include "sys/futex.h"

#ifdef __linux__
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* linux/futex.h, which not every C library comes with */
enum { WAIT_PRIVATE = 128, WAKE_PRIVATE = 129 };

void ci_futex_wait(uint32_t *word, uint32_t value, coir_time timeout)
{
    struct timespec time = {timeout / COIR_S, timeout % COIR_S};
    syscall(SYS_futex, word, WAIT_PRIVATE, value, timeout == COIR_NEVER ? NULL : &time);
}

void ci_futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, WAKE_PRIVATE, INT_MAX);
}
#else
#include "base/atomic.h"
#include "sys/clock.h"

static const coir_time look_min = 20 * COIR_US, look_max = 1 * COIR_MS;

void ci_futex_wait(uint32_t *word, uint32_t value, coir_time timeout)
{
    for (coir_time pause = look_min; timeout > 0 && ci_load(word) == value;
         pause = pause < look_max ? 2 * pause : look_max) {
        ci_clock_sleep(pause < timeout ? pause : timeout);
        timeout -= timeout == COIR_NEVER ? 0 : pause;
    }
}

void ci_futex_wake(uint32_t *word)
{
    (void)word; /* who waits looks at it */
}
#endif
