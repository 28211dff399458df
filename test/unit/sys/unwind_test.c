/* The frames of a stack that was left: every kind of frame that compilers make, and stacks that
 * hold nonsense. */
#include "sys/unwind.h"

#include <alloca.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "harness.h"
#include "sys/stack.h"

enum { SIZE = 256 * 1024, RECORD = 300, MOST = 64 };

static struct ci_stacks stacks;
static struct ci_stack_view here_view, there_view;
static struct ci_context here = {.view = &here_view}, there = {.view = &there_view};
static struct ci_frame_tables tables;
static char *record;

/* Where the calls return to, outermost first. */
static void *returns[MOST];
static int return_count;
static void *frames[MOST];
static volatile int sink;

#define FRAME __attribute__((noinline)) static int
#define NOTE() (returns[return_count++] = __builtin_return_address(0))

/* So that no call is the last thing that a function does. */
static int after(int result)
{
    sink++;
    return result;
}

FRAME park(void)
{
    NOTE();
    ci_context_switch(&there, &here);
    sink++;
    return 1;
}

FRAME small(int a)
{
    NOTE();
    return after(park()) + a;
}

FRAME large(int a)
{
    volatile char bytes[9000];
    NOTE();
    bytes[a] = (char)a;
    return after(small(a)) + bytes[a];
}

/* Its frame has no fixed size. */
FRAME variable(int a)
{
    NOTE();
    volatile char *bytes = alloca((size_t)a * 100);
    bytes[a] = 1;
    return after(large(a)) + bytes[a];
}

/* Its frame is aligned more than calls are. */
FRAME aligned(int a)
{
    _Alignas(256) volatile char bytes[256];
    NOTE();
    bytes[a] = 2;
    return after(variable(a)) + bytes[a];
}

/* Keeps much over the call. */
FRAME many(int a)
{
    int b = sink + 1, c = b * sink, d = c ^ sink, e = d + sink, f = e * 3 + sink, g = f ^ sink;
    NOTE();
    return after(aligned(a)) + a + b + c + d + e + f + g;
}

FRAME recursive(int a)
{
    NOTE();
    return after(a > 5 ? many(a) : recursive(a + 1)) + a;
}

static void outermost(void)
{
    ci_context_entered();
    sink += recursive(1);
    for (;;)
        ci_context_switch(&there, &here);
}

static void leave_a_stack(void)
{
    ci_stacks_init(&stacks, &ci_system_allocator, SIZE, RECORD);
    record = ci_stacks_take(&stacks);
    ci_stack_view_adopt_thread(&here_view);
    ci_stack_view_init(&there_view, ci_stack_bottom(&stacks, record), record);
    ci_context_init(&there, outermost, record);
    ci_frame_tables_list(&tables);
    CHECK(tables.count > 0);
}

static int walk(void)
{
    return ci_unwind(&tables, &there, ci_stack_bottom(&stacks, record), record, frames, MOST);
}

/* The calls that were noted are the frames, but for those of the switch at one end and of the entry
 * at the other. */
static void check_frames(int count)
{
    int first = 0;
    while (first < count && frames[first] != returns[return_count - 1])
        first++;
    CHECK(first < count && first <= 3);
    for (int i = 0; i < return_count; i++)
        CHECK(frames[first + i] == returns[return_count - 1 - i]);
    CHECK_EQ(count, first + return_count + 1);
    CHECK((char *)frames[count - 1] - (char *)(uintptr_t)ci_context_entry < 64);
}

TEST(every_kind_of_frame_is_walked_to_the_entry)
{
    leave_a_stack();
    CHECK_EQ(walk(), 1); /* it has not begun */
    ci_context_switch(&here, &there);
    CHECK_EQ(return_count, 12);
    check_frames(walk());
    ci_context_switch(&here, &there); /* nothing was changed */
    CHECK(sink > 0);
    ci_stack_view_done(&there_view);
}

TEST(no_more_frames_are_written_than_fit)
{
    leave_a_stack();
    ci_context_switch(&here, &there);
    int all = walk();
    for (int most = 1; most <= all; most++) {
        void *some[MOST] = {0};
        CHECK_EQ(ci_unwind(&tables, &there, ci_stack_bottom(&stacks, record), record, some, most),
                 most);
        CHECK(memcmp(some, frames, (size_t)most * sizeof *some) == 0);
        CHECK(!some[most]);
    }
    ci_stack_view_done(&there_view);
}

