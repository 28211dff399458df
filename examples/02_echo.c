/* An echo server: one fiber a connection, straight-line code.
 * Usage: 02_echo [ADDRESS], then: echo hi | nc -N 127.0.0.1 7777 */
#include <coir.h>

static int echo(coir_stream *conn, void *arg)
{
    (void)arg;
    char buf[4096];
    ssize_t n;
    while ((n = coir_read(conn, buf, sizeof buf)) > 0) {
        int rc = coir_write_all(conn, buf, (size_t)n);
        if (rc < 0)
            return rc; /* counted and reported by the serving scope; the others go on */
    }
    return (int)n; /* the stream is closed by the server that opened it */
}

static int start(void *address)
{
    return coir_serve_tcp(address, echo, NULL);
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:7777");
}
