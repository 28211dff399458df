/* What compilers say about their frames, as it is read back. */
#include "sys/frame_table.h"

#include <string.h>

#include "harness.h"

static struct ci_frame_tables tables;

static __attribute__((noinline)) int a_function(int value)
{
    return value + 1;
}

static const struct ci_frame_value *at_entry(void *function, struct ci_frame_row *row)
{
    CHECK(ci_frame_row_at(&tables, (uintptr_t)function, row));
    CHECK(row->return_register < CI_REGISTERS);
    return &row->registers[row->return_register];
}

TEST(at_its_entry_a_function_has_changed_nothing)
{
    struct ci_frame_row row;
    ci_frame_tables_list(&tables);
    CHECK(a_function(1) == 2);
    const struct ci_frame_value *back = at_entry((void *)(uintptr_t)a_function, &row);
    CHECK_EQ(row.cfa.rule, CI_FRAME_IS);
    CHECK_EQ(row.cfa_register, CI_REGISTER_SP);
    CHECK_EQ(row.registers[CI_REGISTER_FP].rule, CI_FRAME_SAME);
    CHECK(!row.is_signal && !row.is_signed);
#if defined(__x86_64__)
    CHECK_EQ(row.cfa.offset, 8);
    CHECK_EQ(back->rule, CI_FRAME_AT);
    CHECK_EQ(back->offset, -8);
#else
    CHECK_EQ(row.cfa.offset, 0);
    CHECK_EQ(back->rule, CI_FRAME_SAME);
#endif
}

TEST(functions_of_libraries_have_tables)
{
    struct ci_frame_row row;
    ci_frame_tables_list(&tables);
    at_entry((void *)(uintptr_t)strcmp, &row);
    CHECK_EQ(row.cfa_register, CI_REGISTER_SP);
}

TEST(what_is_no_code_has_no_row)
{
    struct ci_frame_row row;
    ci_frame_tables_list(&tables);
    CHECK(!ci_frame_row_at(&tables, 16, &row));
    CHECK(!ci_frame_row_at(&tables, (uintptr_t)&tables, &row));
    CHECK(!ci_frame_row_at(&tables, UINTPTR_MAX, &row));
}

TEST(rows_that_are_kept_are_those_that_were_read)
{
    static struct ci_frame_rows rows;
    struct ci_frame_row read, kept;
    uintptr_t begin = (uintptr_t)strcmp; /* more instructions than there is room for */
    ci_frame_tables_list(&tables);
    for (int round = 0; round < 3; round++)
        for (uintptr_t pc = begin; pc < begin + 4096; pc++) {
            tables.rows = NULL;
            bool found = ci_frame_row_at(&tables, pc, &read);
            tables.rows = &rows;
            CHECK(ci_frame_row_at(&tables, pc, &kept) == found);
            CHECK(ci_frame_row_at(&tables, pc, &kept) == found);
            CHECK(!found || (kept.cfa.rule == read.cfa.rule && kept.cfa.offset == read.cfa.offset &&
                             kept.cfa_register == read.cfa_register));
        }
    CHECK(!ci_frame_row_at(&tables, 0, &kept));
}

TEST(numbers_are_read_as_they_are_written)
{
    static const uint8_t bytes[] = {0x02, 0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f, 0x3f, 0x40};
    const uint8_t *at = bytes;
    CHECK_EQ(ci_frame_unsigned(&at), 2);
    CHECK_EQ(ci_frame_unsigned(&at), 624485);
    CHECK_EQ(ci_frame_signed(&at), -1);
    CHECK_EQ(ci_frame_signed(&at), -128);
    CHECK_EQ(ci_frame_signed(&at), 63);
    CHECK_EQ(ci_frame_signed(&at), -64);
    CHECK(at == bytes + sizeof bytes);
    static const uint8_t most[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    at = most;
    CHECK(ci_frame_unsigned(&at) == UINT64_MAX);
}
