/* An echo server that says where it listens: for the scripts. */
#include <coir.h>
#include <stdio.h>

static int echo(coir_stream *conn, void *arg)
{
    (void)arg;
    char buf[4096];
    ssize_t n;
    while ((n = coir_read(conn, buf, sizeof buf)) > 0) {
        int rc = coir_write_all(conn, buf, (size_t)n);
        if (rc < 0)
            return rc;
    }
    return (int)n;
}

static int start(void *arg)
{
    (void)arg;
    coir_listener *listener;
    char address[64];
    int rc = coir_tcp_listen("127.0.0.1:0", NULL, &listener);
    if (rc < 0)
        return rc;
    coir_listener_local(listener, address, sizeof address);
    printf("serving on %s\n", address);
    fflush(stdout);
    rc = coir_serve(listener, echo, NULL);
    coir_listener_close(listener);
    return rc;
}

int main(void)
{
    return coir_main(start, NULL);
}
