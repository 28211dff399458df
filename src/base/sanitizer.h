/* Annotations for sanitizers, about stacks and the order between threads, for programs that are
 * built with one. The library itself may have been built without: the sanitizers' functions are
 * weak references, so that the same library serves every program. */
#ifndef CI_BASE_SANITIZER_H
#define CI_BASE_SANITIZER_H

#include <stdbool.h>

#include "base/compiler.h"

enum { CI_NO_SANITIZER, CI_ADDRESS_SANITIZER, CI_THREAD_SANITIZER };

/* The one that the program was built with; set before main. */
extern CI_HIDDEN uint8_t ci_sanitizer;

CI_COLD void ci_sanitizer_release(const void *address);
CI_COLD void ci_sanitizer_acquire(const void *address);

/* What this thread did before the release happens before what a thread does after its acquire of
 * the same address. For atomics that order what users see; where the library is itself built with
 * TSan, TSan sees them. */
static inline bool ci_notes_order(void)
{
    return !CI_TSAN && ci_unlikely(ci_sanitizer == CI_THREAD_SANITIZER);
}

static inline void ci_note_release(const void *address)
{
    if (ci_notes_order())
        ci_sanitizer_release(address);
}

static inline void ci_note_acquire(const void *address)
{
    if (ci_notes_order())
        ci_sanitizer_acquire(address);
}

/* Memory that is unmapped may come back as something else: what ASan knows about frames in it that
 * never returned must not stay. */
void ci_note_unmap(const void *start, size_t size);

/* ---- stacks ---- */

/* What a sanitizer knows about one stack. */
struct ci_stack_view {
    const void *bottom;
    size_t size;
    void *fake_stack; /* ASan's, while the stack is left */
    void *tsan_fiber;
};

/* Makes the view of the calling thread's own stack, or of a new one, [bottom, top); done: the stack
 * will not be used again. */
void ci_stack_view_adopt_thread(struct ci_stack_view *view);
void ci_stack_view_init(struct ci_stack_view *view, const void *bottom, const void *top);
void ci_stack_view_done(struct ci_stack_view *view);

/* Around a switch: before the jump away from a stack, which may be for ever; after the jump back to
 * it, or to a fresh one (NULL). */
void ci_stack_view_leave(struct ci_stack_view *from, const struct ci_stack_view *to, bool for_ever);
void ci_stack_view_enter(const struct ci_stack_view *view);

/* The same where the view of the stack that is left is not known, because fibers are switched
 * there: leave notes in `here` what the way back needs, and the enter on the other stack notes the
 * rest in `left`. */
void ci_stack_view_leave_here(struct ci_stack_view *here, const struct ci_stack_view *to);
void ci_stack_view_enter_from(const struct ci_stack_view *here, struct ci_stack_view *left);

#endif
