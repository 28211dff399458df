/* Temporary files, and files that are replaced at once. */
#include "work_directory.h"

static void replace_a_file(void)
{
    CHECK_EQ(coir_dir_mkdir(work, "d", 0700), 0);
    CHECK_EQ(coir_file_replace(work, "d/x", "old", 3, 0600), 0);
    check_contents("d/x", "old");
    CHECK_EQ(coir_file_replace(work, "d/x", "newer", 5, 0600), 0);
    check_contents("d/x", "newer");
    CHECK_EQ(coir_file_replace(work, "d", "x", 1, 0600), -EISDIR);
    CHECK_EQ(coir_file_replace(work, "d/", "x", 1, 0600), -EISDIR);
    CHECK_EQ(coir_file_replace(work, "none/x", "x", 1, 0600), -ENOENT);
    CHECK_EQ(count_names(), 1); /* nothing is left of what failed */
    for (int i = 0; i < 50; i++) {
        COIR_DEADLINE(coir_in(i * 20 * COIR_US)); /* at any point of it */
        int rc = coir_file_replace(work, "x", "contents", 8, 0600);
        CHECK(rc == 0 || rc == -ETIME);
    }
    CHECK_EQ(coir_file_replace(work, "x", "", 0, 0600), 0);
    CHECK_EQ(count_names(), 2);
    CHECK_EQ(coir_dir_unlink(work, "x"), 0);
    CHECK_EQ(coir_dir_unlink(work, "d/x"), 0);
    CHECK_EQ(coir_dir_rmdir(work, "d"), 0);
    CHECK_EQ(count_names(), 0);
}

static void use_a_temporary_file(void)
{
    coir_file *file;
    char in[4] = "";
    CHECK_EQ(coir_file_open_temporary(work, 0600, &file), 0);
    CHECK_EQ(count_names(), 0);
    CHECK_EQ(coir_file_write_all(file, "abc", 3, 0), 0);
    CHECK_EQ(coir_file_read_full(file, in, 3, 0, NULL), 3);
    CHECK(strcmp(in, "abc") == 0);
    coir_file_close(file);
}

static void replace_and_open(void)
{
    replace_a_file();
    use_a_temporary_file();
}

TEST(files_are_replaced_on_every_driver)
{
    in_a_directory_on_every_driver(replace_and_open);
}

TEST_SIM(files_are_replaced_simulated)
{
    in_a_simulated_directory(replace_and_open);
}
