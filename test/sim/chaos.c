#include "chaos.h"

#include <errno.h>

#include "sim/must.h"

uint64_t chaos_below(const struct chaos *chaos, uint64_t bound)
{
    return coir_sim_random(chaos->sim) % bound;
}

int chaos_explains(int rc)
{
    switch (rc) {
    case -ECANCELED: /* asked for, or what a deadline, a crash or a sibling's failure did */
    case -ETIME:
    case -ECONNRESET: /* the network */
    case -ECONNREFUSED:
    case -ETIMEDOUT:
    case -EPIPE:
    case -ENOTCONN: /* a shutdown after the reset */
    case -COIR_EEND:
    case -EMFILE: /* the machine */
    case -ENFILE:
    case -ENOBUFS:
    case -ENOMEM:
    case -EIO:
    case -ENOSPC:
    case -EDQUOT:
    case -EADDRINUSE:    /* the server before this one */
    case -EPROTO: break; /* an answer that is not 200 */
    default:
        if (rc < 0)
            __builtin_trap();
    }
    return rc;
}

int chaos_keep_serving(int (*serve_once)(void))
{
    int rc;
    do
        rc = chaos_explains(serve_once());
    while (rc != -ECANCELED && coir_sleep_for(100 * COIR_MS) == 0);
    return rc;
}

/* Often nothing, sometimes a little, rarely a lot. */
static double some(const struct chaos *chaos, double most)
{
    static const double parts[] = {0, 0, 0.1, 0.3, 1};
    return most * parts[chaos_below(chaos, 5)];
}

static coir_time some_time(const struct chaos *chaos, coir_time most)
{
    return (coir_time)chaos_below(chaos, (uint64_t)most >> chaos_below(chaos, 12));
}

static coir_link bad_link(const struct chaos *chaos)
{
    return (coir_link){
        .latency = some_time(chaos, 200 * COIR_MS),
        .jitter = some_time(chaos, 100 * COIR_MS),
        .bandwidth = chaos_below(chaos, 3) ? 0 : 2000 + chaos_below(chaos, 1000000),
        .loss = some(chaos, 0.3),
        .duplicate = some(chaos, 0.3),
        .reset = some(chaos, 0.05),
        .short_io = some(chaos, 0.7),
        .no_answer = some(chaos, 0.5),
    };
}

static coir_faults bad_machine(const struct chaos *chaos)
{
    return (coir_faults){
        .no_descriptor = some(chaos, 0.3),
        .no_buffers = some(chaos, 0.05),
        .no_memory = some(chaos, 0.05),
        .late = some(chaos, 0.5),
        .clock_jump = some(chaos, 0.1),
        .disk_error = some(chaos, 0.1),
        .disk_full = some(chaos, 0.1),
        .disk_short = some(chaos, 0.5),
    };
}

static void break_machines(const struct chaos *chaos)
{
    coir_sim_faults(chaos->sim, NULL, bad_machine(chaos));
    coir_sim_faults(chaos->sim, chaos->fate, (coir_faults){0});
}

static void cut(const struct chaos *chaos)
{
    coir_link link = bad_link(chaos);
    link.cut = true;
    link.one_way = chaos_below(chaos, 2) == 0;
    if (chaos_below(chaos, 2))
        coir_sim_link(chaos->sim, chaos->server, NULL, link);
    else
        coir_sim_link(chaos->sim, NULL, chaos->server, link);
}

/* Some seconds of accidents; then a world in which everything must work again. */
static int befall(void *arg)
{
    struct chaos *chaos = arg;
    for (uint64_t accidents = chaos_below(chaos, 6); accidents; accidents--) {
        coir_sleep_for(some_time(chaos, 3 * COIR_S));
        switch (chaos_below(chaos, 4)) {
        case 0: cut(chaos); break;
        case 1: break_machines(chaos); break;
        case 2: coir_sim_link(chaos->sim, NULL, NULL, bad_link(chaos)); break;
        case 3:
            coir_sim_crash(chaos->sim, chaos->server);
            coir_sleep_for(some_time(chaos, 5 * COIR_S));
            if (!(chaos->server = chaos->restart(chaos)))
                return -ENOMEM;
            break;
        }
    }
    coir_sim_link(chaos->sim, NULL, NULL, (coir_link){.latency = 100 * COIR_US});
    coir_sim_faults(chaos->sim, NULL, (coir_faults){0});
    chaos->recovers = true;
    coir_sleep_for(15 * COIR_S);
    if (coir_host_is_down(chaos->server)) /* without memory for its first task, say */
        chaos->server = chaos->restart(chaos);
    coir_sleep_for(15 * COIR_S);
    chaos->over = true;
    return 0;
}

