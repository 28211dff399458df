/* Data that upper layers keep per worker and per runtime. */
#include "task/extension.h"

#include "base/atomic.h"
#include "task/runtime.h"

struct ci_worker_extension *ci_worker_find_extension(struct ci_worker *worker, const void *key)
{
    struct ci_worker_extension *extension = worker->extensions;
    while (extension && extension->key != key)
        extension = extension->next;
    return extension;
}

void ci_worker_add_extension(struct ci_worker *worker, struct ci_worker_extension *extension)
{
    extension->next = worker->extensions;
    /* pairs with the acquire of readers on other threads (web/worker.c) */
    ci_store_release(&worker->extensions, extension);
}

struct ci_runtime_extension *ci_runtime_find_extension(coir_runtime *runtime, const void *key)
{
    /* pairs with the exchange below */
    struct ci_runtime_extension *extension = ci_load_acquire(&runtime->extensions);
    while (extension && extension->key != key)
        extension = extension->next;
    return extension;
}

struct ci_runtime_extension *ci_runtime_add_extension(coir_runtime *runtime,
                                                      struct ci_runtime_extension *extension)
{
    extension->next = ci_load_acquire(&runtime->extensions);
    do {
        for (struct ci_runtime_extension *there = extension->next; there; there = there->next)
            if (there->key == extension->key)
                return there;
    } while (!ci_compare_exchange(&runtime->extensions, &extension->next, extension));
    return extension;
}

bool ci_runtime_extensions_awaited(coir_runtime *runtime)
{
    bool awaited = false;
    for (struct ci_runtime_extension *extension = ci_load_acquire(&runtime->extensions); extension;
         extension = extension->next)
        awaited |= extension->is_awaited(extension);
    return awaited;
}

void ci_runtime_free_extensions(coir_runtime *runtime)
{
    while (runtime->extensions) {
        struct ci_runtime_extension *extension = runtime->extensions;
        runtime->extensions = extension->next;
        extension->free(extension);
    }
}
