/* In place of base/point.h, over the simulated kernel: at some atomic operations, chosen by the
 * seed, another thread runs first. */
#ifndef CI_BASE_POINT_H
#define CI_BASE_POINT_H

#include <stdint.h>

extern uint32_t ci_kpoints_left;
void ci_kpoint_reached(void);

static inline void ci_kpoint(void)
{
    if (__builtin_expect(--ci_kpoints_left == 0, 0))
        ci_kpoint_reached();
}

#define CI_POINT(writes, operation) (ci_kpoint(), operation)
#define CI_POINT_BUFFERED(p, v) CI_POINT(true, __atomic_store_n((p), (v), __ATOMIC_RELAXED))
#define CI_POINT_LOAD_BUFFERED(p) CI_POINT(false, __atomic_load_n((p), __ATOMIC_ACQUIRE))

#endif
