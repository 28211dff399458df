/* Clients that ask for names and connect to them, while the name servers answer late, fail, and
 * change their mind. Some addresses of a name answer, some never do, some have no route. Servers
 * listen for IPv4 alone, or for both families. One may be so far away that its answer comes just
 * when that of the next attempt does. On half of the seeds of a simulated kernel, threads ask for
 * the names, each thread one question at a time, and they may be few.
 *
 * What must hold:
 * 1. Once an answer has been the same for longer than one is kept, that is what a question gets:
 *    addresses, with the port that was asked for, or the error.
 * 2. A connection is made if an address of the name answers, and to one of its addresses: after
 *    the answers of both families, 250 ms for each address that is silent, a round trip for each
 *    one that refuses, and one more. With few threads, after the questions before its own, too.
 * 3. A task leaves at its deadline, whatever the question or the connection waits for.
 * 4. A numeric address is its own answer, without a question, in its own family alone.
 * 5. An attempt is given up at its own time, and the connection with the last one.
 * 6. A program that waits for names alone is not taken for dead.
 * 7. Nothing is left of the attempts that lost (the host's audit). */
#include <coir.h>
#include <coir/name.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CLIENTS = 4, ACTS = 8, NAMES = 3, SERVERS = 2, ADDRESSES_MOST = 16, THREADS_FEW = 3 };
static const coir_time patience = 600 * COIR_S, keep_time = COIR_S;
/* RFC 8305, section 5; what workers and timers are late by */
static const coir_time attempt_delay = 250 * COIR_MS, slack = 15 * COIR_MS;

static coir_sim *sim;
static coir_time way, far; /* from host to host, and to server1 */
static bool both_families, few_threads;

/* ...of questions that wait for a thread: each client has two, and threads ask for some in vain. */
static const coir_time queue_time = (2 * CLIENTS + THREADS_FEW) * 400 * COIR_MS;

static coir_time some_time(void)
{
    return (coir_time)below((uint64_t)(400 * COIR_MS) >> below(12));
}

/* What is said about a name: servers that live, dead numbers before or after them. */
struct said {
    char addresses[120];
    bool fails;
    int silent;        /* addresses that never answer */
    int living;        /* servers: they refuse at their IPv6 address, unless both_families */
    coir_time latency; /* of the slower family's answer */
};

static struct name {
    char name[8], address[16];
    struct said now;
    coir_time changed; /* the answers of before are kept no longer than keep_time after it */
} names[NAMES];

static void say(struct name *name)
{
    /* the last one is server1, then server0: two attempts, of which the first takes longer */
    static const char *const parts[] = {
        "192.0.2.1 ", "2001:db8::1 ", "", "2a00::1 ", "server0 ", "server1 ", "10.0.0.2 10.0.0.1 "};
    coir_name_answer answer = {.latency = some_time(), .latency_ipv6 = some_time()};
    bool ipv4_first = answer.latency < answer.latency_ipv6;
    name->changed = coir_now();
    name->now = (struct said){
        .fails = below(6) == 0,
        .latency = ipv4_first ? answer.latency_ipv6 : answer.latency,
    };
    for (uint64_t count = 1 + below(3); count; count--) {
        uint64_t part = below(sizeof parts / sizeof *parts);
        name->now.silent += part < 2;
        name->now.living += part >= 4;
        strcat(name->now.addresses, parts[part]);
    }
    answer.addresses = name->now.addresses;
    if (name->now.fails)
        answer.error = answer.error_ipv6 = -COIR_ENAMESERVER;
    answer.size = sizeof answer;
    MUST_BE(coir_sim_set_name(sim, name->name, &answer), 0);
}

/* ---- questions ---- */

static void check_addresses(const coir_address *addresses, int count)
{
    for (int i = 0; i < count && i < ADDRESSES_MOST; i++) {
        char text[64];
        int len = coir_address_format(&addresses[i], text, sizeof text);
        MUST(len > 3 && strcmp(text + len - 3, ":80") == 0);
    }
}

