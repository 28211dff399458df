/* Whether the program runs under valgrind is read from what valgrind preloads. */
#include "sys/valgrind.h"

#include <stdlib.h>

#include "harness.h"

TEST(its_preloaded_library_gives_it_away)
{
    static char stack[4096];
    unsetenv("LD_PRELOAD");
    CHECK(!ci_under_valgrind());
    setenv("LD_PRELOAD", "/usr/lib/other.so", 1);
    CHECK(!ci_under_valgrind());
    setenv("LD_PRELOAD", "/usr/lib/other.so:/usr/libexec/valgrind/vgpreload_core-amd64-linux.so",
           1);
    CHECK(ci_under_valgrind());
    ci_valgrind_register_stack(stack, stack + sizeof stack); /* changes nothing elsewhere */
}
