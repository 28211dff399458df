/* Arithmetic on times. */
#include "base/time.h"

#include "harness.h"

/* Against arithmetic that cannot overflow, on every pair of times at and around each border. */
TEST(times_saturate)
{
    static const coir_time borders[] = {INT64_MIN, INT64_MIN / 2,  -COIR_S,   0,
                                        COIR_S,    COIR_NEVER / 2, COIR_NEVER};
    coir_time times[3 * sizeof borders / sizeof *borders];
    int count = 0;
    for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
        for (int beside = -1; beside <= 1; beside++)
            if (!(borders[i] == INT64_MIN && beside < 0) &&
                !(borders[i] == COIR_NEVER && beside > 0))
                times[count++] = borders[i] + beside;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            coir_time a = times[i], b = times[j];
            __int128 sum = (__int128)a + b, difference = (__int128)a - b;
            bool never = a == COIR_NEVER || b == COIR_NEVER || sum > COIR_NEVER;
            CHECK_EQ(ci_time_after(a, b), never             ? COIR_NEVER
                                          : sum < INT64_MIN ? INT64_MIN
                                                            : (coir_time)sum);
            never = a == COIR_NEVER || difference > COIR_NEVER;
            coir_time left = never ? COIR_NEVER : difference > 0 ? (coir_time)difference : 0;
            CHECK_EQ(ci_time_left(a, b), left);
            CHECK_EQ(ci_time_timeout(a, b), left == COIR_NEVER ? -1 : left);
        }
}
