/* A client by name: finds the host, tries its addresses until one answers, asks for a page, and
 * prints the first line of the answer. Usage: 15_client [HOST:PORT] */
#include <coir.h>
#include <stdio.h>
#include <string.h>

static int ask(coir_stream *conn)
{
    static const char question[] = "GET / HTTP/1.0\r\n\r\n";
    char buf[1024];
    int rc = coir_write_all(conn, question, sizeof question - 1);
    ssize_t n = rc < 0 ? rc : coir_read(conn, buf, sizeof buf - 1);
    if (n < 0)
        return (int)n;
    buf[n] = '\0';
    printf("%.*s\n", (int)strcspn(buf, "\r\n"), buf);
    return 0;
}

static int start(void *arg)
{
    const char *address = arg;
    coir_stream *conn;
    char peer[64];
    COIR_DEADLINE(coir_in(5 * COIR_S)); /* for all of it: the names, the attempts, the answer */
    int rc = coir_tcp_connect(address, &conn);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", address, coir_strerror(rc));
        return rc;
    }
    if (coir_stream_peer(conn, peer, sizeof peer) > 0)
        fprintf(stderr, "%s is %s\n", address, peer);
    rc = ask(conn);
    coir_close(conn);
    return rc;
}

int main(int argc, char **argv)
{
    static char here[] = "localhost:8081";
    return coir_main(start, argc > 1 ? argv[1] : here);
}
