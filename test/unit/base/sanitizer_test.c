/* Which sanitizer the program was built with, and what it is told of stacks. */
#include "base/sanitizer.h"

#include "harness.h"

TEST(the_programs_sanitizer_is_found_before_main)
{
    CHECK_EQ(ci_sanitizer, CI_ASAN   ? CI_ADDRESS_SANITIZER
                           : CI_TSAN ? CI_THREAD_SANITIZER
                                     : CI_NO_SANITIZER);
}

TEST(a_view_is_of_the_stack_it_is_made_for)
{
    static char stack[4096];
    struct ci_stack_view own, other;
    ci_stack_view_adopt_thread(&own);
    ci_stack_view_init(&other, stack, stack + sizeof stack);
    CHECK(other.bottom == stack && other.size == sizeof stack);
    if (CI_ASAN) /* ASan's own fake stack holds locals, but not frames */
        CHECK((const char *)__builtin_frame_address(0) > (const char *)own.bottom &&
              (const char *)__builtin_frame_address(0) < (const char *)own.bottom + own.size);
    if (CI_TSAN)
        CHECK(own.tsan_fiber && other.tsan_fiber && own.tsan_fiber != other.tsan_fiber);
    ci_stack_view_done(&other);
}
