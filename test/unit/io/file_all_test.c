/* Calls on files until all bytes are read, written or copied. */
#include "work_directory.h"

static void use_the_position(void)
{
    char in[8] = "";
    coir_file_op first, second;
    coir_file *file = make("x");
    CHECK_EQ(coir_file_write_all(file, "abcdef", 6, COIR_POSITION), 0);
    CHECK_EQ(coir_file_position(file), 6);
    CHECK_EQ(coir_file_read(file, in, 8, COIR_POSITION), 0);
    CHECK_EQ(coir_file_seek(file, 2), 0);
    CHECK_EQ(coir_file_seek(file, -1), -EINVAL);
    CHECK_EQ(coir_file_read(file, in, 3, COIR_POSITION), 3);
    CHECK_EQ(coir_file_read(file, in + 3, 1, 0), 1); /* does not move it */
    CHECK_EQ(coir_file_read(file, in + 4, 3, COIR_POSITION), 1);
    CHECK(strcmp(in, "cdeaf") == 0);
    CHECK_EQ(coir_file_seek(file, 0), 0);
    coir_branch both[] = {COIR_BRANCH(coir_file_read_op(&first, file, in, 1, COIR_POSITION)),
                          COIR_BRANCH(coir_file_read_op(&second, file, in, 1, COIR_POSITION))};
    CHECK_EQ(coir_join_all(both, 2, 0), 0);
    CHECK_EQ(first.future.result, 1);
    CHECK_EQ(second.future.result, -EBUSY);
    CHECK_EQ(coir_file_position(file), 1);
    coir_file_close(file);
    CHECK_EQ(coir_dir_unlink(work, "x"), 0);
}

static void copy_a_file(void)
{
    coir_file *from = make("from"), *to = make("to");
    size_t done = 99;
    CHECK_EQ(coir_file_copy(to, 0, from, 0, COIR_UNLIMITED, &done), 0);
    CHECK_EQ(done, 0);
    CHECK_EQ(coir_file_write_all(from, "0123456789", 10, 0), 0);
    CHECK_EQ(coir_file_copy(to, 2, from, 1, 4, &done), 4);
    CHECK_EQ(coir_file_copy(to, 6, from, 8, COIR_UNLIMITED, &done), 2);
    CHECK_EQ(done, 2);
    CHECK_EQ(coir_file_copy(to, -1, from, 0, 1, &done), -EINVAL);
    CHECK_EQ(coir_file_write_all(to, "ab", 2, 0), 0);
    check_contents("to", "ab123489");
    coir_file_close(from);
    coir_file_close(to);
    CHECK_EQ(coir_dir_unlink(work, "from"), 0);
    CHECK_EQ(coir_dir_unlink(work, "to"), 0);
}

static void be_interrupted_before_it_begins(void)
{
    char byte;
    size_t read = 99, copied = 99;
    coir_file *file = make("x");
    {
        COIR_DEADLINE(coir_now());
        CHECK_EQ(coir_file_read_full(file, &byte, 1, 0, &read), -ETIME);
        CHECK_EQ(coir_file_copy(file, 0, file, 0, 1, &copied), -ETIME);
    }
    CHECK_EQ(read, 0);
    CHECK_EQ(copied, 0);
    coir_file_close(file);
    CHECK_EQ(coir_dir_unlink(work, "x"), 0);
}

static void read_and_copy(void)
{
    use_the_position();
    copy_a_file();
    be_interrupted_before_it_begins();
}

TEST(whole_reads_writes_and_copies_on_every_driver)
{
    in_a_directory_on_every_driver(read_and_copy);
}

TEST_SIM(whole_reads_writes_and_copies_simulated)
{
    in_a_simulated_directory(read_and_copy);
}
