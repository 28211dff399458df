/* An echo server under every fault: what comes back is what was sent, in order, and when the faults
 * are over every client is served. */
#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "chaos.h"
#include "scenario.h"

enum { CLIENTS = 3, MESSAGES = 5, MOST = 3000 };

static struct chaos chaos;

static int echo(coir_stream *stream, void *arg)
{
    char buf[500];
    (void)arg;
    return chaos_explains(chaos_echo(stream, buf, sizeof buf));
}

static int serve(void *arg)
{
    (void)arg;
    int rc;
    do /* even listening may fail */
        rc = chaos_explains(coir_serve_tcp("0.0.0.0:7777", echo, NULL));
    while (rc != -ECANCELED && coir_sleep_for(100 * COIR_MS) == 0);
    return rc;
}

static coir_host *start_server(struct chaos *of)
{
    return coir_sim_host(of->sim, "server", serve, NULL);
}

struct conversation {
    coir_stream *stream;
    int client, len;
};

static int send_message(void *arg)
{
    const struct conversation *talk = arg;
    unsigned char buf[MOST];
    bytes_make(buf, (unsigned)talk->client, 0, (size_t)talk->len);
    return coir_write_all(talk->stream, buf, (size_t)talk->len);
}

static int hear_message(void *arg)
{
    const struct conversation *talk = arg;
    unsigned char buf[MOST];
    for (int got = 0; got < talk->len;) {
        ssize_t n = chaos_read_soon(&chaos, talk->stream, buf, sizeof buf);
        if (n == -ETIME && !coir_task_interrupted())
            continue; /* and nothing is lost by that */
        if (n <= 0)
            return n < 0 ? (int)n : -COIR_EEND;
        if (!bytes_are(buf, (unsigned)talk->client, (size_t)got, (size_t)n))
            __builtin_trap(); /* whatever goes wrong, this does not */
        got += (int)n;
    }
    return 0;
}

static int visit(int client)
{
    struct conversation talk = {.client = client};
    COIR_DEADLINE(coir_in(20 * COIR_S));
    int rc = coir_tcp_connect("server:7777", &talk.stream);
    if (rc < 0)
        return rc;
    for (int i = 0; rc == 0 && i < MESSAGES; i++) {
        talk.len = 1 + (int)chaos_below(&chaos, MOST - 1);
        rc = chaos_both(send_message, hear_message, &talk);
    }
    coir_close(talk.stream);
    return rc;
}

int scenario(coir_sim *sim)
{
    chaos = (struct chaos){.restart = start_server};
    return chaos_run(&chaos, sim, visit, CLIENTS);
}
