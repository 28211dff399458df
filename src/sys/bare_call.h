/* A system call of Linux without the C library: no errno, and no point of cancellation. Sanitizers,
 * and whatever stands in for functions of the C library, do not see it. */
#ifndef CI_SYS_BARE_CALL_H
#define CI_SYS_BARE_CALL_H

#include "base/compiler.h"

/* What the kernel returns: a negative errno where the call has failed. */
CI_INLINE long ci_bare_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    register long sixth __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long at __asm__("x8") = number;
    register long result __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e;
    register long sixth __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(at), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory", "cc");
    return result;
#elif defined(__riscv)
    register long at __asm__("a7") = number;
    register long result __asm__("a0") = a;
    register long second __asm__("a1") = b;
    register long third __asm__("a2") = c;
    register long fourth __asm__("a3") = d;
    register long fifth __asm__("a4") = e;
    register long sixth __asm__("a5") = f;
    __asm__ volatile("ecall"
                     : "+r"(result)
                     : "r"(at), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    return result;
#endif
}

#endif
