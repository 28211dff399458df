/* Writing a text whole, whatever room the descriptor has. */
#include "sys/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "harness.h"

enum { BYTES = 1 << 18 };

static char text[BYTES];

/* Reads until the end: how many bytes were as in `text`. */
static void *read_slowly(void *fd)
{
    size_t len = 0;
    char part[1000];
    for (ssize_t n; (n = read(*(int *)fd, part, sizeof part)) > 0;)
        for (ssize_t i = 0; i < n; i++)
            len += part[i] == text[len];
    return (void *)len; /* NOLINT(performance-no-int-to-ptr) */
}

TEST(a_descriptor_that_does_not_block_is_waited_for)
{
    int ends[2];
    pthread_t reader;
    void *len;
    for (size_t i = 0; i < BYTES; i++)
        text[i] = (char)(i % 251);
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    CHECK_EQ(fcntl(ends[0], F_SETFL, 0), 0);
    CHECK_EQ(pthread_create(&reader, NULL, read_slowly, &ends[0]), 0);
    CHECK_EQ(ci_write_all(ends[1], text, sizeof text), 0);
    close(ends[1]);
    CHECK_EQ(pthread_join(reader, &len), 0);
    CHECK_EQ((size_t)len, sizeof text);
    close(ends[0]);
}

TEST(an_error_is_told)
{
    CHECK_EQ(ci_write_all(-1, "text", 4), -EBADF);
    CHECK_EQ(ci_write_all(-1, "text", 0), 0);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK_EQ(ci_write_all(full, "text", 4), -ENOSPC);
    close(full);
}
