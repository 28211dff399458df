#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ci_check_failed(const char *expr, const char *invariant, const char *file, int line)
{
    char text[512];
    int len = snprintf(text, sizeof text, "coir: invariant broken: %s%s%s (%s:%d)\n", invariant,
                       *invariant ? ": " : "", expr, file, line);
    if (len > (int)sizeof text)
        len = (int)sizeof text;
    ssize_t ignored CI_UNUSED = write(STDERR_FILENO, text, (size_t)len);
    abort();
}
