/* Calls that make several operations hold their streams (src/io/io.h 2): from the wait of one
 * operation until the call runs again, and over a close. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>

#include "every_driver.h"
#include "io/io.h"
#include "pair.h"

enum { LARGE = 4 << 20 };
static char large[LARGE], line[8];
static coir_stream *other, *other_end; /* the second stream of a copy */

static ssize_t write_all(coir_stream *stream)
{
    return coir_write_all(stream, large, LARGE);
}

static ssize_t write_all_op(coir_stream *stream)
{
    coir_io_all_op op;
    return (ssize_t)coir_await(coir_write_all_op(&op, stream, large, LARGE));
}

static ssize_t writev_all(coir_stream *stream)
{
    struct iovec iov[] = {{large, 3}, {large, LARGE}};
    return coir_writev_all(stream, iov, 2);
}

static ssize_t writev_all_op(coir_stream *stream)
{
    coir_io_all_op op;
    struct iovec iov[] = {{large, 3}, {large, LARGE}};
    return (ssize_t)coir_await(coir_writev_all_op(&op, stream, iov, 2));
}

static ssize_t read_full(coir_stream *stream)
{
    return coir_read_full(stream, large, LARGE, NULL);
}

static ssize_t read_full_op(coir_stream *stream)
{
    coir_io_all_op op;
    return (ssize_t)coir_await(coir_read_full_op(&op, stream, large, LARGE, NULL));
}

static ssize_t peek(coir_stream *stream)
{
    return coir_peek(stream, line, sizeof line);
}

static ssize_t read_line(coir_stream *stream)
{
    coir_reader *reader;
    char *text;
    CHECK_EQ(coir_reader_new(stream, 0, &reader), 0);
    int rc = coir_reader_read_line(reader, &text, NULL);
    coir_reader_free(reader);
    return rc;
}

static ssize_t copy_from(coir_stream *stream)
{
    return coir_stream_copy(other, stream, COIR_UNLIMITED, NULL);
}

static ssize_t copy_to(coir_stream *stream)
{
    return coir_stream_copy(stream, other, COIR_UNLIMITED, NULL);
}

/* A file of zeros that ends when the stream is closed; and one that takes all. */
static ssize_t copy_to_or_from_file(coir_stream *stream, const char *path, int flags)
{
    coir_file *file;
    CHECK_EQ(coir_file_open(path, flags, 0, &file), 0);
    ssize_t rc = flags == O_RDONLY ? coir_file_copy_to(file, 0, LARGE, stream, NULL)
                                   : coir_file_copy_from(file, 0, COIR_UNLIMITED, stream, NULL);
    coir_file_close(file);
    return rc;
}

static ssize_t copy_to_file(coir_stream *stream)
{
    return copy_to_or_from_file(stream, "/dev/null", O_WRONLY);
}

static ssize_t copy_from_file(coir_stream *stream)
{
    return copy_to_or_from_file(stream, "/dev/zero", O_RDONLY);
}

static const struct call {
    ssize_t (*make)(coir_stream *stream);
    bool writes;
} calls[] = {
    {write_all, true},  {write_all_op, true}, {writev_all, true},     {writev_all_op, true},
    {copy_to, true},    {read_full, false},   {read_full_op, false},  {peek, false},
    {read_line, false}, {copy_from, false},   {copy_from_file, true}, {copy_to_file, false},
};

struct caller {
    const struct call *call;
    coir_stream *stream;
};

static int make_call(void *arg)
{
    const struct caller *caller = arg;
    CHECK_EQ(caller->call->make(caller->stream), -ECANCELED);
    return 0;
}

/* Whatever the direction of the call, completes the operation that it waits in, so that its task is
 * woken, and has not run. */
static void complete(const struct call *call, coir_stream *far)
{
    char bytes[4];
    if (call->writes)
        CHECK_EQ(coir_try_read(far, bytes, 2), 2);
    else
        CHECK_EQ(coir_try_write(far, "ab", 2), 2);
}

static void expect_busy(const struct call *call, coir_stream *stream)
{
    char byte;
    coir_write_queue *queue;
    CHECK_EQ(call->writes ? coir_try_write(stream, "x", 1) : coir_try_read(stream, &byte, 1),
             -EBUSY);
    CHECK_EQ(call->writes ? coir_write(stream, "x", 1) : coir_read(stream, &byte, 1), -EBUSY);
    if (call->writes)
        CHECK_EQ(coir_write_queue_new(stream, &queue), -EBUSY);
}

static void close_under(const struct call *call)
{
    coir_stream *near, *far;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_duplex(4, &near, &far), 0);
    CHECK_EQ(coir_duplex(4, &other, &other_end), 0);
    CHECK_EQ(coir_write(other_end, "cccc", 4), 4);
    struct caller caller = {call, near};
    CHECK_EQ(coir_go(scope, make_call, &caller), 0);
    for (int i = 0; i < 3; i++)
        coir_yield();
    if (call->make == copy_to) { /* it has written all that there was: one more byte has no room */
        CHECK_EQ(coir_write(other_end, "c", 1), 1);
        for (int i = 0; i < 3; i++)
            coir_yield();
    }
    while (!(call->writes ? near->writer : near->reader)) /* a file's copy comes from a thread */
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    expect_busy(call, near);
    complete(call, far);
    expect_busy(call, near);
    coir_close(near);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_write(other, "x", 1), 1); /* it is not held any more */
    coir_close(far);
    coir_close(other);
    coir_close(other_end);
}

static void close_under_each(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        close_under(&calls[i]);
}

TEST(a_call_holds_its_stream_until_it_runs)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    run_on_every_driver(config, close_under_each);
}

static coir_stream *first, *second, *second_end;

/* Woken by the same turn of the driver as the call; what it opens gets the record of what it
 * closes. */
static int close_and_open(void *end)
{
    char byte;
    CHECK_EQ(coir_read(end, &byte, 1), 1);
    coir_close(first);
    connect_pair(&second, &second_end);
    return 0;
}

static void replace_under(const struct call *call, bool closer_first)
{
    coir_stream *far, *wake, *wake_end;
    COIR_SCOPE(scope);
    connect_pair(&first, &far);
    connect_pair(&wake, &wake_end);
    struct caller caller = {call, first};
    CHECK_EQ(coir_go(scope, closer_first ? close_and_open : make_call,
                     closer_first ? (void *)wake : (void *)&caller),
             0);
    CHECK_EQ(coir_go(scope, closer_first ? make_call : close_and_open,
                     closer_first ? (void *)&caller : (void *)wake),
             0);
    for (int i = 0; i < 3; i++)
        coir_yield();
    CHECK_EQ(coir_try_write(wake_end, "x", 1), 1);
    CHECK_EQ(coir_try_write(far, "ab", 2), 2);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_write(second_end, "own", 3), 3);
    CHECK_EQ(coir_read(second, line, 3), 3);
    coir_close(far);
    coir_close(wake);
    coir_close(wake_end);
    coir_close(second);
    coir_close(second_end);
}

static void replace_under_each(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (!calls[i].writes && calls[i].make != peek && calls[i].make != copy_from &&
            calls[i].make != copy_to_file)
            for (int order = 0; order < 2; order++)
                replace_under(&calls[i], order);
}

TEST(a_call_does_not_go_on_with_another_connection)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    run_on_every_driver(config, replace_under_each);
}