static int ask(const struct name *name, coir_address *addresses)
{
    coir_resolve_options options = COIR_RESOLVE_OPTIONS;
    coir_name_op op;
    switch (below(4)) {
    case 0: return coir_resolve(name->address, addresses, ADDRESSES_MOST);
    case 1: return (int)coir_await(coir_resolve_op(&op, name->address, addresses, ADDRESSES_MOST));
    case 2: {
        coir_case cases[] = {coir_case_resolve(name->address, addresses, ADDRESSES_MOST),
                             coir_case_after(some_time())};
        int won = coir_select(cases, 2);
        return won < 0 ? won : won ? -ETIME : (int)cases[0].result;
    }
    default:
        options.family = below(2) ? COIR_IPV4 : COIR_IPV6;
        return coir_resolve_with(name->address, &options, addresses, ADDRESSES_MOST);
    }
}

static void resolve(const struct name *name)
{
    coir_address addresses[ADDRESSES_MOST];
    coir_time begin = coir_now();
    int rc = ask(name, addresses);
    bool steady = name->changed + 2 * keep_time < begin;
    if (rc == -ETIME)
        return;
    MUST(rc > 0 || rc == -COIR_ENAME || rc == -COIR_ENAMESERVER);
    if (steady && name->now.fails)
        MUST_BE(rc, -COIR_ENAMESERVER);
    if (steady && rc > 0)
        MUST(name->now.addresses[0] && !name->now.fails);
    check_addresses(addresses, rc);
}

static void resolve_number(void)
{
    static const struct {
        const char *text, *found; /* ...in any family: NULL: it is no number */
        enum coir_family family;
        const char *four; /* of IPv4 alone */
    } numbers[] = {
        {"192.0.2.1:80", "192.0.2.1:80", COIR_IPV4, "192.0.2.1:80"},
        {"[2001:db8::1]:80", "[2001:db8::1]:80", COIR_IPV6, NULL},
        {":80", "[::]:80", COIR_IPV6, "0.0.0.0:80"},
    };
    size_t which = below(sizeof numbers / sizeof *numbers);
    coir_resolve_options options = COIR_RESOLVE_OPTIONS;
    coir_address addresses[2];
    coir_time begin = coir_now();
    char text[64];
    MUST_BE(coir_resolve(numbers[which].text, addresses, 2), 1);
    MUST(coir_address_format(&addresses[0], text, sizeof text) > 0);
    MUST_BE(strcmp(text, numbers[which].found), 0);
    options.family = COIR_IPV4;
    int rc = coir_resolve_with(numbers[which].text, &options, addresses, 2);
    MUST_BE(rc, numbers[which].four ? 1 : -COIR_ENAME);
    if (rc == 1) {
        MUST(coir_address_format(&addresses[0], text, sizeof text) > 0);
        MUST_BE(strcmp(text, numbers[which].four), 0);
    }
    MUST(coir_now() <= begin + slack);
    MUST_BE(coir_resolve("fd:3", addresses, 2), -COIR_EADDRESS);
    MUST_BE(coir_resolve("name.0x7f:80", addresses, 2), -COIR_EHOST);
}

static void resolve_in_time(const struct name *name)
{
    coir_time limit = coir_in(below(2) ? some_time() : patience);
    COIR_DEADLINE(limit);
    resolve(name);
    MUST(coir_now() <= limit + 50 * COIR_MS);
}

/* ---- connections ---- */

static void talk(coir_stream *stream)
{
    char byte = 'x', peer[64];
    MUST(coir_stream_peer(stream, peer, sizeof peer) > 0);
    MUST_BE(coir_write_all(stream, &byte, 1), 0);
    MUST_BE(coir_read(stream, &byte, 1), 1);
    MUST_BE(byte, 'x');
}

