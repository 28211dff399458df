/* Directories, names and whole files: on each driver, with and without native calls, and simulated.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "work_directory.h"

static void change_names(void)
{
    struct stat what;
    coir_file *dir, *file;
    CHECK_EQ(coir_dir_mkdir(work, "d", 0700), 0);
    CHECK_EQ(coir_dir_mkdir(work, "d", 0700), -EEXIST);
    CHECK_EQ(coir_file_open_at(work, "d", O_RDONLY | O_DIRECTORY, 0, &dir), 0);
    coir_file_close(make("d/x"));
    CHECK_EQ(coir_dir_stat(dir, "x", 0, &what), 0);
    CHECK(S_ISREG(what.st_mode) && what.st_size == 0 && what.st_nlink == 1);
    CHECK_EQ(coir_dir_stat(dir, "x", AT_EACCESS, &what), -EINVAL);
    CHECK_EQ(coir_dir_link(dir, "x", work, "y"), 0);
    CHECK_EQ(coir_dir_link(dir, "x", work, "y"), -EEXIST);
    CHECK_EQ(coir_dir_stat(work, "y", 0, &what), 0);
    CHECK_EQ(what.st_nlink, 2);
    CHECK_EQ(coir_dir_rename(work, "y", dir, "z"), 0);
    CHECK(exists("d/z") && !exists("y"));
    CHECK_EQ(coir_dir_rename(work, "y", dir, "z"), -ENOENT);
    CHECK_EQ(coir_dir_unlink(work, "d"), -EISDIR);
    CHECK_EQ(coir_dir_rmdir(work, "d"), -ENOTEMPTY);
    CHECK_EQ(coir_dir_rmdir(dir, "x"), -ENOTDIR);
    CHECK_EQ(coir_dir_unlink(dir, "x"), 0);
    CHECK_EQ(coir_dir_unlink(dir, "x"), -ENOENT);
    CHECK_EQ(coir_dir_unlink(dir, "z"), 0);
    CHECK_EQ(coir_file_sync(dir), 0);
    CHECK_EQ(coir_dir_rmdir(work, "d"), 0);
    CHECK_EQ(coir_file_open_at(dir, "new", O_RDWR | O_CREAT, 0600, &file),
             -ENOENT); /* it is gone */
    CHECK_EQ(coir_dir_mkdir(dir, "new", 0700), -ENOENT);
    coir_file_close(dir);
    coir_file_close(make("x"));
    CHECK_EQ(coir_file_open_at(work, "x/y", O_RDONLY, 0, &file), -ENOTDIR);
    CHECK_EQ(coir_dir_unlink(work, "x"), 0);
}

static void use_an_open_file(void)
{
    char in[8] = "", more[4] = "";
    struct iovec out_parts[] = {{(char[]){"abc"}, 3}, {(char[]){""}, 0}, {(char[]){"defg"}, 4}},
                 in_parts[] = {{in, 2}, {more, 3}};
    struct stat what;
    size_t done;
    coir_file *file = make("x"), *other;
    CHECK_EQ(coir_file_writev(file, out_parts, 3, 10), 7);
    CHECK_EQ(coir_file_readv(file, in_parts, 2, 11), 5);
    CHECK(strcmp(in, "bc") == 0 && memcmp(more, "def", 3) == 0);
    CHECK_EQ(coir_file_readv(file, NULL, 0, 0), 0);
    CHECK_EQ(coir_file_readv(file, in_parts, 1025, 0), -EINVAL);
    CHECK_EQ(coir_file_stat(file, &what), 0);
    CHECK_EQ(what.st_size, 17);
    CHECK(S_ISREG(what.st_mode) && (what.st_mode & 0777) == 0600);
    CHECK_EQ(coir_file_truncate(file, 12), 0);
    CHECK_EQ(coir_file_truncate(file, -1), -EINVAL);
    CHECK_EQ(coir_file_read_full(file, in, 8, 8, &done), -COIR_EEND);
    CHECK_EQ(done, 4);
    CHECK(memcmp(in, "\0\0ab", 4) == 0);
    int rc = coir_file_allocate(file, 10, 90);
    CHECK(rc == 0 || rc == -EOPNOTSUPP); /* not on every file system */
    CHECK_EQ(coir_file_truncate(file, 100), 0);
    CHECK_EQ(coir_file_stat(file, &what), 0);
    CHECK_EQ(what.st_size, 100);
    CHECK_EQ(coir_file_allocate(file, 0, 0), -EINVAL);
    CHECK_EQ(coir_file_sync_data(file), 0);
    CHECK_EQ(coir_file_open_at(work, "x", O_RDONLY, 0, &other), 0);
    CHECK(coir_file_truncate(other, 1) < 0);
    coir_file_close(other);
    CHECK_EQ(coir_file_open_at(work, "x", O_WRONLY | O_APPEND, 0, &other), 0);
    CHECK_EQ(coir_file_write(other, "end", 3, 0), 3);
    CHECK_EQ(coir_file_read_full(file, in, 3, 100, NULL), 3);
    CHECK(memcmp(in, "end", 3) == 0);
    coir_file_close(other);
    coir_file_close(file);
    CHECK_EQ(coir_dir_unlink(work, "x"), 0);
}

