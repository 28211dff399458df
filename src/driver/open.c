/* The table of drivers. */
#include <errno.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/open.h"
#include "driver/readiness.h"
#include "sys/valgrind.h"

static const struct ci_selector_kind *const selectors[] = {
#ifdef __linux__
    &ci_epoll_selector,
#endif
#if defined(COIR_KQUEUE) || !defined(__linux__) /* on Linux: over the simulated kernel */
    &ci_kqueue_selector,
#endif
#if defined(COIR_URING)
    &ci_uring_selector,
#endif
    &ci_poll_selector,
};

static const struct ci_selector_kind *find_selector(const char *name)
{
    for (size_t i = 0; i < ci_countof(selectors); i++)
        if (strcmp(selectors[i]->name, name) == 0)
            return selectors[i];
    return NULL;
}

#if defined(COIR_URING)
const char *const ci_driver_choices[] = {"io_uring", "epoll", NULL};
const char *const ci_driver_selector = "epoll", *const ci_driver_names = "io_uring, epoll or poll";
#elif defined(__linux__)
const char *const ci_driver_choices[] = {"epoll", NULL}, *const ci_driver_selector = "epoll",
                  *const ci_driver_names = "epoll or poll";
#else
const char *const ci_driver_choices[] = {"kqueue", NULL}, *const ci_driver_selector = "kqueue",
                  *const ci_driver_names = "kqueue or poll";
#endif

int ci_selector_open(const char *name, const coir_allocator *allocator,
                     struct ci_selector **ret_selector)
{
    const struct ci_selector_kind *kind = find_selector(name);
    return kind ? ci_selector_new(kind, allocator, ret_selector) : -EINVAL;
}

bool ci_driver_known(const char *name)
{
    return find_selector(name);
}

const char *ci_driver_unfit(const char *name)
{
    if (strcmp(name, "io_uring") == 0 && ci_under_valgrind())
        return "valgrind runs no other thread while one waits in io_uring_enter";
    return NULL;
}

int ci_driver_open(const char *name, const coir_allocator *allocator, struct ci_driver **ret_driver)
{
#if defined(COIR_URING)
    if (strcmp(name, "io_uring") == 0)
        return ci_uring_open(allocator, ret_driver);
#endif
    struct ci_selector *selector;
    int rc = ci_selector_open(name, allocator, &selector);
    return rc < 0 ? rc : ci_readiness_open(selector, allocator, ret_driver);
}
