/* The CPU context switch: three words a context, everything else is the compiler's business.
 *
 * 1. The switch is inlined into the function that parks: it tells the compiler that every register is lost, so only what is live is
 *    kept, on the stack being left.
 * 2. It leaves by an indirect jump and pushes nothing: `ret` to another stack would mispredict, a push would break the unwind tables.
 * 3. Floating-point control words, the signal mask and errno belong to the thread and are not switched.
 * 4. ASan and TSan are told about every switch, in ci_context_switch and nowhere else.
 */
#ifndef CI_SYS_CONTEXT_H
#define CI_SYS_CONTEXT_H

#include "base/compiler.h"

struct ci_context {
    void *sp, *fp, *pc; /* the assembly knows these offsets: 0, 8, 16 */
#if CI_ASAN
    void *fake_stack;
    const void *bottom;
    size_t size;
#endif
#if CI_TSAN
    void *tsan_fiber;
#endif
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

/* Where a fresh context begins: calls the function in the frame pointer, which must not return. In entry_*.S. */
extern void ci_context_entry(void);

#if CI_ASAN
void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old, size_t *size_old);
#endif
#if CI_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

/* A context that will run `fn` on the stack [bottom, top). A TSan fiber that it already has is kept. */
static inline void ci_context_init(struct ci_context *context, void (*fn)(void), void *bottom, void *top)
{
    context->sp = (void *)((uintptr_t)top & ~(uintptr_t)15);
    context->fp = (void *)(uintptr_t)fn;
    context->pc = (void *)(uintptr_t)ci_context_entry;
#if CI_ASAN
    context->fake_stack = NULL;
    context->bottom = bottom;
    context->size = (size_t)((char *)top - (char *)bottom);
#else
    (void)bottom;
#endif
}

/* Saves the running context in `from` and goes on in `to`. Returns when somebody switches to `from`. */
CI_INLINE void ci_context_switch(struct ci_context *from, struct ci_context *to)
{
#if CI_TSAN
    from->tsan_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
#endif
#if CI_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->size);
#endif
    ci_context_jump(from, to);
#if CI_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

/* The same, when nobody will ever switch back: the stack being left may be reused at once. `scratch` is never read again. */
CI_INLINE void ci_context_leave(struct ci_context *scratch, struct ci_context *to)
{
#if CI_TSAN
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
#endif
#if CI_ASAN
    __sanitizer_start_switch_fiber(NULL, to->bottom, to->size);
#endif
    ci_context_jump(scratch, to);
}

/* A context that parks on different stacks in turn, as a fiber does that runs generators, says on which it is from now on: on that of
 * `stack`, whose context has been initialised. */
static inline void ci_context_stands_on(struct ci_context *context, const struct ci_context *stack)
{
#if CI_ASAN
    context->bottom = stack->bottom;
    context->size = stack->size;
#else
    (void)context;
    (void)stack;
#endif
}

/* The running context is on its own stack for the last time: TSan's name for that is the one to keep. */
static inline void ci_context_ends_here(struct ci_context *context)
{
#if CI_TSAN
    context->tsan_fiber = __tsan_get_current_fiber();
#else
    (void)context;
#endif
}

/* To be called first thing in a fresh context's function. */
static inline void ci_context_entered(void)
{
#if CI_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}

/* Describes the calling thread's own stack, before anything switches back to it. */
void ci_context_adopt_thread(struct ci_context *context);

/* Makes and drops what TSan keeps for a stack; nothing in other builds. */
void ci_context_attach(struct ci_context *context);
void ci_context_detach(struct ci_context *context);

#endif
