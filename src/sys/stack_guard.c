#include "sys/stack_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum {
    MAPPINGS_DEFAULT = 65530, /* vm.max_map_count, if it cannot be read */
    MAPPINGS_OF_A_GUARD = 2,  /* the guard, and what is above it up to the next one */
    PATTERN = 0x5a,
    PATTERN_BYTES = 256,
};

/* ---- the budget of mappings ---- */

static enum ci_stack_guard best_guard = CI_GUARD_MARKERS;
static size_t guards_used, guards_max; /* mappings; guards_max is 0 until it is read */

void ci_stack_guards_limit(enum ci_stack_guard best, size_t mappings_max)
{
    best_guard = best;
    ci_store_relaxed(&guards_max, mappings_max);
}

size_t ci_stack_guards_used(void)
{
    return ci_load_relaxed(&guards_used);
}

static size_t budget(void)
{
    size_t most = ci_load_relaxed(&guards_max);
    if (most)
        return most;
    unsigned long limit = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (!file || fscanf(file, "%lu", &limit) != 1 || !limit)
        limit = MAPPINGS_DEFAULT;
    if (file)
        fclose(file);
    most = limit / 2 ? limit / 2 : 1;
    ci_store_relaxed(&guards_max, most);
    return most;
}

bool ci_stack_guards_fit(size_t stacks)
{
    size_t used = ci_stack_guards_used();
    return used <= budget() && stacks * MAPPINGS_OF_A_GUARD <= budget() - used;
}

void ci_stack_guards_give(size_t guards)
{
    ci_fetch_sub(&guards_used, guards * MAPPINGS_OF_A_GUARD);
}

static bool take_from_budget(void)
{
    if (ci_fetch_add(&guards_used, MAPPINGS_OF_A_GUARD) + MAPPINGS_OF_A_GUARD <= budget())
        return true;
    ci_stack_guards_give(1);
    return false;
}

/* Whether the kernel really guards the page: qemu-user accepts the call and does nothing. The
 * kernel itself is made to read from the page, which fails without a signal. */
static bool try_markers(void)
{
    size_t size = CI_STACK_GUARD;
    char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    int ends[2];
    bool works = false;
    if (madvise(page, size, MADV_GUARD_INSTALL) == 0 && pipe2(ends, O_CLOEXEC) == 0) {
        works = write(ends[1], page, 1) < 0 && errno == EFAULT;
        close(ends[0]);
        close(ends[1]);
    }
    munmap(page, size);
    return works;
}

/* Tried once a process. Two threads that try at the same time come to the same result. */
static bool markers_work(void)
{
    static int32_t known; /* 1: yes, -1: no */
    int32_t answer = ci_load_relaxed(&known);
    if (!answer) {
        answer = try_markers() ? 1 : -1;
        ci_store_relaxed(&known, answer);
    }
    return answer > 0;
}

enum ci_stack_guard ci_stack_guard_best(void)
{
    return best_guard == CI_GUARD_MARKERS && !markers_work() ? CI_GUARD_MPROTECT : best_guard;
}

bool ci_stack_guard_make(enum ci_stack_guard *guard, void *bottom)
{
    if (*guard == CI_GUARD_MARKERS) {
        if (madvise(bottom, CI_STACK_GUARD, MADV_GUARD_INSTALL) == 0)
            return true;
        *guard = CI_GUARD_MPROTECT; /* mlockall(MCL_FUTURE) was called since */
    }
    if (*guard == CI_GUARD_PATTERN) {
        memset(bottom, PATTERN, PATTERN_BYTES);
        return true;
    }
    if (!take_from_budget())
        return false;
    if (mprotect(bottom, CI_STACK_GUARD, PROT_NONE) == 0)
        return true;
    ci_stack_guards_give(1);
    return false;
}

bool ci_stack_pattern_is_whole(const void *bottom)
{
    const unsigned char *bytes = bottom;
    for (int i = 0; i < PATTERN_BYTES; i++)
        if (bytes[i] != PATTERN)
            return false;
    return true;
}
