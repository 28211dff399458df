/* A seeded generator (splitmix64): small state, good enough for choices, never for secrets. */
#ifndef CI_BASE_RANDOM_H
#define CI_BASE_RANDOM_H

#include "base/compiler.h"

struct ci_random {
    uint64_t state;
};

static inline uint64_t ci_random_next(struct ci_random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform enough in [0, bound); 0 for bound 0. */
static inline uint64_t ci_random_below(struct ci_random *random, uint64_t bound)
{
    return bound ? (uint64_t)(((unsigned __int128)ci_random_next(random) * bound) >> 64) : 0;
}

/* True with the given probability. Draws nothing for 0, so that a fault that is off changes no
 * other draw. */
static inline int ci_random_chance(struct ci_random *random, double probability)
{
    return probability > 0 && (double)(ci_random_next(random) >> 11) * 0x1.0p-53 < probability;
}

#endif
