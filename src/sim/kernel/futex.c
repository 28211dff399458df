/* sys/futex.h: a thread that waits is one that can run once the word has changed. */
#include "sys/futex.h"

#include "base/time.h"
#include "sim/kernel/kernel.h"

struct wait {
    const uint32_t *word;
    uint32_t value;
};

static bool has_changed(void *arg)
{
    const struct wait *wait = arg;
    return *wait->word != wait->value;
}

void ci_futex_wait(uint32_t *word, uint32_t value, coir_time timeout)
{
    struct wait wait = {word, value};
    ci_kcall();
    if (!has_changed(&wait))
        ci_kthread_wait("a word", -1, has_changed, &wait, ci_time_after(ci_know(), timeout));
}

void ci_futex_wake(uint32_t *word)
{
    (void)word;
    ci_kcall();
}
