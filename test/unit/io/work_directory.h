/* Tests of files in a directory of their own: on each driver, and simulated. */
#ifndef TEST_UNIT_IO_WORK_DIRECTORY_H
#define TEST_UNIT_IO_WORK_DIRECTORY_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "every_driver.h"

static coir_file *work; /* the directory */
static char work_path[] = "/tmp/coir-work-XXXXXX";
static void (*work_body)(void);

static inline coir_file *make(const char *path)
{
    coir_file *file;
    CHECK_EQ(coir_file_open_at(work, path, O_RDWR | O_CREAT, 0600, &file), 0);
    return file;
}

static inline bool exists(const char *path)
{
    struct stat what;
    int rc = coir_dir_stat(work, path, AT_SYMLINK_NOFOLLOW, &what);
    CHECK(rc == 0 || rc == -ENOENT);
    return rc == 0;
}

static inline int count_names(void)
{
    coir_listing *listing;
    coir_dir_entry entry = COIR_DIR_ENTRY;
    int count = 0;
    CHECK_EQ(coir_listing_open(work, ".", &listing), 0);
    while (coir_listing_next(listing, &entry) > 0)
        count++;
    coir_listing_close(listing);
    return count;
}

static inline void check_contents(const char *path, const char *expected)
{
    char in[64] = "";
    coir_file *file;
    CHECK_EQ(coir_file_open_at(work, path, O_RDONLY, 0, &file), 0);
    CHECK_EQ(coir_file_read(file, in, sizeof in - 1, 0), strlen(expected));
    CHECK(strcmp(in, expected) == 0);
    coir_file_close(file);
}

static inline void in_work_directory(void)
{
    CHECK_EQ(coir_file_open(work_path, O_RDONLY | O_DIRECTORY, 0, &work), 0);
    work_body();
    CHECK_EQ(count_names(), 0);
    coir_file_close(work);
}

/* Also where one thread makes one call at a time. */
static inline void in_a_directory_on_every_driver(void (*body)(void))
{
    coir_config config = COIR_CONFIG;
    CHECK(mkdtemp(work_path) != NULL);
    work_body = body;
    run_on_every_driver(config, in_work_directory);
    config.offload_threads_max = config.file_calls_max = 1;
    run_on_every_driver(config, in_work_directory);
    rmdir(work_path);
}

static inline void in_a_simulated_directory(void (*body)(void))
{
    CHECK_EQ(coir_dir_mkdir(NULL, work_path, 0700), 0);
    work_body = body;
    in_work_directory();
}

#endif
