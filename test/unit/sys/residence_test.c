/* Memory that is locked, where the system allows that. */
#include "sys/residence.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "harness.h"

static long locked_kib(void)
{
    char line[200];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "re");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmLck: %ld", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

TEST(what_is_mapped_is_locked_or_the_error_says_why_not)
{
    int rc = ci_memory_lock();
    if (rc == 0)
        CHECK(CI_ASAN || CI_TSAN || locked_kib() > 0); /* sanitizers make it do nothing */
    else
        CHECK(rc == -ENOMEM || rc == -EPERM || rc == -EAGAIN);
    munlockall();
}
