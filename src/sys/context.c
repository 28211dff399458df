#include "sys/context.h"

#include <pthread.h>
#include <string.h>

void ci_context_adopt_thread(struct ci_context *context)
{
    memset(context, 0, sizeof *context);
#if CI_ASAN
    pthread_attr_t attr;
    void *bottom = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstack(&attr, &bottom, &size);
        pthread_attr_destroy(&attr);
    }
    context->bottom = bottom;
    context->size = size;
#endif
#if CI_TSAN
    context->tsan_fiber = __tsan_get_current_fiber();
#endif
}

void ci_context_attach(struct ci_context *context)
{
#if CI_TSAN
    context->tsan_fiber = __tsan_create_fiber(0);
#else
    (void)context;
#endif
}

void ci_context_detach(struct ci_context *context)
{
#if CI_TSAN
    __tsan_destroy_fiber(context->tsan_fiber);
    context->tsan_fiber = NULL;
#else
    (void)context;
#endif
}