int chaos_configure(coir_sim *sim)
{
    static const unsigned budgets[] = {0, 0, 1, 2, 17};
    coir_config config = COIR_CONFIG;
    config.stack_size = coir_sim_random(sim) % 2 ? SMALL_STACK : 0;
    config.budget = budgets[coir_sim_random(sim) % 5];
    uint64_t most = coir_sim_random(sim) % 9;
    config.offload_threads_max = (unsigned)(most % 3);
    config.file_calls_max = most / 3; /* 0: as many as by default */
    return coir_sim_configure(sim, &config);
}

int chaos_pause(coir_time *pause)
{
    *pause = !*pause ? COIR_MS : *pause < COIR_S / 2 ? 2 * *pause : COIR_S;
    return coir_sleep_for(*pause);
}

void chaos_await_end(coir_host *host, coir_time patience)
{
    coir_time limit = coir_in(patience), pause = 0;
    {
        COIR_DEADLINE(limit);
        while (!coir_host_is_down(host) && chaos_pause(&pause) == 0)
            continue;
    }
    MUST(coir_host_is_down(host)); /* it may have ended since the last look */
}

static int wait_for_end(void *arg)
{
    coir_host **host = arg;
    chaos_await_end(*host, 1000 * COIR_S);
    return 0;
}

int chaos_run_alone(coir_sim *sim, int (*play)(void *), coir_host **ret_host)
{
    int rc = chaos_configure(sim);
    if (rc < 0)
        return rc;
    if (!(*ret_host = coir_sim_host(sim, "host", play, NULL)))
        return -ENOMEM;
    return coir_sim_host_main(sim, "fate", wait_for_end, ret_host);
}

static int begin(struct chaos *chaos)
{
    chaos->recovers = chaos->over = false;
    chaos->server = chaos->restart(chaos);
    chaos->fate = coir_sim_host(chaos->sim, "fate", befall, chaos);
    if (!chaos->server || !chaos->fate)
        return -ENOMEM;
    coir_sim_link(chaos->sim, NULL, NULL, bad_link(chaos));
    break_machines(chaos);
    return 0;
}

/* ---- servers ---- */

int chaos_echo(coir_stream *stream, void *buf, size_t size)
{
    for (;;) {
        ssize_t n;
        {
            COIR_DEADLINE(coir_in(20 * COIR_S));
            n = coir_read(stream, buf, size);
        }
        if (n <= 0)
            return (int)n;
        COIR_DEADLINE(coir_in(20 * COIR_S));
        int rc = coir_write_all(stream, buf, (size_t)n);
        if (rc < 0)
            return rc;
    }
}

/* ---- clients ---- */

ssize_t chaos_read_soon(const struct chaos *chaos, coir_stream *stream, void *buf, size_t len)
{
    COIR_DEADLINE(coir_in((coir_time)(1 + chaos_below(chaos, 300)) * COIR_MS));
    return coir_read(stream, buf, len);
}

int chaos_both(coir_task_fn *first, coir_task_fn *second, void *arg)
{
    COIR_SCOPE(both);
    int rc = coir_go(both, first, arg);
    if (rc == 0 && (rc = coir_go(both, second, arg)) == 0)
        return coir_scope_wait(both);
    coir_scope_cancel(both);
    return rc;
}

struct clients {
    const struct chaos *chaos;
    int (*visit)(int client);
    int count;
};

struct client {
    const struct clients *all;
    int number;
};

static int be_a_client(void *arg)
{
    const struct client *client = arg;
    while (!client->all->chaos->over) {
        chaos_explains(client->all->visit(client->number));
        coir_time calm = client->all->chaos->calm ? client->all->chaos->calm : 15 * COIR_S,
                  most = client->all->chaos->recovers ? calm : 4 * COIR_S;
        coir_sleep_for((coir_time)chaos_below(client->all->chaos, (uint64_t)most));
    }
    return client->all->visit(client->number);
}

static int be_everybody(void *arg)
{
    int rc = 0;
    struct client client = {.all = arg};
    coir_go_options options = COIR_GO_OPTIONS;
    options.copy_size = sizeof client;
    COIR_SCOPE(scope);
    for (; rc == 0 && client.number < client.all->count; client.number++)
        rc = coir_go_with(scope, &options, be_a_client, &client);
    if (rc < 0)
        coir_scope_cancel(scope);
    int waited = coir_scope_wait(scope);
    return rc < 0 ? rc : waited;
}

int chaos_run(struct chaos *chaos, coir_sim *sim, int (*visit)(int client), int count)
{
    struct clients clients = {chaos, visit, count};
    chaos->sim = sim;
    int rc = begin(chaos);
    if (rc < 0)
        return rc;
    do /* there may not even be memory for a task */
        rc = coir_sim_host_main(sim, "clients", be_everybody, &clients);
    while (rc == -ENOMEM);
    return rc;
}
