/* A disk that is full, a quota that is used up, a file that may not become longer, a kernel without
 * memory, a closed standard input: the call concerned fails with that error, and everything else
 * goes on. On each driver. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "io/file.h"
#include "seccomp.h"
#include "work_directory.h"

enum { ROOM = 64 * 1024, TOO_MUCH = 3 * ROOM };
static char bytes[TOO_MUCH];

/* A full disk is one error, a limit another. */
static void write_beyond_the_room(int error)
{
    static char in[ROOM];
    struct stat what;
    coir_file *file = make("x"), *other = make("y");
    size_t done = 0;
    memset(bytes, 'x', sizeof bytes);
    CHECK_EQ(coir_file_write_all(other, "kept", 4, 0), 0);
    CHECK_EQ(coir_file_write_all(file, bytes, TOO_MUCH, 0), error);
    CHECK_EQ(coir_file_stat(file, &what), 0);
    int64_t len = what.st_size;
    CHECK(len > 0 && len <= ROOM); /* as much as there was room for */
    CHECK_EQ(coir_file_read_full(file, in, (size_t)len, 0, NULL), len);
    CHECK(memcmp(in, bytes, (size_t)len) == 0);
    CHECK_EQ(coir_file_write(file, "y", 1, ROOM), error);
    int rc = coir_file_allocate(file, 0, TOO_MUCH);
    CHECK(rc == error || rc == -EOPNOTSUPP);
    CHECK_EQ(coir_file_replace(work, "y", bytes, TOO_MUCH, 0600), error);
    check_contents("y", "kept");
    CHECK_EQ(count_names(), 2); /* nothing is left of it */
    CHECK_EQ(coir_file_copy(other, ROOM - 1, file, 0, COIR_UNLIMITED, &done), error);
    CHECK(done < ROOM);
    CHECK_EQ(coir_file_sync(file), 0);
    CHECK_EQ(coir_file_truncate(file, 0), 0);
    CHECK_EQ(coir_file_truncate(other, 4), 0);
    CHECK_EQ(coir_file_write_all(file, bytes, ROOM / 2, 0), 0); /* there is room again */
    check_contents("y", "kept");
    CHECK_EQ(coir_file_replace(work, "y", "newer", 5, 0600), 0);
    check_contents("y", "newer");
    coir_file_close(file);
    coir_file_close(other);
    CHECK_EQ(coir_dir_unlink(work, "x"), 0);
    CHECK_EQ(coir_dir_unlink(work, "y"), 0);
}

/* ---- a full file system ---- */

static void fill_it(void)
{
    write_beyond_the_room(-ENOSPC);
}

static void make_too_many_files(void)
{
    coir_file *file;
    char name[16];
    int count = 0, rc;
    for (;; count++) {
        snprintf(name, sizeof name, "%d", count);
        if ((rc = coir_file_open_at(work, name, O_RDWR | O_CREAT, 0600, &file)) < 0)
            break;
        coir_file_close(file);
    }
    CHECK_EQ(rc, -ENOSPC);
    CHECK(count >= 5);
    CHECK_EQ(coir_dir_mkdir(work, "d", 0700), -ENOSPC);
    CHECK_EQ(coir_file_open_temporary(work, 0600, &file), -ENOSPC);
    CHECK_EQ(coir_file_replace(work, "0", "x", 1, 0600), -ENOSPC);
    CHECK_EQ(count_names(), count);
    CHECK_EQ(coir_dir_rename(work, "0", work, "1"), 0);
    CHECK_EQ(coir_file_replace(work, "1", "x", 1, 0600), 0); /* there is room for one */
    check_contents("1", "x");
    for (int i = 1; i < count; i++) {
        snprintf(name, sizeof name, "%d", i);
        CHECK_EQ(coir_dir_unlink(work, name), 0);
    }
}

static void fill_it_both_ways(void)
{
    fill_it();
    make_too_many_files();
}

