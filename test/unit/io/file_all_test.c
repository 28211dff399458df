/* Calls on files until all bytes are read, written or copied. */
#include "io/file.h"
#include "pair.h"
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
    CHECK_EQ(coir_file_copy(to, 8, from, 0, 0, &done), 0);
    CHECK_EQ(coir_file_copy(to, 8, from, 10, 5, &done), 0);  /* the end */
    CHECK_EQ(coir_file_copy(from, 2, from, 6, 2, &done), 2); /* within a file */
    CHECK_EQ(coir_file_copy(from, 2, to, 3, 2, &done), 2);
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

/* ---- closed while a call is in flight ---- */

static coir_file *from, *to;
static coir_stream *near, *far;

/* Each makes a second operation, for the end. */
static int read_full(void *arg)
{
    char in[20];
    size_t done;
    (void)arg;
    CHECK_EQ(coir_file_read_full(from, in, sizeof in, 0, &done), -COIR_EEND);
    CHECK_EQ(done, 10);
    return 0;
}

static int copy_all(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_file_copy(to, 0, from, 0, COIR_UNLIMITED, NULL), 10);
    return 0;
}

static int copy_to_stream(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_file_copy_to(from, 0, COIR_UNLIMITED, near, NULL), 10);
    return 0;
}

static int copy_from_stream(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_file_copy_from(to, 0, COIR_UNLIMITED, near, NULL), 10);
    return 0;
}

static int read_lines(void *arg)
{
    coir_reader *reader;
    char *line;
    (void)arg;
    CHECK_EQ(coir_reader_new_file(from, 0, 0, &reader), 0);
    CHECK_EQ(coir_reader_read_line(reader, &line, NULL), -COIR_EEND);
    char rest[10];
    CHECK_EQ(coir_reader_read(reader, rest, 10), 10);
    CHECK_EQ(coir_reader_read_line(reader, &line, NULL), 0);
    coir_reader_free(reader);
    return 0;
}

/* The call goes on with the files that it has begun with: the numbers of their descriptors are not
 * given to others meanwhile. */
static void close_during(coir_task_fn *call)
{
    char in[16] = "";
    coir_file *others[2];
    from = make("from");
    to = make("to");
    CHECK_EQ(coir_file_write_all(from, "0123456789", 10, 0), 0);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, call, NULL), 0);
        for (int i = 0; i < 3; i++)
            coir_yield();
        coir_file_close(from);
        coir_file_close(to);
        others[0] = make("other");
        others[1] = make("other");
        if (call == copy_from_stream) {
            CHECK_EQ(coir_write(far, "0123456789", 10), 10);
            CHECK_EQ(coir_shutdown_write(far), 0);
        }
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    if (call == copy_to_stream) {
        CHECK_EQ(coir_read_full(far, in, 10, NULL), 10);
        CHECK(strcmp(in, "0123456789") == 0);
    } else if (call == copy_all || call == copy_from_stream) {
        check_contents("to", "0123456789");
    }
    check_contents("other", "");
    coir_file_close(others[0]);
    coir_file_close(others[1]);
    CHECK_EQ(coir_dir_unlink(work, "from"), 0);
    CHECK_EQ(coir_dir_unlink(work, "to"), 0);
    CHECK_EQ(coir_dir_unlink(work, "other"), 0);
}

static void close_during_with_streams(void)
{
    close_during(copy_to_stream);
    close_during(copy_from_stream);
    coir_close(near);
    coir_close(far);
}

static void close_during_each(void)
{
    close_during(read_full);
    close_during(copy_all);
    close_during(read_lines);
    CHECK_EQ(coir_duplex(64, &near, &far), 0);
    close_during_with_streams();
    connect_pair(&near, &far);
    close_during_with_streams();
}

