/* One seed: a server, clients in phases, and what is left at the end. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connections/fuzz.h"

enum { CLIENTS_MOST = 64, SAMPLES = 4, SAMPLES_SMALL = 40, SAMPLE_MS = 100 };
static const int64_t patience =
    60 * SECOND; /* for anything; a server that sleeps is caught sooner */

struct run {
    const struct settings *settings;
    uint64_t seed;
    struct server server;
    int send_buffer;
    struct ci_random random;
    struct client clients[CLIENTS_MOST];
    int count;
    int asleep; /* samples in a row in which nothing moved */
    char failure[200];
    const struct client *culprit;
};

/* ---- the poll loop ---- */

static bool failed(const struct run *run)
{
    return *run->failure;
}

static void fail(struct run *run, const struct client *client, const char *what)
{
    if (failed(run))
        return;
    snprintf(run->failure, sizeof run->failure, "%s", what);
    run->culprit = client;
}

static void look_at_server(struct run *run)
{
    int status;
    if (!server_ended(&run->server, &status))
        return;
    char text[100];
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "the server was ended by signal %d", WTERMSIG(status));
    else
        snprintf(text, sizeof text, "the server ended with status %d", WEXITSTATUS(status));
    run->failure[0] = '\0'; /* what the clients saw follows from it */
    fail(run, NULL, text);
}

/* Nothing has moved for a while. Through the smallest buffers TCP itself takes its time. */
static void look_for_silence(struct run *run, int64_t now)
{
    run->asleep = server_asleep(&run->server) ? run->asleep + 1 : 0;
    for (int i = 0; i < run->count && !failed(run); i++) {
        struct client *client = &run->clients[i];
        const char *due = dialog_due(&client->dialog);
        if (!due)
            continue;
        bool asleep = run->asleep >= (client->small ? SAMPLES_SMALL : SAMPLES);
        if (!asleep && now - client->progress < patience)
            continue;
        dialog_fail(&client->dialog, "silent: %s, and the server %s", due,
                    asleep ? "is asleep" : "takes too long");
        fail(run, client, client->dialog.failure);
    }
}

/* Waits for something to happen, once. */
static void turn(struct run *run)
{
    struct pollfd polled[CLIENTS_MOST];
    int64_t now = time_now(), next = now + SAMPLE_MS * MILLISECOND;
    bool paused = false;
    for (int i = 0; i < run->count; i++) {
        const struct client *client = &run->clients[i];
        polled[i] = (struct pollfd){client->fd, client_wants(client, now), 0};
        if (!polled[i].events)
            polled[i].fd = -1;
        int64_t mine = client_next(client, now);
        if (mine < next) {
            next = mine;
            paused = true;
        }
    }
    int64_t wait = next > now ? (next - now + MILLISECOND - 1) / MILLISECOND : 0;
    int ready = poll(polled, (nfds_t)run->count, (int)wait);
    now = time_now();
    if (ready == 0 && !paused)
        look_for_silence(run, now);
    else
        run->asleep = 0;
    for (int i = 0; i < run->count; i++) {
        struct client *client = &run->clients[i];
        if (polled[i].revents)
            client_ready(client, polled[i].revents, now);
        if (*client->dialog.failure)
            fail(run, client, client->dialog.failure);
    }
    if (ready == 0 || failed(run))
        look_at_server(run);
}

/* ---- phases ---- */

/* One acts, all others are silent. */
static void act_alone(struct run *run, struct client *client)
{
    client_begin(client);
    while (client->dialog.active && !failed(run))
        turn(run);
}

static void act_by_turns(struct run *run)
{
    int turns = run->count < 8 ? 8 : run->count;
    for (int i = 0; i < turns && !failed(run); i++) {
        struct client *client = &run->clients[below(&run->random, (size_t)run->count)];
        for (size_t batches = 1 + below(&run->random, 3); batches && !failed(run); batches--)
            act_alone(run, client);
    }
}

static void act_together(struct run *run)
{
    int left[CLIENTS_MOST];
    for (int i = 0; i < run->count; i++)
        left[i] = 1 + (int)below(&run->random, 3);
    for (bool busy = true; busy && !failed(run);) {
        busy = false;
        for (int i = 0; i < run->count; i++) {
            if (!run->clients[i].dialog.active && left[i]) {
                left[i]--;
                client_begin(&run->clients[i]);
            }
            busy |= run->clients[i].dialog.active;
        }
        if (busy)
            turn(run);
    }
}

/* ---- what is left ---- */

static void wait_for_descriptors(struct run *run, long before)
{
    for (int64_t end = time_now() + patience; server_descriptors(&run->server) != before;
         usleep(1000)) {
        look_at_server(run);
        if (failed(run))
            return;
        if (time_now() > end) {
            char text[100];
            snprintf(text, sizeof text, "the server has %ld descriptors, and had %ld",
                     server_descriptors(&run->server), before);
            fail(run, NULL, text);
        }
    }
}

static void wait_for_tasks(struct run *run, const struct stats *before, struct stats *after)
{
    for (int64_t end = time_now() + patience; !failed(run); usleep(1000)) {
        bool answered = server_stats(&run->server, after);
        if (answered && after->tasks == before->tasks && after->stacks == before->stacks &&
            after->connections == before->connections)
            return;
        look_at_server(run);
        if (answered && time_now() < end)
            continue;
        char text[150];
        snprintf(text, sizeof text,
                 "left: %ld of %ld tasks, %ld of %ld stacks, %ld of %ld connections%s",
                 after->tasks, before->tasks, after->stacks, before->stacks, after->connections,
                 before->connections, answered ? "" : "; no answer to /stats");
        fail(run, NULL, text);
    }
}

