/* Guards of stacks: each kind of them stops an overflow, and the budget of mappings. */
#include "sys/stack_guard.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "sys/stack.h"

enum { SIZE = 64 * 1024, RECORD = 300 };

static struct ci_stacks stacks;

static int signal_of(void (*fn)(char *bottom), char *bottom)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        close(STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL);
        fn(bottom);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void write_low(char *bottom)
{
    *(volatile char *)(bottom + CI_STACK_GUARD - 1) = 1;
}

static void write_above(char *bottom)
{
    *(volatile char *)(bottom + CI_STACK_GUARD) = 1;
}

static void check_guard(enum ci_stack_guard guard)
{
    ci_stack_guards_limit(guard, 0);
    ci_stacks_init(&stacks, &ci_system_allocator, SIZE, RECORD);
    if (stacks.guard != guard)
        return; /* not on this kernel */
    for (int i = 0; i < 100; i++) {
        char *record = ci_stacks_take(&stacks), *bottom = ci_stack_bottom(&stacks, record);
        CHECK(record && bottom < record && record + RECORD <= bottom + SIZE);
        CHECK(((uintptr_t)record & 15) == 0);
        memset(record, 1, RECORD);
        CHECK(ci_stack_in_guard(&stacks, record, bottom + 5) &&
              !ci_stack_in_guard(&stacks, record, record));
        if (i % 25 == 0) {
            CHECK_EQ(signal_of(write_low, bottom), SIGSEGV);
            CHECK_EQ(signal_of(write_above, bottom), 0);
        }
    }
    ci_stacks_done(&stacks);
}

TEST(guards_by_markers)
{
    if (!CI_ASAN && !CI_TSAN)
        check_guard(CI_GUARD_MARKERS);
}

TEST(guards_by_mprotect)
{
    if (!CI_ASAN && !CI_TSAN)
        check_guard(CI_GUARD_MPROTECT);
}

static void spoil_and_give(char *record)
{
    memset(ci_stack_bottom(&stacks, record), 1, 300);
    ci_stacks_give(&stacks, record);
}

/* The last resort sees an overflow when the stack comes back; stacks that have a real guard are
 * left alone. */
TEST(guards_by_a_pattern)
{
    enum { FIRST_MAPPING = 64 };
    static char *guarded[FIRST_MAPPING];
    ci_stack_guards_limit(CI_GUARD_MPROTECT, 2 * FIRST_MAPPING);
    ci_stacks_init(&stacks, &ci_system_allocator, SIZE, RECORD);
    for (int i = 0; i < FIRST_MAPPING; i++)
        CHECK((guarded[i] = ci_stacks_take(&stacks)));
    CHECK_EQ(ci_stack_guards_used(), 2 * FIRST_MAPPING);
    char *good = ci_stacks_take(&stacks), *bad = ci_stacks_take(&stacks);
    CHECK_EQ(ci_stack_guards_used(), 2 * FIRST_MAPPING); /* and not one more */
    CHECK_EQ(stacks.mapping_count, 2);                   /* none was begun in vain */
    if (!CI_ASAN && !CI_TSAN) {
        CHECK_EQ(signal_of(write_low, ci_stack_bottom(&stacks, guarded[FIRST_MAPPING - 1])),
                 SIGSEGV);
        CHECK_EQ(signal_of(write_low, ci_stack_bottom(&stacks, good)), 0);
        CHECK_EQ(signal_of(spoil_and_give, bad), SIGABRT);
    }
    for (int i = 0; i < FIRST_MAPPING; i++)
        ci_stacks_give(&stacks, guarded[i]);
    ci_stacks_give(&stacks, good);
    ci_stacks_give(&stacks, bad);
    ci_stacks_done(&stacks);
    CHECK_EQ(ci_stack_guards_used(), 0);
}

/* One budget for all, given back with each mapping, and used again. */
TEST(the_budget_of_guards_is_shared_and_given_back)
{
    enum { STACKS = 3000 };
    /* of the first, both want more than is left at the same time */
    static const size_t budgets[] = {600, 2000, 600};
    static struct ci_stacks two[2];
    static char *records[2][STACKS];
    for (int round = 0; round < 3; round++) {
        size_t budget = budgets[round];
        ci_stack_guards_limit(CI_GUARD_MPROTECT, budget);
        for (int who = 0; who < 2; who++)
            ci_stacks_init(&two[who], &ci_system_allocator, SIZE, RECORD);
        for (int i = 0; i < STACKS; i++)
            for (int who = 0; who < 2; who++)
                CHECK((records[who][i] = ci_stacks_take(&two[who])));
        size_t used = ci_stack_guards_used();
        CHECK(used <= budget && used > budget / 2);
        CHECK(two[0].patterned && two[1].patterned);
        for (int i = STACKS - 1; i >= 0; i--)
            ci_stacks_give(&two[0], records[0][i]);
        ci_stacks_trim(&two[0]); /* puts them aside */
        ci_stacks_trim(&two[0]);
        CHECK(ci_stack_guards_used() < used);
        ci_stacks_done(&two[1]);
        for (int i = 0; i < 2000;
             i++) /* new mappings of the first have real guards again, as far as the budget goes */
            CHECK(ci_stacks_take(&two[0]));
        CHECK(ci_stack_guards_used() > budget / 2);
        ci_stacks_done(&two[0]);
        CHECK_EQ(ci_stack_guards_used(), 0);
    }
}

/* The kernel refuses a mapping although the budget has some: the program has used its own share up,
 * and more. */
TEST(without_mappings_there_are_patterns)
{
    enum { MOST = 70000 };
    if (CI_ASAN || CI_TSAN)
        return; /* what they map themselves must not fail */
    long page = sysconf(_SC_PAGESIZE);
    ci_stack_guards_limit(CI_GUARD_MPROTECT, 0);
    ci_stacks_init(&stacks, &ci_system_allocator, SIZE, RECORD);
    CHECK(ci_stacks_take(&stacks));
    char *all = mmap(NULL, (size_t)MOST * 2 * (size_t)page, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(all != MAP_FAILED);
    long taken = 0;
    while (taken < MOST && mprotect(all + 2 * taken * page, (size_t)page, PROT_NONE) == 0)
        taken++;
    CHECK(taken < MOST);
    /* room for one more mapping, of stacks */
    CHECK_EQ(mprotect(all + 2 * (taken - 1) * page, (size_t)page, PROT_READ), 0);
    CHECK_EQ(mprotect(all + 2 * (taken - 2) * page, (size_t)page, PROT_READ), 0);
    char *record = NULL;
    for (int i = 0; i < 10; i++)
        CHECK((record = ci_stacks_take(&stacks)));
    CHECK(stacks.patterned == 1 && ci_stack_guards_used() < 20);
    ci_stacks_give(&stacks, record);
    munmap(all, (size_t)MOST * 2 * (size_t)page);
    ci_stacks_done(&stacks);
    CHECK_EQ(ci_stack_guards_used(), 0);
}
