#include "sys/valgrind.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Valgrind preloads a library of its own into every program that it runs, static ones too, and
 * takes it out of the environment of children that it does not follow. */
bool ci_under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "/vgpreload_core");
}

/* A client request (Valgrind User Manual, 3.1): a sequence of instructions that changes nothing and
 * that no compiler emits, with the address of the request's words in a register. */
static void request(const uintptr_t words[6])
{
#if defined(__x86_64__)
    uintptr_t answer = 0;
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(words)
                     : "cc", "memory");
#elif defined(__aarch64__)
    register uintptr_t answer __asm__("x3") = 0;
    register const uintptr_t *at __asm__("x4") = words;
    __asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61\n\t"
                     "orr x10, x10, x10"
                     : "+r"(answer)
                     : "r"(at)
                     : "cc", "memory");
#else
    (void)words; /* valgrind is not known to run there */
#endif
}

void ci_valgrind_register_stack(const void *start, const void *end)
{
    enum { STACK_REGISTER = 0x1501 };
    request((const uintptr_t[6]){STACK_REGISTER, (uintptr_t)start, (uintptr_t)end});
}