static void stop_server(struct run *run)
{
    int status = server_stop(&run->server);
    char text[100];
    snprintf(text, sizeof text, "asked to end, the server ended with wait status %d", status);
    if (status != 0)
        fail(run, NULL, status < 0 ? "asked to end, the server does not" : text);
}

/* ---- a seed ---- */

static void choose(struct run *run)
{
    static const int counts[] = {1, 1, 2, 4, 8, 24, CLIENTS_MOST}, buffers[] = {0, 1, 16384, 65536};
    struct ci_random *random = &run->random;
    random->state = run->seed;
    run->send_buffer = buffers[below(random, 4)];
    run->count = counts[below(random, sizeof counts / sizeof *counts)];
    unsigned workers = 1 + (unsigned)below(random, 3);
    if (run->settings->workers)
        workers = run->settings->workers;
    run->server.workers = workers;
}

static void act_all(struct run *run)
{
    for (size_t phases = 1 + below(&run->random, 3); phases && !failed(run); phases--) {
        if (run->count > 1 && one_in(&run->random, 2))
            act_together(run);
        act_by_turns(run);
    }
    for (int i = 0; i < run->count && !failed(run); i++)
        client_leave(&run->clients[i]);
}

static void report(const struct run *run)
{
    const struct settings *settings = run->settings;
    printf("seed %llu failed on %s: %s\n", (unsigned long long)run->seed, settings->driver,
           run->failure);
    printf(" %d clients, %u workers, SO_SNDBUF %d\n", run->count, run->server.workers,
           run->send_buffer);
    if (run->culprit)
        client_print(run->culprit);
    printf(" what the server printed:\n");
    server_print_log(&run->server);
    printf(" again: %s%s --driver %s --seed %llu", settings->program, settings->tls ? " --tls" : "",
           settings->driver, (unsigned long long)run->seed);
    printf(settings->workers ? " --workers %u\n" : "\n", settings->workers);
    fflush(stdout);
}

static void finish(struct run *run, struct totals *totals)
{
    for (int i = 0; i < run->count; i++) {
        struct client *client = &run->clients[i];
        if (run->settings->verbose)
            client_print(client);
        totals->connections += (uint64_t)client->connections;
        totals->answers += (uint64_t)client->dialog.answered;
        client_free(client);
    }
    server_kill(&run->server);
    totals->seeds++;
    totals->failed += failed(run);
}

/* Its counters once every worker has begun, nothing moves any more, and the connection that asks is
 * the only one. */
static void take_baseline(struct run *run, struct stats *before)
{
    struct stats again = {.tasks = -1};
    int64_t end = time_now() + patience;
    *before = (struct stats){0};
    while (!failed(run) && (before->tasks != again.tasks || before->stacks != again.stacks ||
                            again.connections != 1)) {
        *before = again;
        while (!server_asleep(&run->server) && time_now() < end)
            usleep(1000);
        if (!server_stats(&run->server, &again) || time_now() > end)
            fail(run, NULL, "the server did not start to serve");
    }
}

/* Once it has closed what belonged to the last question, which over TLS is more than a socket: two
 * workers that hand it on to each other are seen asleep, one after the other, so one look is not
 * enough. */
static long quiet_descriptors(const struct run *run)
{
    enum { LOOKS = 10 };
    long count = server_descriptors(&run->server);
    int same = 0;
    for (int64_t end = time_now() + patience; same < LOOKS && time_now() < end; usleep(1000)) {
        long next = server_descriptors(&run->server);
        same = next == count && server_asleep(&run->server) ? same + 1 : 0;
        count = next;
    }
    return count;
}

bool run_seed(const struct settings *settings, uint64_t seed, struct totals *totals)
{
    struct run *run = calloc(1, sizeof *run);
    struct stats before, after = {0};
    if (!run)
        abort();
    run->settings = settings;
    run->seed = seed;
    choose(run);
    bool ok = server_start(&run->server, settings->driver, run->server.workers, settings->tls,
                           run->send_buffer);
    if (!ok)
        fail(run, NULL, "the server did not start");
    take_baseline(run, &before);
    for (int i = 0; i < run->count; i++)
        client_init(&run->clients[i], i, run->server.port, seed);
    long descriptors = failed(run) ? 0 : quiet_descriptors(run);
    if (!failed(run))
        act_all(run);
    if (!failed(run))
        wait_for_descriptors(run, descriptors);
    if (!failed(run))
        wait_for_tasks(run, &before, &after);
    if (!failed(run)) {
        long resident = server_resident(&run->server);
        totals->resident_most = resident > totals->resident_most ? resident : totals->resident_most;
        totals->bytes_most = after.bytes > totals->bytes_most ? after.bytes : totals->bytes_most;
        stop_server(run);
    }
    for (int i = 0; i < 100 && failed(run) && run->server.pid > 0; i++, usleep(5000))
        look_at_server(run); /* it may be dying */
    if (failed(run))
        report(run);
    ok = !failed(run);
    finish(run, totals);
    free(run);
    return ok;
}
