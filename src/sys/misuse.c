#include "sys/misuse.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coir/base.h"

bool ci_misuse_aborts = CI_DEBUG;

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

int ci_misused(int error, const char *call, const void *place)
{
    if (!ci_misuse_aborts)
        return error;
    struct found found = {.place =
                              (uintptr_t)place - 1}; /* an address inside of the call instruction */
    dl_iterate_phdr(look_at_object, &found);
    char text[512];
    int len = snprintf(text, sizeof text,
                       "coir: misuse: %s: %s (called at %#lx of %s; addr2line prints the line)\n",
                       call, coir_strerror(error), (unsigned long)found.offset,
                       found.object ? found.object : "unknown code");
    if (len > (int)sizeof text)
        len = (int)sizeof text;
    ssize_t ignored CI_UNUSED = write(STDERR_FILENO, text, (size_t)len);
    abort();
}