enum { MANY = 200 };

static void list_a_directory(void)
{
    coir_listing *listing;
    coir_dir_entry entry = COIR_DIR_ENTRY;
    bool seen[MANY] = {false}, seen_directory = false;
    char name[16];
    int number, count = 0, rc;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        coir_file_close(make(name));
    }
    CHECK_EQ(coir_dir_mkdir(work, "sub", 0700), 0);
    CHECK_EQ(coir_listing_open(work, "n1", &listing), -ENOTDIR);
    CHECK_EQ(coir_listing_open(work, "none", &listing), -ENOENT);
    CHECK_EQ(coir_listing_open(work, ".", &listing), 0);
    while ((rc = coir_listing_next(listing, &entry)) > 0) {
        count++;
        if (sscanf(entry.name, "n%d", &number) == 1) {
            CHECK(number < MANY && !seen[number] && (entry.type == S_IFREG || !entry.type));
            seen[number] = true;
        } else {
            CHECK(strcmp(entry.name, "sub") == 0 && (entry.type == S_IFDIR || !entry.type));
            seen_directory = true;
        }
    }
    CHECK_EQ(rc, 0);
    CHECK(count == MANY + 1 && seen_directory);
    CHECK_EQ(coir_listing_next(listing, &entry), 0); /* again */
    coir_listing_close(listing);
    CHECK_EQ(coir_listing_open(work, "sub", &listing), 0);
    CHECK_EQ(coir_listing_next(listing, &entry), 0);
    coir_listing_close(listing);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        CHECK_EQ(coir_dir_unlink(work, name), 0);
    }
    CHECK_EQ(coir_dir_rmdir(work, "sub"), 0);
}

/* Each as a future, which a frame awaits as a fiber does. */
static void await_futures(void)
{
    coir_file_op op;
    coir_stat_op stat_op;
    coir_listing_op listing_op;
    coir_listing *listing;
    coir_dir_entry entry = COIR_DIR_ENTRY;
    coir_file *file, *named;
    struct stat what;
    char in[4] = "";
    struct iovec out = {(char[]){"abc"}, 3}, into = {in, 3};
    CHECK_EQ(coir_await(coir_dir_mkdir_op(&op, work, "d", 0700)), 0);
    CHECK_EQ(coir_await(coir_file_open_at_op(&op, work, "d/x", O_RDWR | O_CREAT, 0600, &file)), 0);
    CHECK_EQ(coir_await(coir_file_open_op(&op, "/nowhere", O_RDONLY, 0, &named)), -ENOENT);
    CHECK_EQ(coir_await(coir_file_writev_op(&op, file, &out, 1, 0)), 3);
    CHECK_EQ(coir_await(coir_file_readv_op(&op, file, &into, 1, 0)), 3);
    CHECK(strcmp(in, "abc") == 0);
    CHECK_EQ(coir_await(coir_file_truncate_op(&op, file, 2)), 0);
    int rc = (int)coir_await(coir_file_allocate_op(&op, file, 0, 1));
    CHECK(rc == 0 || rc == -EOPNOTSUPP);
    CHECK_EQ(coir_await(coir_file_sync_data_op(&op, file)), 0);
    CHECK_EQ(coir_await(coir_file_stat_op(&stat_op, file, &what)), 0);
    CHECK_EQ(what.st_size, 2);
    CHECK_EQ(coir_await(coir_dir_stat_op(&stat_op, work, "d", 0, &what)), 0);
    CHECK(S_ISDIR(what.st_mode));
    CHECK_EQ(coir_await(coir_dir_link_op(&op, work, "d/x", work, "d/y")), 0);
    CHECK_EQ(coir_await(coir_dir_rename_op(&op, work, "d/y", work, "d/x")), 0);
    CHECK_EQ(coir_await(coir_dir_unlink_op(&op, work, "d/x")), 0);
    if (exists("d/y")) /* a rename between two names of one file does nothing */
        CHECK_EQ(coir_dir_unlink(work, "d/y"), 0);
    coir_file_close(file);
    CHECK_EQ(coir_listing_open(work, ".", &listing), 0);
    CHECK_EQ(coir_listing_next(listing, &(coir_dir_entry){0}), -COIR_EUNSIZED);
    CHECK_EQ(coir_await(coir_listing_next_op(&listing_op, listing, &entry)), 1);
    CHECK(strcmp(entry.name, "d") == 0 && entry.inode == what.st_ino);
    coir_listing_close(listing);
    CHECK_EQ(coir_await(coir_dir_rmdir_op(&op, work, "d")), 0);
}

