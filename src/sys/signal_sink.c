/* Signals that are counted until they are taken.
 *
 * 1. A sink has only signals that it wants.
 *
 * No signal is lost: a handler counts, then sets the bit; who takes the last one clears the bit,
 * then looks at the count again. */
#include "base/atomic.h"
#include "base/check.h"
#include "sys/call.h"
#include "sys/signal.h"

static uint64_t bit_of(int number)
{
    return (uint64_t)1 << number;
}

/* Sets the bit of a signal that was counted before. */
static bool announce(struct ci_signal_sink *sink, int number)
{
    return !(ci_fetch_or(&sink->pending, bit_of(number)) & bit_of(number));
}

bool ci_signal_count(struct ci_signal_sink *sink, int number)
{
    ci_fetch_add(&sink->counts[number], 1);
    return announce(sink, number);
}

/* Takes one of a signal's, unless others took all of them. */
static bool take_one(struct ci_signal_sink *sink, int number)
{
    uint32_t count = ci_load(&sink->counts[number]);
    while (count)
        if (ci_compare_exchange(&sink->counts[number], &count, count - 1))
            break;
    if (count > 1)
        return true;
    ci_fetch_and(&sink->pending, ~bit_of(number));
    /* a handler may have counted one after the look at the count, and found the bit still set */
    if (ci_load(&sink->counts[number]))
        announce(sink, number);
    return count != 0;
}

int ci_signal_take(struct ci_signal_sink *sink)
{
    int number = 0;
    for (uint64_t left = ci_load(&sink->pending); left && !number; left &= left - 1)
        if (take_one(sink, __builtin_ctzll(left)))
            number = __builtin_ctzll(left);
    /* the taker may have read the eventfd that was to wake another thread, too */
    if (ci_load(&sink->pending))
        ci_sys_eventfd_add(sink->eventfd);
    return number;
}

void ci_signal_give_back(struct ci_signal_sink *sink, int number)
{
    ci_check(number > 0 && sink->wanted & bit_of(number), "signal_sink.c 1");
    if (ci_signal_count(sink, number))
        ci_sys_eventfd_add(sink->eventfd);
}
