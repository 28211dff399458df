/* What a signal handler can tell about the code that it interrupted. */
#ifndef CI_SYS_FAULT_H
#define CI_SYS_FAULT_H

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

/* The interrupted code's stack pointer; `context` is the third argument of a handler with
 * SA_SIGINFO. NULL: unknown here. */
static inline const void *ci_fault_stack_pointer(const void *context)
{
    const ucontext_t *interrupted = context;
#if defined(__linux__) && defined(__x86_64__)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.gregs[REG_RSP];
#elif defined(__linux__) && defined(__aarch64__)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.sp;
#elif defined(__linux__) && defined(__riscv)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.__gregs[REG_SP];
#else
    (void)interrupted;
    return NULL;
#endif
}

/* The instruction that was interrupted. NULL: unknown here. */
static inline const void *ci_fault_program_counter(const void *context)
{
    const ucontext_t *interrupted = context;
#if defined(__linux__) && defined(__x86_64__)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP];
#elif defined(__linux__) && defined(__aarch64__)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.pc;
#elif defined(__linux__) && defined(__riscv)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.__gregs[REG_PC];
#else
    (void)interrupted;
    return NULL;
#endif
}

#endif
