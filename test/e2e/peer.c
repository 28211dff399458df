/* The other side of a peer that test/e2e/peers starts. Usage: peer serve|connect|send ADDRESS */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Sends datagrams, and waits until each has come back. */
static int talk_in_datagrams(void *address)
{
    enum { COUNT = 16 };
    static char sent[COUNT][8], got[16];
    coir_datagram out[COUNT] = {COIR_DATAGRAM}, in = COIR_DATAGRAM;
    coir_udp *udp;
    bool back[COUNT] = {false};
    int rc = coir_udp_open("*:0", address, &udp), missing = COUNT;
    if (rc < 0)
        return rc;
    for (int i = 0; i < COUNT; i++) {
        out[i].data = sent[i];
        out[i].len = (size_t)snprintf(sent[i], sizeof sent[i], "n%d\n", i);
    }
    COIR_DEADLINE(coir_in(10 * COIR_S));
    ssize_t n = coir_udp_send_many(udp, out, COUNT);
    while (n > 0 && missing) {
        in.data = got;
        in.room = sizeof got - 1;
        if ((n = coir_udp_recv_many(udp, &in, 1)) <= 0)
            break;
        got[in.len] = 0;
        int number = atoi(got + 1);
        missing -= number >= 0 && number < COUNT && !back[number];
        back[number] = true;
    }
    coir_udp_close(udp);
    if (n > 0)
        puts("all came back");
    return n < 0 ? (int)n : 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    coir_task_fn *mode = strcmp(argv[1], "serve") == 0  ? serve
                         : strcmp(argv[1], "send") == 0 ? talk_in_datagrams
                                                        : talk;
    return coir_main(mode, argv[2]);
}
