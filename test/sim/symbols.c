/* For scenarios that name functions: the debugging information is read before a campaign forks its
 * processes, instead of by each of them. */
#include "sys/symbol.h"

__attribute__((constructor)) static void read_symbols(void)
{
    char text[200];
    struct ci_traced here = {.count = 1, .exact = true};
    here.frames[0] = (void *)(uintptr_t)read_symbols;
    ci_symbol_write(&here, text, sizeof text);
}