static void connect_to(const struct name *name)
{
    coir_stream *stream = NULL;
    coir_time begin = coir_now(), limit = below(3) ? COIR_NEVER : coir_in(some_time());
    int rc;
    {
        COIR_DEADLINE(limit);
        rc = coir_tcp_connect(name->address, &stream);
    }
    coir_time took = coir_now() - begin;
    bool steady = name->changed + 2 * keep_time < begin, sure = steady && limit == COIR_NEVER;
    if (sure && name->now.living && !name->now.fails) {
        int refusing = both_families ? 0 : name->now.living;
        coir_time answers = name->now.latency + 2 * far * (1 + refusing);
        answers += few_threads ? queue_time : 0;
        MUST_BE(rc, 0);
        MUST(took <= answers + name->now.silent * attempt_delay + slack);
    }
    if (rc == 0) {
        talk(stream);
        coir_close(stream);
    } else {
        MUST(!stream);
    }
    MUST(limit == COIR_NEVER || coir_now() <= limit + 2 * COIR_S);
}

/* To where nobody answers. */
static void connect_in_vain(void)
{
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    coir_stream *stream = NULL;
    coir_time begin = coir_now();
    options.attempt_timeout = 1 + some_time();
    int rc = coir_tcp_connect_with("192.0.2.1:80", &options, &stream);
    MUST_BE(rc, -ETIMEDOUT);
    MUST(coir_now() >= begin + options.attempt_timeout);
    MUST(coir_now() <= begin + options.attempt_timeout + slack);
    MUST(!stream);
    rc = coir_tcp_connect(":80",
                          &stream); /* to this host; or to any, on the simulator's own driver */
    MUST(rc == -ECONNREFUSED ? !stream : rc == 0);
    coir_close(stream);
}

static int be_a_client(void *arg)
{
    (void)arg;
    for (int i = 0; i < ACTS; i++) {
        struct name *name = &names[below(NAMES)];
        switch (below(7)) {
        case 0: say(name); break;
        case 1:
        case 2: resolve_in_time(name); break;
        case 3: resolve_number(); break;
        case 4: connect_in_vain(); break;
        default: connect_to(name); break;
        }
        coir_sleep_for(below(3) ? some_time() : 3 * COIR_S);
    }
    return 0;
}

/* ---- all of it ---- */

static int echo(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    return coir_read(stream, &byte, 1) == 1 ? coir_write_all(stream, &byte, 1) : 0;
}

static int serve(void *arg)
{
    return coir_serve_tcp(both_families ? ":80" : "0.0.0.0:80", echo, arg);
}

static int be_clients(void *arg)
{
    COIR_SCOPE(scope);
    coir_sleep_for(COIR_MS); /* the servers listen */
    for (int i = 0; i < NAMES; i++) {
        snprintf(names[i].name, sizeof names[i].name, "name%d", i);
        snprintf(names[i].address, sizeof names[i].address, "name%d:80", i);
        say(&names[i]);
    }
    for (int i = 0; i < CLIENTS; i++)
        MUST_BE(coir_go_anywhere(scope, be_a_client, arg), 0);
    return coir_scope_wait(scope);
}

int scenario(coir_sim *of)
{
    static const char *const hosts[SERVERS] = {"server0", "server1"};
    coir_config config = COIR_CONFIG;
    sim = of;
    memset(names, 0, sizeof names);
    both_families = below(2);
    config.deadlock = COIR_DEADLOCK_END; /* 6 */
    config.name_cache_time = keep_time;
    config.name_cache_max = 1 + below(4);
    if ((few_threads = below(2)))
        config.name_threads_max = 1 + below(THREADS_FEW);
    MUST_BE(coir_sim_configure(sim, &config), 0);
    coir_host *servers[SERVERS];
    for (int i = 0; i < SERVERS; i++)
        if (!(servers[i] = coir_sim_host(sim, hosts[i], serve, NULL)))
            return -ENOMEM;
    way = far = some_time() / 8;
    if (below(2))
        far += attempt_delay / 2 + (coir_time)below(COIR_MS);
    coir_sim_link(sim, NULL, NULL, (coir_link){.latency = way});
    coir_sim_link(sim, NULL, servers[1], (coir_link){.latency = far});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(1)});
    return coir_sim_host_main(sim, "clients", be_clients, NULL);
}
