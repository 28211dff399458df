/* Lines of server-sent events. */
#include "proto/sse.h"

#include <string.h>

#include "harness.h"

TEST(one_line)
{
    CHECK(ci_sse_is_line("") && ci_sse_is_line("a b:c") && !ci_sse_is_line("a\n"));
    CHECK(!ci_sse_is_line("\r") && !ci_sse_is_line("a\rb"));
}

static int split(const char *text, size_t *lengths)
{
    int count = 0;
    while (text) {
        const char *next;
        lengths[count++] = ci_sse_line(text, &next);
        text = next;
    }
    return count;
}

TEST(lines_end_with_each_of_three)
{
    size_t lengths[10];
    CHECK(split("", lengths) == 1 && lengths[0] == 0);
    CHECK(split("ab", lengths) == 1 && lengths[0] == 2);
    CHECK(split("ab\nc", lengths) == 2 && lengths[0] == 2 && lengths[1] == 1);
    CHECK(split("ab\rc\r\n", lengths) == 3 && lengths[1] == 1 && lengths[2] == 0);
    CHECK(split("\r\n\n\r", lengths) == 4 && lengths[0] == 0 && lengths[3] == 0);
}
