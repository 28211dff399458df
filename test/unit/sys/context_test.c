/* The context switch keeps what the compiler keeps in registers and on the stack. */
#include "sys/context.h"

#include "harness.h"
#include "sys/stack.h"

enum { SIZE = 64 * 1024, RECORD = 300 };

static struct ci_stacks stacks;

static struct ci_stack_view here_view, there_view;
static struct ci_context here = {.view = &here_view}, there = {.view = &there_view};
static int steps;

static void other_side(void)
{
    ci_context_entered();
    for (;;) {
        steps++;
        ci_context_switch(&there, &here);
    }
}

TEST(a_switch_keeps_what_is_live)
{
    ci_stacks_init(&stacks, &ci_system_allocator, SIZE, RECORD);
    char *record = ci_stacks_take(&stacks);
    volatile double scale = 1.5;
    double sum = 0;
    long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7;
    ci_stack_view_adopt_thread(&here_view);
    ci_stack_view_init(&there_view, ci_stack_bottom(&stacks, record), record);
    ci_context_init(&there, other_side, record);
    for (int i = 1; i <= 1000; i++) {
        sum += scale;
        ci_context_switch(&here, &there);
        CHECK_EQ(steps, i);
        a += b;
        b += c;
        c += d;
        d += e;
        e += f;
        f += g;
        g++;
    }
    CHECK(sum == 1500.0);
    CHECK(a > b && b > c && c > d && d > e && e > f && g == 1007);
    ci_stack_view_done(&there_view);
}
