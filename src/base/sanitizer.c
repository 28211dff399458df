#include "base/sanitizer.h"

#include <pthread.h>

#define WEAK __attribute__((weak))

WEAK void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
WEAK void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old,
                                          size_t *size_old);
WEAK void __asan_unpoison_memory_region(void const volatile *start, size_t size);
WEAK void *__tsan_get_current_fiber(void);
WEAK void *__tsan_create_fiber(unsigned flags);
WEAK void __tsan_destroy_fiber(void *fiber);
WEAK void __tsan_switch_to_fiber(void *fiber, unsigned flags);
WEAK void __tsan_acquire(void *address);
WEAK void __tsan_release(void *address);

uint8_t ci_sanitizer;

__attribute__((constructor)) static void find_sanitizer(void)
{
    if (__sanitizer_start_switch_fiber)
        ci_sanitizer = CI_ADDRESS_SANITIZER;
    else if (__tsan_switch_to_fiber)
        ci_sanitizer = CI_THREAD_SANITIZER;
}

void ci_sanitizer_release(const void *address)
{
    __tsan_release((void *)(uintptr_t)address);
}

void ci_sanitizer_acquire(const void *address)
{
    __tsan_acquire((void *)(uintptr_t)address);
}

void ci_note_unmap(const void *start, size_t size)
{
    if (ci_sanitizer == CI_ADDRESS_SANITIZER)
        __asan_unpoison_memory_region(start, size);
}

/* ---- stacks ---- */

void ci_stack_view_adopt_thread(struct ci_stack_view *view)
{
    *view = (struct ci_stack_view){0};
    pthread_attr_t attr;
    void *bottom = NULL;
    if (ci_sanitizer == CI_THREAD_SANITIZER) {
        view->tsan_fiber = __tsan_get_current_fiber();
    } else if (ci_sanitizer == CI_ADDRESS_SANITIZER &&
               pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstack(&attr, &bottom, &view->size);
        pthread_attr_destroy(&attr);
        view->bottom = bottom;
    }
}

void ci_stack_view_init(struct ci_stack_view *view, const void *bottom, const void *top)
{
    *view = (struct ci_stack_view){.bottom = bottom,
                                   .size = (size_t)((const char *)top - (const char *)bottom)};
    if (ci_sanitizer == CI_THREAD_SANITIZER)
        view->tsan_fiber = __tsan_create_fiber(0);
}

void ci_stack_view_done(struct ci_stack_view *view)
{
    if (ci_sanitizer == CI_THREAD_SANITIZER)
        __tsan_destroy_fiber(view->tsan_fiber);
}

/* Not traced by TSan: the entry of a function that is left by a switch would stay on TSan's shadow
 * stack. */
CI_UNTRACED void ci_stack_view_leave(struct ci_stack_view *from, const struct ci_stack_view *to,
                                     bool for_ever)
{
    if (ci_sanitizer == CI_THREAD_SANITIZER)
        __tsan_switch_to_fiber(to->tsan_fiber, 0);
    else
        __sanitizer_start_switch_fiber(for_ever ? NULL : &from->fake_stack, to->bottom, to->size);
}

CI_UNTRACED void ci_stack_view_enter(const struct ci_stack_view *view)
{
    if (ci_sanitizer == CI_ADDRESS_SANITIZER)
        __sanitizer_finish_switch_fiber(view ? view->fake_stack : NULL, NULL, NULL);
}

CI_UNTRACED void ci_stack_view_leave_here(struct ci_stack_view *here,
                                          const struct ci_stack_view *to)
{
    if (ci_sanitizer == CI_THREAD_SANITIZER) {
        here->tsan_fiber = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(to->tsan_fiber, 0);
    } else {
        __sanitizer_start_switch_fiber(&here->fake_stack, to->bottom, to->size);
    }
}

CI_UNTRACED void ci_stack_view_enter_from(const struct ci_stack_view *here,
                                          struct ci_stack_view *left)
{
    if (ci_sanitizer == CI_ADDRESS_SANITIZER)
        __sanitizer_finish_switch_fiber(here ? here->fake_stack : NULL, &left->bottom, &left->size);
}