/* A small file system that this process alone sees. */
static bool mount_over(const char *path)
{
    if (unshare(CLONE_NEWNS) < 0) {
        printf("left out: no mount namespace: %s\n", strerror(errno));
        return false;
    }
    CHECK_EQ(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_EQ(mount("none", path, "tmpfs", 0, "size=64k,nr_inodes=12"), 0);
    return true;
}

static const char *const drivers[] = {"io_uring", "epoll", "poll"};

TEST(a_full_file_system_fails_what_needs_room)
{
    char path[] = "/tmp/coir-full-XXXXXX";
    CHECK(mkdtemp(path) != NULL);
    if (mount_over(path)) {
        strcpy(work_path, path); /* of the same length */
        work_body = fill_it_both_ways;
        run_on_every_driver((coir_config)COIR_CONFIG, in_work_directory);
        CHECK_EQ(umount(path), 0);
    }
    rmdir(path);
}

/* ---- a limit on the length of files ---- */

static void pass_the_limit(void)
{
    struct rlimit all, few;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &all), 0);
    few = (struct rlimit){ROOM, all.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
    write_beyond_the_room(-EFBIG);
    coir_file *file = make("x");
    CHECK_EQ(coir_file_truncate(file, ROOM + 1), -EFBIG);
    CHECK_EQ(coir_file_truncate(file, ROOM), 0);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &all), 0);
    CHECK_EQ(coir_file_write(file, "x", 1, ROOM), 1);
    coir_file_close(file);
    CHECK_EQ(coir_dir_unlink(work, "x"), 0);
}

TEST(a_limit_on_files_fails_what_passes_it)
{
    signal(SIGXFSZ, SIG_IGN);
    in_a_directory_on_every_driver(pass_the_limit);
}

/* ---- a quota that is used up, and a kernel without memory ---- */

/* What the threads of the pool call. A ring's calls are not filtered. */
static void be_refused(void)
{
    struct iovec two[] = {{(char[]){"a"}, 1}, {(char[]){"b"}, 1}};
    if (ci_worker_current->loop.driver->file_calls)
        return;
    coir_file *file = make("x"), *from;
    CHECK_EQ(coir_file_open("/dev/zero", O_RDONLY, 0, &from), 0);
    CHECK_EQ(coir_file_write(file, "x", 1, 0), -EDQUOT);
    CHECK_EQ(coir_file_write_all(file, "x", 1, 0), -EDQUOT);
    CHECK_EQ(coir_file_copy(file, 0, from, 0, 10, NULL), -EDQUOT);
    CHECK_EQ(coir_file_replace(work, "x", "new", 3, 0600), -EDQUOT);
    CHECK_EQ(coir_dir_link(work, "x", work, "y"), -ENOMEM);
    CHECK_EQ(count_names(), 1); /* nothing is left of it */
    check_contents("x", "");
    CHECK_EQ(coir_file_writev(file, two, 2, 0), 2);
    check_contents("x", "ab");
    coir_file_close(from);
    coir_file_close(file);
    CHECK_EQ(coir_dir_unlink(work, "x"), 0);
}

TEST(a_call_that_the_system_refuses_fails_alone)
{
    refuse_calls(SYS_pwrite64, SYS_pwrite64, EDQUOT);
    refuse_calls(SYS_linkat, SYS_linkat, ENOMEM);
    in_a_directory_on_every_driver(be_refused);
}

/* ---- a closed standard input ---- */

static int use_closed_input(void *arg)
{
    char byte;
    int ends[2];
    coir_file *file;
    (void)arg;
    CHECK_EQ(coir_fd_read(STDIN_FILENO, &byte, 1), -EBADF);
    CHECK_EQ(coir_file_open("/dev/zero", O_RDONLY, 0, &file), 0);
    CHECK_EQ(coir_file_read(file, &byte, 1, 0), 1);
    coir_file_close(file);
    CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 && ends[0] > STDERR_FILENO);
    CHECK_EQ(coir_fd_read(STDIN_FILENO, &byte, 1), -EBADF);
    CHECK_EQ(coir_fd_write(ends[1], "x", 1), 1);
    CHECK_EQ(coir_fd_read(ends[0], &byte, 1), 1);
    return 0;
}

TEST(a_closed_input_fails_what_reads_it)
{
    for (int i = 0; i < 3; i++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            setenv("COIR_DRIVER", drivers[i], 1);
            close(STDIN_FILENO);
            _exit(coir_main(use_closed_input, NULL));
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
}
