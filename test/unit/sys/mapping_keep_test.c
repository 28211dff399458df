/* Mappings that are kept for their next user: those of stacks are as new. */
#include "sys/mapping_keep.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "sys/stack.h"

enum { SIZE = 64 * 1024, RECORD = 300, USED = 40 };

static struct ci_mapping_keep keep;

static void begin(struct ci_stacks *stacks, size_t size)
{
    ci_stacks_init(stacks, &ci_system_allocator, size, RECORD);
    CHECK(stacks->guard == ci_stack_guard_best());
}

static char *frames_of(const struct ci_stacks *stacks, void *record)
{
    return (char *)ci_stack_bottom(stacks, record) + CI_STACK_GUARD;
}

/* Takes stacks, writes to all of them, ends; the first one's record. */
static void *use(size_t size, int count)
{
    struct ci_stacks stacks;
    begin(&stacks, size);
    void *first = NULL;
    for (int i = 0; i < count; i++) {
        void *record = ci_stacks_take(&stacks);
        CHECK(record);
        first = first ? first : record;
        char *frames = frames_of(&stacks, record);
        memset(frames, 0xa5, (size_t)((char *)record - frames) + RECORD);
    }
    ci_stacks_done(&stacks);
    return first;
}

static void end(void)
{
    ci_mapping_keep(NULL);
    while (keep.count > 0) {
        struct ci_kept_mapping *last = &keep.mappings[--keep.count];
        munmap(last->start, last->size);
    }
}

static bool kills(volatile char *address)
{
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *address = 1;
        _exit(0);
    }
    int status;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

TEST(a_kept_mapping_is_as_new)
{
    if (ci_stack_guard_best() != CI_GUARD_MARKERS)
        return; /* nothing is kept */
    ci_mapping_keep(&keep);
    void *first = use(SIZE, USED);
    CHECK_EQ(keep.count, 1);
    struct ci_stacks stacks;
    begin(&stacks, SIZE);
    for (int i = 0; i < USED + 10; i++) {
        char *record = ci_stacks_take(&stacks), *frames = frames_of(&stacks, record);
        CHECK(i > 0 || record == first);
        for (char *at = frames; at < record + RECORD; at++)
            CHECK(*at == 0);
        CHECK(kills(frames - 1));
    }
    CHECK_EQ(keep.count, 0);
    ci_stacks_done(&stacks);
    end();
}

TEST(guards_that_are_made_are_known_after_a_shorter_use)
{
    if (ci_stack_guard_best() != CI_GUARD_MARKERS)
        return;
    ci_mapping_keep(&keep);
    use(SIZE, USED);
    use(SIZE, 3);
    CHECK_EQ(keep.count, 1);
    CHECK_EQ(keep.mappings[0].guarded, USED * SIZE);
    end();
}

TEST(only_mappings_of_the_same_sizes_are_taken)
{
    if (ci_stack_guard_best() != CI_GUARD_MARKERS)
        return;
    ci_mapping_keep(&keep);
    use(SIZE, 1);
    use(2 * SIZE, 1);
    CHECK_EQ(keep.count, 2);
    use(2 * SIZE, 1);
    use(SIZE, 1);
    CHECK_EQ(keep.count, 2);
    ci_mapping_keep(NULL);
    use(SIZE, 1);
    CHECK_EQ(keep.count, 2);
    end();
}

TEST(the_oldest_goes_where_too_many_are_kept)
{
    if (ci_stack_guard_best() != CI_GUARD_MARKERS)
        return;
    static struct ci_stacks users[CI_MAPPINGS_KEPT + 2];
    ci_mapping_keep(&keep);
    for (size_t i = 0; i < ci_countof(users); i++) {
        begin(&users[i], SIZE);
        CHECK(ci_stacks_take(&users[i]));
    }
    for (size_t i = 0; i < ci_countof(users); i++)
        ci_stacks_done(&users[i]);
    CHECK_EQ(keep.count, CI_MAPPINGS_KEPT);
    end();
}
