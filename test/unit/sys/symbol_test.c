/* Names for addresses of code: functions, what has none, and a text that is cut. */
#include "sys/symbol.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness.h"

static char text[4096];

enum { LINE = __LINE__ };

static __attribute__((noinline)) int a_function_of_this_test(int value)
{
    return value + 1;
}

static void write_frames(void *first, void *second, size_t size)
{
    static struct ci_traced traced;
    traced.exact = true;
    traced.count = 2;
    traced.frames[0] = first;
    traced.frames[1] = second;
    memset(text, 'x', sizeof text);
    CHECK_EQ(ci_symbol_write(&traced, text, size), strlen(text));
}

/* Without libbacktrace: what the line says is given to addr2line. */
static void check_addr2line(const char *name)
{
    char file[1024], command[1200], answer[256] = "";
    unsigned long address;
    CHECK_EQ(sscanf(text, "    #0 %*s (%1023[^+]+%lx)", file, &address), 2);
    snprintf(command, sizeof command, "addr2line -f -e '%s' %#lx", file, address);
    FILE *pipe = popen(command, "r");
    CHECK(pipe && fgets(answer, sizeof answer, pipe));
    pclose(pipe);
    CHECK(strncmp(answer, name, strlen(name)) == 0);
}

TEST(an_address_has_the_name_of_its_function)
{
    void *address = (void *)(uintptr_t)a_function_of_this_test;
    CHECK_EQ(a_function_of_this_test(1), 2);
    write_frames(address, (char *)address + 1, sizeof text);
    CHECK(strncmp(text, "    #0 ", 7) == 0);
    if (!ci_has_symbols) {
        check_addr2line("a_function_of_this_test");
        return;
    }
    CHECK(strncmp(text, "    #0 a_function_of_this_test at ", 34) == 0);
    int line = 0;
    CHECK_EQ(sscanf(strstr(text, "symbol_test.c:"), "symbol_test.c:%d", &line), 1);
    CHECK(line > LINE && line < LINE + 6);
    CHECK(strstr(text, "\n    #1 a_function_of_this_test at ")); /* where a call returns to */
}

/* Names that need the program's file. */
TEST(a_want_of_descriptors_costs_names_only_while_it_lasts)
{
    static const char name[] = "    #0 a_function_of_this_test at ";
    void *address = (void *)(uintptr_t)a_function_of_this_test;
    struct rlimit all, few;
    int files[2];
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    CHECK_EQ(pipe(files), 0);
    few = (struct rlimit){(rlim_t)files[1] + 1, all.rlim_max};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        write_frames(address, (char *)address + 1, sizeof text);
        CHECK(!strstr(text, name));
        CHECK(strncmp(text, "    #0 ", 7) == 0);
    }
    few.rlim_cur += 1; /* not enough yet */
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = 0; i < 30; i++)
        write_frames(address, (char *)address + 1, sizeof text);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
    write_frames(address, (char *)address + 1, sizeof text);
    CHECK(!ci_has_symbols || strncmp(text, name, strlen(name)) == 0);
}

TEST(an_address_of_nothing_is_written_as_it_is)
{
    write_frames((void *)16, (void *)33, sizeof text);
    CHECK(strcmp(text, "    #0 0x10\n    #1 0x20\n") == 0);
}

TEST(a_text_is_cut_after_a_line)
{
    for (size_t size = 1; size <= 25; size++) {
        write_frames((void *)16, (void *)33, size);
        CHECK(strcmp(text, size > 24   ? "    #0 0x10\n    #1 0x20\n"
                           : size > 12 ? "    #0 0x10\n"
                                       : "") == 0);
    }
}
