/* The buffer of a dump, its escapes, and the names of addresses. */
#include "task/dump_out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sanitizer.h"
#include "harness.h"

static struct ci_snapshot snapshot;
static struct ci_dump_out out;
int dump_out_test_variable[3];

static void begin(coir_fd fd)
{
    memset(&out, 0, sizeof out);
    out.snapshot = &snapshot;
    out.fd = fd;
    CHECK_EQ(ci_dump_out_init(&out), 0);
}

TEST(without_memory_it_ends)
{
    if (ci_sanitizer)
        return; /* they end the program */
    snapshot.lines.count = (size_t)1 << 50;
    memset(&out, 0, sizeof out);
    out.snapshot = &snapshot;
    CHECK_EQ(ci_dump_out_init(&out), -ENOMEM);
    ci_dump_out_done(&out);
}

TEST(text_is_escaped_and_written_whole)
{
    enum { TIMES = 20000 };
    static char got[TIMES * 64];
    FILE *file = tmpfile();
    CHECK(file != NULL);
    begin(fileno(file));
    for (int i = 0; i < TIMES; i++) {
        ci_put(&out, "%d ", i % 10);
        ci_put_plain(&out, "a\nb\xc3\xb6\xc2\x9b\x9b");
        ci_put_string(&out, "\"\n\xc3\xb6\xc2\x9b\xed\xa0");
    }
    ci_dump_out_flush(&out);
    CHECK_EQ(out.error, 0);
    ci_dump_out_done(&out);
    rewind(file);
    size_t len = fread(got, 1, sizeof got, file), at = 0;
    char piece[64];
    for (int i = 0; i < TIMES; i++) {
        int n = snprintf(piece, sizeof piece,
                         "%d a?b\xc3\xb6??\"\\u0022\\u000a\xc3\xb6\\u009b\\ufffd\\ufffd\"", i % 10);
        CHECK(at + (size_t)n <= len && memcmp(got + at, piece, (size_t)n) == 0);
        at += (size_t)n;
    }
    CHECK_EQ(at, len);
    fclose(file);
}

TEST(a_line_with_the_longest_symbol_is_whole)
{
    begin(-1);
    ci_put(&out, "%0*d at file.c:1\n", CI_DUMP_SYMBOL, 7);
    CHECK(out.len == CI_DUMP_SYMBOL + sizeof " at file.c:1\n" - 1);
    CHECK(out.buffer[out.len - 1] == '\n');
    ci_dump_out_done(&out);
}

TEST(an_error_of_the_descriptor_is_kept)
{
    begin(-1);
    ci_put(&out, "text");
    ci_dump_out_flush(&out);
    CHECK_EQ(out.error, -EBADF);
    ci_dump_out_done(&out);
}

TEST(addresses_have_names)
{
    begin(-1);
    const void *function = (const void *)(uintptr_t)&begin;
    const char *symbol = ci_symbol_of(&out, function, true);
    CHECK(symbol == ci_symbol_of(&out, function, true));
    CHECK(*symbol && symbol[strlen(symbol) - 1] == '\n');
    if (ci_has_symbols) {
        CHECK(strncmp(symbol, "begin at ", 9) == 0);
        CHECK(strcmp(ci_variable_at(&out, &dump_out_test_variable[2]), "dump_out_test_variable") ==
              0);
    }
    CHECK(!*ci_variable_at(&out, &symbol)); /* lies on the stack */
    CHECK_EQ(strspn(ci_program_id(&out), "0123456789abcdef"), strlen(ci_program_id(&out)));
    ci_dump_out_done(&out);
}
