/* The table of drivers. */
#include <errno.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/readiness.h"

static const struct {
    const char *name;
    int (*open)(const coir_allocator *allocator, struct ci_selector **ret_selector);
} selectors[] = {
    {"epoll", ci_epoll_open},
    {"poll", ci_poll_open},
};

bool ci_driver_known(const char *name)
{
    for (size_t i = 0; i < ci_countof(selectors); i++)
        if (strcmp(selectors[i].name, name) == 0)
            return true;
    return false;
}

int ci_driver_open(const char *name, const coir_allocator *allocator, struct ci_driver **ret_driver)
{
    for (size_t i = 0; i < ci_countof(selectors); i++)
        if (strcmp(selectors[i].name, name) == 0) {
            struct ci_selector *selector;
            int rc = selectors[i].open(allocator, &selector);
            return rc < 0 ? rc : ci_readiness_open(selector, allocator, ret_driver);
        }
    return -EINVAL;
}
