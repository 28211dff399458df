/* A connection that sends back what it receives, until the client has ended. */
#ifndef TEST_UNIT_IO_ECHO_H
#define TEST_UNIT_IO_ECHO_H

#include <coir.h>

static inline int echo(coir_stream *stream, void *arg)
{
    (void)arg;
    char buf[1000];
    ssize_t n;
    while ((n = coir_read(stream, buf, sizeof buf)) > 0) {
        int rc = coir_write_all(stream, buf, (size_t)n);
        if (rc < 0)
            return rc;
    }
    return (int)n;
}

#endif
