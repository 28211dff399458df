/* Data that upper layers keep per worker and per runtime: found by key, freed with the worker or
 * the runtime. */
#ifndef CI_TASK_EXTENSION_H
#define CI_TASK_EXTENSION_H

#include "base/pool.h"
#include "coir/runtime.h"

struct ci_worker;

/* A pool of an extension, for metrics; CI_NAMED_POOLS at most. */
enum { CI_NAMED_POOLS = 4 };
struct ci_named_pool {
    const char *name;
    const struct ci_pool *pool;
};

struct ci_worker_extension {
    struct ci_worker_extension *next;
    const void *key;
    void (*free)(struct ci_worker_extension *extension, const coir_allocator *allocator);
    /* gives back memory that only a burst needed; NULL: it has none */
    enum ci_trim (*trim)(struct ci_worker_extension *extension);
    /* objects of its pools that are in use, for the audit */
    size_t (*live)(const struct ci_worker_extension *extension);
    const char *what; /* the name of these objects in the audit */
    /* fills in its pools and returns how many; on any thread */
    size_t (*pools)(const struct ci_worker_extension *extension, struct ci_named_pool *pools);
};

/* NULL: the worker has none with that key. */
struct ci_worker_extension *ci_worker_find_extension(struct ci_worker *worker, const void *key);

/* Only on the worker's thread. */
void ci_worker_add_extension(struct ci_worker *worker, struct ci_worker_extension *extension);

/* Of a runtime: freed after every task and before the workers. */
struct ci_runtime_extension {
    struct ci_runtime_extension *next;
    const void *key;
    void (*free)(struct ci_runtime_extension *extension);
    /* whether a task waits for a thread of the extension */
    bool (*is_awaited)(struct ci_runtime_extension *extension);
};

/* From any worker. If the runtime has an extension with that key, add changes nothing and returns
 * that one. */
struct ci_runtime_extension *ci_runtime_find_extension(coir_runtime *runtime, const void *key);
struct ci_runtime_extension *ci_runtime_add_extension(coir_runtime *runtime,
                                                      struct ci_runtime_extension *extension);
bool ci_runtime_extensions_awaited(coir_runtime *runtime);

/* When the runtime is freed. */
void ci_runtime_free_extensions(coir_runtime *runtime);

#endif
