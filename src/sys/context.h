/* The CPU context switch: three words a context; the compiler saves everything else.
 *
 * The switch is inlined into the function that parks: it declares every register clobbered, so the
 * compiler keeps only what is live, on the stack being left. It leaves by an indirect jump and
 * pushes nothing: `ret` to another stack would be mispredicted, a push would break the unwind
 * tables. Floating-point control words, the signal mask and errno belong to the thread and are not
 * switched.
 *
 * Sanitizers are told about every switch. A program with one never switches from fiber to fiber
 * directly, so that path needs no check for it (ci_worker.switches_max).
 */
#ifndef CI_SYS_CONTEXT_H
#define CI_SYS_CONTEXT_H

#include "base/sanitizer.h"

struct ci_context {
    void *sp, *fp, *pc;         /* the assembly knows these offsets: 0, 8, 16 */
    struct ci_stack_view *view; /* of the stack that it is on; set where there is a sanitizer */
};

#if defined(__x86_64__)
#include "sys/context_x86_64.h"
#elif defined(__aarch64__)
#include "sys/context_aarch64.h"
#elif defined(__riscv) && __riscv_xlen == 64
#include "sys/context_riscv64.h"
#else
#error "no context switch for this processor"
#endif

/* Where a fresh context begins: calls the function in the frame pointer, which must not return. In
 * context_entry_*.S. */
extern void ci_context_entry(void);

/* A context that will run `fn` on the stack below `top`. */
static inline void ci_context_init(struct ci_context *context, void (*fn)(void), void *top)
{
    context->sp = (void *)((uintptr_t)top & ~(uintptr_t)15);
    context->fp = (void *)(uintptr_t)fn;
    context->pc = (void *)(uintptr_t)ci_context_entry;
}

/* ci_context_switch in a program with a sanitizer. Out of line, so that the inlined one keeps
 * nothing live over its jump. */
CI_COLD void ci_context_switch_noted(struct ci_context *from, struct ci_context *to);

/* Saves the running context in `from` and continues in `to`. Returns when something switches back
 * to `from`. */
CI_INLINE void ci_context_switch(struct ci_context *from, struct ci_context *to)
{
    if (ci_unlikely(ci_sanitizer))
        ci_context_switch_noted(from, to);
    else
        ci_context_jump(from, to);
}

/* The same without a way back: the stack being left may be reused at once. */
CI_INLINE CI_NORETURN void ci_context_leave(const struct ci_context *to)
{
    if (ci_unlikely(ci_sanitizer))
        ci_stack_view_leave(NULL, to->view, true);
    ci_context_jump_away(to);
}

/* To be called first thing in a fresh context's function. */
static inline void ci_context_entered(void)
{
    if (ci_unlikely(ci_sanitizer))
        ci_stack_view_enter(NULL);
}

#endif
