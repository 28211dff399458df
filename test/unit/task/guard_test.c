/* More fibers than there are mappings for guards, as on kernels without MADV_GUARD_INSTALL: they
 * start, and so does everything else. */
#include <coir.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "harness.h"
#include "sys/stack.h"

static int fibers_each = CI_ASAN || CI_TSAN ? 1000 : 20000;

static int count_mappings(void)
{
    int count = 0, letter;
    FILE *file = fopen("/proc/self/maps", "re");
    while ((letter = fgetc(file)) != EOF)
        count += letter == '\n';
    fclose(file);
    return count;
}

static void *return_arg(void *arg)
{
    return arg;
}

/* What a program does beside its fibers: a thread, a mapping of each kind, much memory. */
static void use_mappings(void)
{
    enum { MAPPINGS = 2000, PAGE = 4096 };
    pthread_t thread;
    void *result = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, return_arg, &result), 0);
    pthread_join(thread, &result);
    CHECK(result == &result);
    char *pages = mmap(NULL, MAPPINGS * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    for (int i = 0; i < MAPPINGS; i += 2)
        CHECK_EQ(mprotect(pages + i * PAGE, PAGE, PROT_NONE), 0);
    munmap(pages, MAPPINGS * PAGE);
    char *memory = malloc(64 << 20);
    CHECK(memory);
    free(memory);
}

static coir_event all_started = COIR_EVENT_INIT;
static int started;

static int start_and_wait(void *arg)
{
    (void)arg;
    __atomic_fetch_add(&started, 1, __ATOMIC_RELAXED);
    return coir_event_wait(&all_started);
}

static int start_many(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    for (int i = 0; i < fibers_each; i++)
        CHECK_EQ(coir_go(scope, start_and_wait, NULL), 0);
    return coir_scope_wait(scope);
}

static void start_on_all(void)
{
    COIR_SCOPE(scope);
    int workers = (int)coir_worker_count(coir_runtime_current());
    for (int i = 0; i < workers; i++)
        CHECK_EQ(coir_go_on(scope, i, start_many, NULL), 0);
    while (__atomic_load_n(&started, __ATOMIC_RELAXED) < workers * fibers_each)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    use_mappings();
    CHECK(ci_stack_guards_used() > 0);
    CHECK(CI_ASAN || CI_TSAN || count_mappings() < 40000);
    coir_event_set(&all_started);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST(more_fibers_start_than_there_are_guards)
{
    const char *most = getenv("FIBERS"); /* FIBERS=50000: 100,000 on two workers */
    if (most)
        fibers_each = atoi(most);
    ci_stack_guards_limit(CI_GUARD_MPROTECT, 0);
    for (int i = 0; i < 2; i++) { /* what the first runtime took is there for the second */
        started = 0;
        coir_event_reset(&all_started);
        test_in_runtime(start_on_all, 2);
        CHECK_EQ(ci_stack_guards_used(), 0);
    }
}
