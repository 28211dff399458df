#include "driver/selector.h"

#include <errno.h>

#include "sys/call.h"

int ci_selector_new(const struct ci_selector_kind *kind, const coir_allocator *allocator,
                    struct ci_selector **ret_selector)
{
    struct ci_selector *selector = ci_alloc_zero(allocator, kind->size);
    if (!selector)
        return -ENOMEM;
    *selector = (struct ci_selector){.kind = kind, .allocator = allocator, .wakeup = -1};
    int rc = kind->init(selector);
    if (rc < 0) {
        ci_selector_free(selector);
        return rc;
    }
    *ret_selector = selector;
    return 0;
}

void ci_selector_free(struct ci_selector *selector)
{
    selector->kind->done(selector);
    if (selector->wakeup >= 0)
        ci_sys_close(selector->wakeup);
    ci_free(selector->allocator, selector, selector->kind->size);
}

int ci_selector_open_wakeup(struct ci_selector *selector)
{
    selector->wakeup = ci_sys_eventfd();
    return selector->wakeup < 0 ? selector->wakeup : 0;
}

void ci_selector_wake(struct ci_selector *selector)
{
    ci_sys_eventfd_add(selector->wakeup);
}
