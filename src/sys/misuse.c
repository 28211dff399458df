#include "sys/misuse.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "coir/base.h"

bool ci_misuse_aborts = CI_DEBUG;
bool (*ci_misuse_log)(const struct coir_runtime *runtime, const char *line);

enum { PLACES = 64 };

struct found {
    uintptr_t place, offset; /* in the object, as addr2line wants it */
    const char *object;      /* NULL: not found */
};

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct found *found = arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || found->place < start ||
            found->place >= start + info->dlpi_phdr[i].p_memsz)
            continue;
        found->object = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "the program";
        found->offset = found->place - info->dlpi_addr;
        return 1;
    }
    return 0;
}

static void describe(char *text, size_t size, int error, const char *what, const char *call,
                     const void *place)
{
    struct found found = {.place =
                              (uintptr_t)place - 1}; /* an address inside of the call instruction */
    int len =
        snprintf(text, size, "coir: misuse: %s: %s", call, *what ? what : coir_strerror(error));
    if (!place || len < 0 || (size_t)len >= size)
        return;
    dl_iterate_phdr(look_at_object, &found);
    snprintf(text + len, size - (size_t)len, " (called at %#lx of %s; addr2line prints the line)",
             (unsigned long)found.offset, found.object ? found.object : "unknown code");
}

static const void *known[PLACES], *last; /* places whose misuse was logged */

void ci_misuse_forget(void)
{
    memset(known, 0, sizeof known);
    last = NULL;
}

/* Whether this is the first misuse of the place that is logged. Of more than the table has room
 * for, one that follows another is new again. */
static bool is_new(const void *place)
{
    for (size_t i = 0; i < PLACES; i++) {
        const void *there = ci_load_relaxed(&known[i]);
        if (!there && ci_compare_exchange(&known[i], &there, place))
            return true;
        if (there == place)
            return false;
    }
    return ci_exchange(&last, place) != place;
}

int ci_misused(int error, const char *what, const char *call, const void *place)
{
    return ci_misused_in(NULL, error, what, call, place);
}

int ci_misused_in(const struct coir_runtime *runtime, int error, const char *what, const char *call,
                  const void *place)
{
    char text[512];
    if (!ci_misuse_aborts &&
        (!ci_misuse_log || !ci_misuse_log(runtime, NULL) || !is_new(place ? place : call)))
        return error;
    describe(text, sizeof text, error, what, call, place);
    if (!ci_misuse_aborts) {
        ci_misuse_log(runtime, text + strlen("coir: "));
        return error;
    }
    ssize_t ignored CI_UNUSED = write(STDERR_FILENO, text, strlen(text));
    ignored = write(STDERR_FILENO, "\n", 1);
    abort();
}
