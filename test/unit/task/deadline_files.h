/* Rows of the table of deadline_test.c: the calls on files, directories, watchers and terminals. */
#ifndef TEST_UNIT_TASK_DEADLINE_FILES_H
#define TEST_UNIT_TASK_DEADLINE_FILES_H

static struct {
    coir_pty pty;
    coir_terminal terminal;
    struct winsize size;
} on;

static void make_terminal(void)
{
    CHECK_EQ(coir_pty_open(&on.pty, NULL), 0);
    coir_fd fd = coir_pty_open_terminal(&on.pty);
    CHECK_EQ(coir_terminal_open(&on.terminal, fd), 0);
    close(fd);
}

static void free_terminal(void)
{
    coir_terminal_close(&on.terminal);
    coir_pty_close(&on.pty);
}

static ssize_t read_file(coir_file *file)
{
    return coir_file_read(file, bytes, 10, 0);
}

static ssize_t open_file(void)
{
    coir_file *file = NULL;
    int rc = coir_file_open("/dev/null", O_RDONLY, 0, &file);
    coir_file_close(file);
    return rc;
}

static ssize_t open_at(void)
{
    coir_file *file = NULL;
    int rc = coir_file_open_at(NULL, "/dev/null", O_RDONLY, 0, &file);
    coir_file_close(file);
    return rc;
}

static ssize_t open_temporary(void)
{
    coir_file *file = NULL;
    int rc = coir_file_open_temporary(NULL, 0600, &file);
    coir_file_close(file);
    return rc;
}

static ssize_t open_listing(void)
{
    coir_listing *listing = NULL;
    int rc = coir_listing_open(NULL, "/", &listing);
    coir_listing_close(listing);
    return rc;
}

static ssize_t watch(void)
{
    int id = coir_watcher_add(t.watcher, "/", COIR_CHANGE_ATTRIBUTES);
    return id < 0 ? id : coir_watcher_remove(t.watcher, id);
}

static ssize_t watch_at(void)
{
    int id = coir_watcher_add_at(t.watcher, NULL, "/", COIR_CHANGE_ATTRIBUTES);
    return id < 0 ? id : coir_watcher_remove(t.watcher, id);
}

/* Until there is no change left. */
static ssize_t next_change(void)
{
    ssize_t rc;
    do
        rc = coir_watcher_next(t.watcher, &change);
    while (rc == 0);
    return rc;
}

static ssize_t read_line(void)
{
    coir_reader *reader;
    CHECK_EQ(coir_reader_new_file(t.file, 0, 0, &reader), 0);
    int rc = coir_reader_read_line(reader, &piece, NULL);
    coir_reader_free(reader);
    return rc;
}

/* clang-format off */
#define FILE_ROWS(X) \
    X(coir_file_open, ENDS, open_file()) \
    X(coir_file_read, ENDS, read_file(t.file)) \
    X(coir_file_write, ENDS, coir_file_write(t.file, bytes, 1, 0)) \
    X(coir_file_sync, ENDS, coir_file_sync(t.file)) \
    X(coir_file_open_at, ENDS, open_at()) \
    X(coir_file_open_temporary, ENDS, open_temporary()) \
    X(coir_file_readv, ENDS, coir_file_readv(t.file, vec, 2, 0)) \
    X(coir_file_read_full, ENDS, coir_file_read_full(t.file, bytes, 1, 0, NULL)) \
    X(coir_file_read_full_nothing, ENDS, coir_file_read_full(t.file, bytes, 0, 0, NULL)) \
    X(coir_file_writev, ENDS, coir_file_writev(t.file, vec, 2, 0)) \
    X(coir_file_write_all, ENDS, coir_file_write_all(t.file, bytes, 1, 0)) \
    X(coir_file_write_all_nothing, ENDS, coir_file_write_all(t.file, bytes, 0, 0)) \
    X(coir_file_sync_data, ENDS, coir_file_sync_data(t.file)) \
    X(coir_file_truncate, ENDS, coir_file_truncate(t.file, 1)) \
    X(coir_file_allocate, ENDS, coir_file_allocate(t.file, 0, 1)) \
    X(coir_file_stat, ENDS, coir_file_stat(t.file, &what)) \
    X(coir_file_replace, ENDS, coir_file_replace(NULL, "/dev/null/x", "", 0, 0)) \
    X(coir_file_copy, ENDS, coir_file_copy(t.file, 0, t.file, 10, 0, NULL)) \
    X(coir_dir_stat, ENDS, coir_dir_stat(NULL, "/", 0, &what)) \
    X(coir_dir_rename, ENDS, coir_dir_rename(NULL, "/dev/null/x", NULL, "/dev/null/y")) \
    X(coir_dir_link, ENDS, coir_dir_link(NULL, "/dev/null/x", NULL, "/dev/null/y")) \
    X(coir_dir_unlink, ENDS, coir_dir_unlink(NULL, "/dev/null/x")) \
    X(coir_dir_mkdir, ENDS, coir_dir_mkdir(NULL, "/dev/null/x", 0)) \
    X(coir_dir_rmdir, ENDS, coir_dir_rmdir(NULL, "/dev/null/x")) \
    X(coir_listing_open, ENDS, open_listing()) \
    X(coir_listing_next, ENDS, coir_listing_next(t.listing, &entry)) \
    X(coir_reader_read_line_of_file, ENDS, read_line()) \
    X(coir_watcher_add, ENDS, watch()) \
    X(coir_watcher_add_at, ENDS, watch_at()) \
    X(coir_watcher_next, WAITS, next_change()) \
    X(coir_terminal_resized, WAITS, coir_terminal_resized(&on.terminal, &on.size))
/* clang-format on */

#endif