static void read_and_copy(void)
{
    close_during_each();
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

/* ---- without a thread ---- */

static int wait_for_byte(void *pipe_end)
{
    char byte;
    return (int)read(*(int *)pipe_end, &byte, 1);
}

static int offload_a_wait(void *pipe_end)
{
    return coir_offload(wait_for_byte, pipe_end);
}

/* While the only thread of the pool is busy. */
static void copy_without_a_thread(void)
{
    int ends[2];
    uint32_t bytes = 1u << CI_FILE_OPEN | 1u << CI_FILE_READ | 1u << CI_FILE_WRITE;
    if ((ci_worker_current->loop.driver->file_calls & bytes) != bytes)
        return;
    COIR_SCOPE(scope);
    from = make("from");
    to = make("to");
    CHECK_EQ(coir_file_write_all(from, "0123456789", 10, 0), 0);
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(coir_go(scope, offload_a_wait, ends), 0);
    coir_yield();
    CHECK_EQ(coir_file_copy(to, 0, from, 0, 10, NULL), 10);
    check_contents("to", "0123456789");
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close(ends[0]);
    close(ends[1]);
    coir_file_close(from);
    coir_file_close(to);
    CHECK_EQ(coir_dir_unlink(work, "from"), 0);
    CHECK_EQ(coir_dir_unlink(work, "to"), 0);
}

TEST(a_short_copy_needs_no_thread_where_the_driver_reads_and_writes)
{
    in_a_directory_on_every_driver(copy_without_a_thread);
}

static int entered;

static int enter_and_wait(void *pipe_end)
{
    __atomic_store_n(&entered, 1, __ATOMIC_RELEASE);
    return wait_for_byte(pipe_end);
}

static int offload_an_entry(void *pipe_end)
{
    return coir_offload(enter_and_wait, pipe_end);
}

/* The one thread of the pool is busy, and its queue is full. */
static void copy_with_a_full_pool(void)
{
    int ends[2];
    char in[11] = "";
    COIR_SCOPE(scope);
    from = make("from");
    CHECK_EQ(coir_file_write_all(from, "0123456789", 10, 0), 0);
    connect_pair(&near, &far);
    CHECK_EQ(pipe(ends), 0);
    entered = 0;
    CHECK_EQ(coir_go(scope, offload_an_entry, ends), 0);
    while (!__atomic_load_n(&entered, __ATOMIC_ACQUIRE))
        coir_yield();
    CHECK_EQ(coir_go(scope, offload_a_wait, ends), 0);
    coir_yield();
    CHECK_EQ(coir_offload(wait_for_byte, ends), -EAGAIN);
    CHECK_EQ(coir_go(scope, copy_to_stream, NULL), 0);
    coir_yield();
    CHECK_EQ(write(ends[1], "xx", 2), 2);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_read_full(far, in, 10, NULL), 10);
    CHECK(strcmp(in, "0123456789") == 0);
    close(ends[0]);
    close(ends[1]);
    coir_close(near);
    coir_close(far);
    coir_file_close(from);
    CHECK_EQ(coir_dir_unlink(work, "from"), 0);
}

TEST(a_full_pool_refuses_no_copy_to_a_stream)
{
    coir_config config = COIR_CONFIG;
    config.offload_threads_max = config.offload_queue_max = 1;
    CHECK(mkdtemp(work_path) != NULL);
    work_body = copy_with_a_full_pool;
    run_on_every_driver(config, in_work_directory);
    rmdir(work_path);
}

/* ---- in parts ---- */

enum { LONG = 3000 };
static char text[LONG];
static bool is_written;

static int write_text(void *file)
{
    CHECK_EQ(coir_file_write_all(file, text, LONG, COIR_POSITION), 0);
    is_written = true;
    return 0;
}

static void write_in_parts(bool closes)
{
    static char in[LONG];
    COIR_SCOPE(scope);
    coir_file *file, *other;
    CHECK_EQ(coir_file_open("x", O_RDWR | O_CREAT | O_TRUNC, 0600, &file), 0);
    is_written = false;
    CHECK_EQ(coir_go(scope, write_text, file), 0);
    while (coir_file_seek(file, 0) == 0) /* it has not begun */
        coir_yield();
    for (; !closes && !is_written; coir_sleep_for(COIR_US))
        CHECK_EQ(coir_file_seek(file, 0), -EBUSY);
    if (!closes)
        CHECK_EQ(coir_file_position(file), LONG);
    coir_file_close(file);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_file_open("x", O_RDONLY, 0, &other), 0);
    CHECK_EQ(coir_file_read_full(other, in, LONG, 0, NULL), LONG);
    CHECK(memcmp(in, text, LONG) == 0);
    coir_file_close(other);
}

static int write_twice(void *arg)
{
    (void)arg;
    write_in_parts(false);
    write_in_parts(true);
    return 0;
}

static int on_a_disk_that_takes_parts(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_sim_faults(sim, NULL, (coir_faults){.disk_short = 1});
    return coir_sim_host_main(sim, "writer", write_twice, NULL);
}

TEST(a_write_in_parts_uses_the_position_and_the_file_to_its_end)
{
    for (int i = 0; i < LONG; i++)
        text[i] = (char)(i * 31);
    for (uint64_t seed = 1; seed <= 10; seed++) {
        coir_sim_options options = test_sim_options(seed, 1);
        CHECK_EQ(coir_sim_run(&options, on_a_disk_that_takes_parts, NULL, NULL), 0);
    }
}
