/* Rows of the table of fork_test.c: the calls on files, directories, watchers and terminals. */
#ifndef TEST_UNIT_TASK_FORK_FILES_H
#define TEST_UNIT_TASK_FORK_FILES_H

#include <termios.h>
#include <unistd.h>

#include "harness.h"

static struct {
    coir_pty pty;
    coir_terminal terminal;
    coir_fd fd;
    struct winsize size;
} on;

static void make_terminal(void)
{
    CHECK_EQ(coir_pty_open(&on.pty, NULL), 0);
    CHECK((on.fd = coir_pty_open_terminal(&on.pty)) >= 0);
    CHECK_EQ(coir_terminal_open(&on.terminal, on.fd), 0);
    CHECK_EQ(coir_terminal_set_mode(&on.terminal, COIR_TERMINAL_RAW), 0);
}

/* No child has changed its mode. */
static void free_terminal(void)
{
    struct termios mode;
    CHECK(tcgetattr(on.fd, &mode) == 0 && !(mode.c_lflag & ISIG));
    coir_terminal_close(&on.terminal);
    close(on.fd);
    coir_pty_close(&on.pty);
}

/* clang-format off */
#define FILE_CALLS(R, P, V) \
    R(coir_file_open, coir_file_open("/dev/null", O_RDONLY, 0, RET(coir_file)))                \
    R(coir_file_read, coir_file_read(o.file, buf, 1, 0))                                       \
    R(coir_file_write, coir_file_write(o.file, buf, 1, 0))                                     \
    R(coir_file_sync, coir_file_sync(o.file))                                                  \
    R(coir_file_open_at, coir_file_open_at(NULL, "/dev/null", O_RDONLY, 0, RET(coir_file)))    \
    R(coir_file_open_temporary, coir_file_open_temporary(NULL, 0600, RET(coir_file)))          \
    R(coir_file_readv, coir_file_readv(o.file, NULL, 0, 0))                                    \
    R(coir_file_read_full, coir_file_read_full(o.file, buf, 1, 0, NULL))                       \
    R(coir_file_writev, coir_file_writev(o.file, NULL, 0, 0))                                  \
    R(coir_file_write_all, coir_file_write_all(o.file, buf, 1, 0))                             \
    R(coir_file_sync_data, coir_file_sync_data(o.file))                                        \
    R(coir_file_truncate, coir_file_truncate(o.file, 0))                                       \
    R(coir_file_allocate, coir_file_allocate(o.file, 0, 1))                                    \
    R(coir_file_stat, coir_file_stat(o.file, (struct stat *)(void *)big))                      \
    R(coir_file_replace, coir_file_replace(NULL, "/dev/null/x", buf, 1, 0))                    \
    R(coir_file_copy, coir_file_copy(o.file, 0, o.file, 0, 1, NULL))                           \
    R(coir_dir_stat, coir_dir_stat(NULL, "/", 0, (struct stat *)(void *)big))                  \
    R(coir_dir_rename, coir_dir_rename(NULL, "/dev/null/x", NULL, "/dev/null/y"))              \
    R(coir_dir_link, coir_dir_link(NULL, "/dev/null/x", NULL, "/dev/null/y"))                  \
    R(coir_dir_unlink, coir_dir_unlink(NULL, "/dev/null/x"))                                   \
    R(coir_dir_mkdir, coir_dir_mkdir(NULL, "/dev/null/x", 0))                                  \
    R(coir_dir_rmdir, coir_dir_rmdir(NULL, "/dev/null/x"))                                     \
    R(coir_listing_open, coir_listing_open(NULL, "/", RET(coir_listing)))                      \
    R(coir_listing_next, coir_listing_next(o.listing, &(coir_dir_entry)COIR_DIR_ENTRY))         \
    R(coir_watcher_open, coir_watcher_open(RET(coir_watcher)))                                 \
    R(coir_watcher_add, coir_watcher_add(o.watcher, "/", 0))                                   \
    R(coir_watcher_add_at, coir_watcher_add_at(o.watcher, NULL, "/", 0))                       \
    R(coir_watcher_next, coir_watcher_next(o.watcher, &(coir_change)COIR_CHANGE))              \
    R(coir_watcher_remove, coir_watcher_remove(o.watcher, 1))                                  \
    V(coir_watcher_close, coir_watcher_close(o.watcher))                                       \
    R(coir_pty_open, coir_pty_open(&(coir_pty){{0}}, NULL))                                \
    R(coir_pty_set_size, coir_pty_set_size(&on.pty, &(struct winsize){.ws_row = 1}))        \
    R(coir_pty_open_terminal, coir_pty_open_terminal(&on.pty))                              \
    P(coir_pty_stream, coir_pty_stream(&on.pty) != NULL)                                    \
    V(coir_pty_close, coir_pty_close(&on.pty))                                              \
    R(coir_terminal_open, coir_terminal_open(&(coir_terminal){{0}}, on.fd))        \
    R(coir_terminal_set_mode, coir_terminal_set_mode(&on.terminal, COIR_TERMINAL_CBREAK))   \
    R(coir_terminal_size, coir_terminal_size(&on.terminal, &on.size))                        \
    R(coir_terminal_resized, coir_terminal_resized(&on.terminal, &on.size))                  \
    P(coir_terminal_stream, coir_terminal_stream(&on.terminal) != NULL)                     \
    V(coir_terminal_restore, coir_terminal_restore())                                      \
    V(coir_terminal_close, coir_terminal_close(&on.terminal))                               \
    R(coir_file_size, coir_file_size(o.file, (int64_t *)(void *)&item))                        \
    P(coir_file_position, coir_file_position(o.file) == 0)                                     \
    P(coir_file_seek, coir_file_seek(o.file, 0) == 0)                                          \
    V(coir_listing_close, coir_listing_close(o.listing))                                       \
    V(coir_file_close, coir_file_close(o.file))
/* clang-format on */

#endif