/* Not for a thread of its own stack that goes on: what is below the frame is overwritten. */
TEST(the_own_stack_is_walked_from_here)
{
    struct ci_context own;
    ci_frame_tables_list(&tables);
    ci_unwind_here(&own);
    char *sp = own.sp;
    int count = ci_unwind(&tables, &own, sp, sp + 4096, frames, MOST);
    CHECK(count > 1);
    CHECK(frames[1] == __builtin_return_address(0));
}

/* Where a frame pointer points: so many words above what it saves. */
#if defined(__riscv)
enum { ABOVE = 2 };
#else
enum { ABOVE = 0 };
#endif

/* Code that no table knows. */
TEST(frame_pointers_stand_for_tables)
{
    static const uint8_t header[4]; /* of a table that cannot be read */
    uintptr_t stack[16] = {0};
    stack[4] = (uintptr_t)&stack[8 + ABOVE];
    stack[5] = 32;
    stack[8] = (uintptr_t)stack + 800; /* not on this stack */
    stack[9] = 48;
    struct ci_context left = {.sp = &stack[2], .fp = &stack[4 + ABOVE], .pc = (void *)16};
    tables.count = 1;
    tables.modules[0] = (struct ci_frame_module){1, 49, header};
    CHECK_EQ(ci_unwind(&tables, &left, stack, stack + 16, frames, MOST), 3);
    CHECK(frames[0] == (void *)16 && frames[1] == (void *)32 && frames[2] == (void *)48);
    stack[8] = (uintptr_t)&stack[4 + ABOVE]; /* a circle */
    CHECK_EQ(ci_unwind(&tables, &left, stack, stack + 16, frames, MOST), 3);
    stack[4] = (uintptr_t)&stack[8 + ABOVE] + 1; /* not aligned */
    CHECK_EQ(ci_unwind(&tables, &left, stack, stack + 16, frames, MOST), 2);
    left.sp = (char *)left.sp - sizeof stack;
    CHECK_EQ(ci_unwind(&tables, &left, stack, stack + 16, frames, MOST), 0);
}

TEST(what_is_no_frame_pointer_leads_nowhere)
{
    uintptr_t stack[16] = {0};
    stack[4] = (uintptr_t)&stack[8 + ABOVE];
    stack[5] = 32;
    stack[8] = 0;
    stack[9] = 48;
    struct ci_context left = {.sp = &stack[2], .fp = &stack[4 + ABOVE], .pc = (void *)16};
    tables.count = 1;
    tables.modules[0] = (struct ci_frame_module){1, 49, NULL};
    CHECK_EQ(ci_unwind(&tables, &left, stack, stack + 16, frames, MOST), 3);
    stack[9] = 49; /* no code: there is no chain */
    CHECK_EQ(ci_unwind(&tables, &left, stack, stack + 16, frames, MOST), 1);
    stack[9] = 48;
    stack[8] = 8; /* it leads to no begin */
    CHECK_EQ(ci_unwind(&tables, &left, stack, stack + 16, frames, MOST), 1);
    stack[8] = (uintptr_t)&stack[4 + ABOVE]; /* a circle */
    CHECK_EQ(ci_unwind(&tables, &left, stack, stack + 16, frames, MOST), 1);
    static const uint8_t header[4];
    tables.modules[0].header = header; /* other functions have tables */
    stack[5] = 100;
    CHECK_EQ(ci_unwind(&tables, &left, stack, stack + 16, frames, MOST), 1);
}

static CI_UNINSTRUMENTED void damage(struct ci_random *random)
{
    uintptr_t *low = there.sp, *high = (uintptr_t *)(void *)((uintptr_t)record & ~(uintptr_t)15);
    volatile uintptr_t *word = low + ci_random_below(random, (uint64_t)(high - low));
    switch (ci_random_below(random, 4)) {
    case 0: *word = ci_random_next(random); break;
    case 1: *word = (uintptr_t)(low + ci_random_below(random, (uint64_t)(high - low))); break;
    case 2: *word = (uintptr_t)returns[ci_random_below(random, (uint64_t)return_count)]; break;
    default: *word = 0;
    }
}

TEST(a_stack_of_nonsense_does_no_harm)
{
    struct ci_random random = {42};
    leave_a_stack();
    ci_context_switch(&here, &there);
    int whole = walk(), least = whole;
    for (int i = 0; i < 3000; i++) {
        damage(&random);
        int count = walk();
        CHECK(count >= 1 && count <= MOST);
        least = count < least ? count : least;
    }
    CHECK(least < whole);
    ci_stack_view_done(&there_view);
}
