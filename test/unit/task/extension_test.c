/* What upper layers keep per worker. */
#include "task/extension.h"

#include <coir.h>

#include "harness.h"
#include "task/runtime.h"

static int freed;

static void free_it(struct ci_worker_extension *extension, const coir_allocator *allocator)
{
    CHECK(extension && allocator);
    freed++;
}

TEST(they_are_found_by_key_and_freed_with_the_worker)
{
    static const char one, other;
    struct ci_worker_extension first = {.key = &one, .free = free_it},
                               second = {.key = &other, .free = free_it};
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    struct ci_worker *worker = &runtime->workers[0];
    CHECK(!ci_worker_find_extension(worker, &one));
    ci_worker_add_extension(worker, &first);
    ci_worker_add_extension(worker, &second);
    CHECK(ci_worker_find_extension(worker, &one) == &first);
    CHECK(ci_worker_find_extension(worker, &other) == &second);
    CHECK(!ci_worker_find_extension(&runtime->workers[1], &one));
    coir_runtime_free(runtime);
    CHECK_EQ(freed, 2);
}
