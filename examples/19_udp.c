/* UDP on all workers: each has a socket of its own on one address, and answers many at a time.
 * Usage: 19_udp [ADDRESS] */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = COIR_DATAGRAMS_MAX, ROOM = 2048 };

struct batch {
    coir_datagram datagrams[BATCH];
    char bytes[BATCH][ROOM];
};

/* Sends back what came, from the address that it came to. */
static ssize_t answer(coir_udp *udp, struct batch *batch)
{
    for (int i = 0; i < BATCH; i++) {
        batch->datagrams[i].size = sizeof batch->datagrams[i];
        batch->datagrams[i].data = batch->bytes[i];
        batch->datagrams[i].room = ROOM;
    }
    ssize_t count = coir_udp_recv_many(udp, batch->datagrams, BATCH), sent = 0, n = 0;
    while (sent < count &&
           (n = coir_udp_send_many(udp, batch->datagrams + sent, (size_t)(count - sent))) > 0)
        sent += n;
    return count < 0 ? count : n;
}

static int serve(void *address)
{
    struct batch *batch = calloc(1, sizeof *batch); /* too much for a stack */
    coir_udp_options options = COIR_UDP_OPTIONS;
    coir_udp *udp;
    options.address = address;
    options.reuse_port = true;
    options.tell_local = true;
    ssize_t rc = batch ? coir_udp_open_with(&options, &udp) : -ENOMEM;
    if (rc == 0) {
        fprintf(stderr, "worker %d listens\n", coir_worker_index());
        while ((rc = answer(udp, batch)) >= 0)
            continue;
        coir_udp_close(udp);
    }
    free(batch);
    return (int)rc;
}

static int start(void *address)
{
    int workers = (int)coir_worker_count(coir_runtime_current());
    COIR_SCOPE(scope);
    for (int i = 0; i < workers; i++) {
        int rc = coir_go_on(scope, i, serve, address);
        if (rc < 0)
            return rc;
    }
    return coir_scope_wait(scope);
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:7781");
}
