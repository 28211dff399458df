/* The echo server of 02_echo.c in a world that fails: no ports, no waiting, any failure replayed by
 * its seed. Usage: 08_simulation [SEED] */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return coir_serve_tcp("127.0.0.1:7777", echo, NULL);
}

static int talk_to_it(void *arg)
{
    (void)arg;
    static const char said[] = "is anybody there?";
    char heard[sizeof said];
    coir_stream *conn;
    int rc;
    while ((rc = coir_tcp_connect("server:7777", &conn)) == -ECONNREFUSED)
        coir_sleep_for(10 * COIR_MS);
    if (rc == 0 && (rc = coir_write_all(conn, said, sizeof said)) == 0)
        rc = (int)coir_read_full(conn, heard, sizeof heard, NULL);
    if (rc > 0)
        printf("heard: %s\n", heard);
    coir_close(conn);
    return rc < 0 ? rc : 0;
}

static int scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_host *server = coir_sim_host(sim, "server", start, NULL);
    coir_sim_link(
        sim, server, NULL,
        (coir_link){.latency = 2 * COIR_MS, .jitter = COIR_MS, .loss = 0.05, .short_io = 0.5});
    return coir_sim_host_main(sim, "client", talk_to_it, NULL);
}

static void print_line(const char *line, void *context)
{
    (void)context;
    puts(line);
}

int main(int argc, char **argv)
{
    coir_sim_options options = COIR_SIM_OPTIONS;
    options.seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    options.trace = print_line;
    int rc = coir_sim_run(&options, scenario, NULL, NULL);
    printf("the scenario ended: %s\n", coir_strerror(rc));
    return rc < 0;
}
