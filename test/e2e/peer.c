/* The other side of a peer that test/e2e/peers starts. Usage: peer serve|connect ADDRESS */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int echo(coir_stream *stream, void *arg)
{
    char buf[4096];
    ssize_t n;
    int rc = 0;
    (void)arg;
    while (rc == 0 && (n = coir_read(stream, buf, sizeof buf)) != 0)
        rc = n < 0 ? (int)n : coir_write_all(stream, buf, (size_t)n);
    return rc;
}

static int serve(void *address)
{
    return coir_serve_tcp(address, echo, NULL);
}

/* Sends 100 KB, ends, and reads as much back. */
static int talk(void *address)
{
    static char sent[100000], got[sizeof sent];
    coir_stream *stream;
    int rc = coir_tcp_connect(address, &stream);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 7 % 251);
    coir_io_all_op write, read;
    coir_branch both[] = {COIR_BRANCH(coir_write_all_op(&write, stream, sent, sizeof sent)),
                          COIR_BRANCH(coir_read_full_op(&read, stream, got, sizeof got, NULL))};
    rc = coir_join_all(both, 2, 0);
    coir_close(stream);
    if (rc == 0)
        puts(memcmp(sent, got, sizeof sent) == 0 ? "all came back" : "something else came back");
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    return coir_main(strcmp(argv[1], "serve") == 0 ? serve : talk, argv[2]);
}