/* An open that was cancelled too late is open: its caller has it. */
static void cancel_opens(void)
{
    int opened = 0;
    for (int i = 0; i < 100; i++) {
        coir_file *file = NULL;
        coir_file_op op;
        coir_sleep_op pause;
        coir_branch either[] = {
            COIR_BRANCH(coir_file_open_at_op(&op, work, "x", O_RDWR | O_CREAT, 0600, &file)),
            COIR_BRANCH(coir_sleep_for_op(&pause, i % 10 ? i % 40 * COIR_US : 60 * COIR_S))};
        coir_any(either, 2);
        bool open = coir_branch_is_complete(&either[0]) && op.future.result == 0;
        CHECK(open == (file != NULL));
        opened += open;
        coir_file_close(file);
    }
    CHECK(opened > 0);
    if (exists("x"))
        CHECK_EQ(coir_dir_unlink(work, "x"), 0);
}

static void do_everything(void)
{
    await_futures();
    cancel_opens();
    change_names();
    use_an_open_file();
    list_a_directory();
}

TEST(directories_and_files_on_every_driver)
{
    in_a_directory_on_every_driver(do_everything);
}

TEST_SIM(directories_and_files_simulated)
{
    in_a_simulated_directory(do_everything);
}

/* ---- a bound on the calls in flight ---- */

static int in_flight_most;

static int sync_often(void *arg)
{
    for (int i = 0; i < 5; i++)
        CHECK_EQ(coir_file_sync(arg), 0);
    return 0;
}

static void many_at_a_time(void)
{
    coir_file *file;
    CHECK_EQ(coir_file_open_temporary(NULL, 0600, &file), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(coir_go(scope, sync_often, file), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_file_close(file);
    in_flight_most++;
}

TEST(more_calls_than_may_be_in_flight_wait_for_their_turn)
{
    coir_config config = COIR_CONFIG;
    config.file_calls_max = 2;
    config.offload_queue_max = 2; /* which two calls in flight never exceed */
    run_on_every_driver(config, many_at_a_time);
    CHECK(in_flight_most >= 2);
}

/* ---- shortages ---- */

static void without_descriptors(void)
{
    struct rlimit all, none;
    coir_file *file, *kept;
    coir_listing *listing;
    struct stat what;
    CHECK_EQ(coir_file_open_temporary(NULL, 0600, &kept), 0);
    CHECK_EQ(coir_file_sync(kept), 0); /* the threads that it needs are there */
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    none = all;
    none.rlim_cur = 3;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_EQ(coir_file_open("/dev/null", O_RDONLY, 0, &file), -EMFILE);
    CHECK_EQ(coir_listing_open(NULL, ".", &listing), -EMFILE);
    CHECK_EQ(coir_file_open_temporary(NULL, 0600, &file), -EMFILE);
    CHECK_EQ(coir_file_replace(NULL, "coir-none", "x", 1, 0600), -EMFILE);
    CHECK_EQ(coir_file_write(kept, "x", 1, 0), 1); /* everything else goes on */
    CHECK_EQ(coir_dir_stat(NULL, "/dev/null", 0, &what), 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
    CHECK_EQ(coir_file_open("/dev/null", O_RDONLY, 0, &file), 0);
    coir_file_close(file);
    coir_file_close(kept);
}

TEST(without_descriptors_an_open_fails_and_nothing_else)
{
    coir_config config = COIR_CONFIG;
    run_on_every_driver(config, without_descriptors);
}
