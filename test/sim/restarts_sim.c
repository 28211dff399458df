/* Servers that are replaced while clients come: each takes over the listening socket of the one
 * before, which serves to the end what it has accepted. They listen on a port, with fast open or
 * without, at the address of a name that takes time; or on a Unix socket, whose file is left behind
 * at last, in a directory that another program may have locked. Beside them are connections and
 * sockets for datagrams that were open before. Only over the simulated kernel: the simulator's own
 * driver has no descriptors.
 *
 * What must hold:
 * 1. Every visit is served, whoever is being replaced meanwhile: none is refused or reset.
 * 2. A visit is served by a server that had not ended when it began.
 * 3. A listener that was taken over has the address of the one before.
 * 4. What cannot be listened on, or taken over, is an error that says why, and a descriptor stays
 *    the caller's. Each listen that fails is logged as one error, with the address.
 * 5. A passed connection goes on where it is, and a passed socket for datagrams receives what is
 *    sent to its address.
 * 6. A file that was left behind is replaced, unless another program has locked its directory for
 *    longer than a second: then nothing listens. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/udp.h>
#include <coir/unix.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum {
    RESTARTS = 5,
    SERVERS = RESTARTS + 1,
    CLIENTS = 4,
    VISITS = 6,
    DATAGRAMS = 4,
    MODE = 0600,
    OWN = 0x0a000001 /* of the first host */
};
static const coir_time patience = 100 * COIR_S, drain_time = 50 * COIR_S,
                       locked_time = 1 * COIR_S; /* that a listen waits for a locked directory */
static const char directory[] = "/run", path[] = "unix:/run/server";

struct server {
    int number;
    coir_listener *listener;
    coir_handle handle;
    coir_time ended; /* 0: not yet */
};

static struct {
    coir_host *host;
    bool is_unix, fast_open, listens;
    size_t backlog;
    coir_time span;
    struct server servers[SERVERS];
    int clients, failed, logged; /* clients: that are not done */
} w;

static void rest(coir_time most)
{
    MUST_BE(coir_sleep_for((coir_time)below((uint64_t)most >> below(8))), 0);
}

/* ---- servers ---- */

static int answer(coir_stream *stream, void *arg)
{
    const struct server *server = arg;
    char byte;
    MUST_BE(coir_read(stream, &byte, 1), 1);
    rest(20 * COIR_MS);
    byte = (char)server->number;
    MUST_BE(coir_write_all(stream, &byte, 1), 0);
    return 0;
}

static int serve(void *arg)
{
    struct server *server = arg;
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.listener = server->listener;
    options.drain_timeout = drain_time;
    int rc = coir_serve_tcp_with(&options, answer, server);
    MUST(rc == 0 || rc == -ECANCELED);
    coir_listener_close(server->listener);
    server->ended = coir_now();
    return 0;
}

static void start(coir_scope *scope, struct server *server)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &server->handle;
    MUST_BE(coir_go_with(scope, &options, serve, server), 0);
}

static int listen_in_vain(const char *address, const coir_listen_options *options)
{
    coir_listener *listener = NULL;
    int rc = coir_tcp_listen_with(address, options, &listener);
    MUST(rc < 0 && !listener);
    w.failed++;
    return rc;
}

static void listen_first(coir_listener **ret_listener)
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    options.backlog = w.backlog;
    options.unix_mode = w.is_unix && below(2) ? MODE : 0;
    options.fast_open = w.fast_open ? 1 + below(8) : 0;
    MUST_BE(coir_tcp_listen_with(w.is_unix ? path : "me:80", &options, ret_listener), 0);
}

/* fd: of a listening socket. */
static void take_wrongly(coir_fd fd, const char *text)
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    coir_stream *stream = NULL;
    coir_udp *udp = NULL;
    (void)fd;
    switch (below(5)) {
    case 0: MUST_BE(coir_tcp_connect(text, &stream), -COIR_EPASSED); break;
    case 1: MUST_BE(coir_udp_open(text, NULL, &udp), -COIR_EPASSED); break;
    case 2:
        options.unix_mode = MODE; /* it makes no file */
        MUST_BE(listen_in_vain(text, &options), -EINVAL);
        break;
    case 3:
        if (!w.is_unix)
            break;
        options.fast_open = 1;
        MUST_BE(listen_in_vain(text, &options), -EOPNOTSUPP);
        break;
    default: break;
    }
    MUST(!stream && !udp);
}

static void take_over(const struct server *from, struct server *to)
{
    char text[32], before[64], after[64];
    coir_fd fd = coir_listener_share(from->listener);
    MUST(fd >= 0);
    snprintf(text, sizeof text, "fd:%d", fd);
    take_wrongly(fd, text);
    MUST_BE(coir_tcp_listen(text, &to->listener), 0);
    MUST(coir_listener_local(from->listener, before, sizeof before) > 0);
    MUST(coir_listener_local(to->listener, after, sizeof after) > 0);
    MUST_BE(strcmp(before, after), 0); /* 3 */
}

/* The next one begins before the last one ends, or just afterwards; or before it has begun. */
static void restart(coir_scope *scope, struct server *from, struct server *to)
{
    take_over(from, to);
    uint64_t order = below(3);
    if (order == 0)
        start(scope, to);
    if (order < 2)
        rest(5 * COIR_MS);
    coir_cancel(&from->handle);
    for (coir_time limit = coir_in(patience); order == 2 && below(20) && !from->ended;) {
        MUST(coir_now() < limit);
        rest(5 * COIR_MS);
    }
    if (order > 0)
        start(scope, to);
}

/* ---- what cannot be listened on ---- */

static void listen_wrongly(void)
{
    static const struct {
        const char *address;
        int error;
    } wrong[] = {{"192.0.2.1:80", -EADDRNOTAVAIL}, {"fd:999", -COIR_EPASSED},
                 {"systemd:web", -COIR_EPASSED},   {"unknown:80", -COIR_ENAME},
                 {"unix:", -COIR_EPATH},           {"me", -COIR_EPORT}};
    for (size_t i = below(2); i < sizeof wrong / sizeof *wrong; i += 1 + below(3))
        MUST_BE(listen_in_vain(wrong[i].address, NULL), wrong[i].error);
}

/* ---- sockets that were open before ---- */

/* To the server beside it. */
static void take_connection(void)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = htonl(OWN)};
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    coir_stream *stream = NULL;
    char text[32], byte = 'x';
    size_t count;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    MUST(fd >= 0);
    snprintf(text, sizeof text, "fd:%d", fd);
    MUST_BE(coir_tcp_connect(text, &stream), -COIR_EPASSED); /* it is not connected */
    MUST_BE(connect(fd, (const struct sockaddr *)&to, sizeof to), -1);
    MUST(coir_fd_wait(fd, COIR_WRITE) > 0);
    MUST_BE(listen_in_vain(text, NULL), -COIR_EPASSED);
    MUST_BE(send(fd, &byte, 1, 0), 1);
    options.fast_open = true;
    MUST_BE(coir_tcp_connect_with(text, &options, &stream), -COIR_EADDRESS);
    MUST_BE(coir_tcp_connect(text, &stream), 0);
    MUST_BE(coir_unix_send_fds(stream, &byte, 1, &fd, 1), -EOPNOTSUPP);
    MUST_BE(coir_unix_recv_fds(stream, &byte, 1, &fd, 1, &count), -EOPNOTSUPP);
    MUST_BE(coir_read(stream, &byte, 1), 1); /* the server answers the first byte */
    MUST_BE(coir_read(stream, &byte, 1), 0);
    coir_close(stream);
}

static void exchange(coir_udp *own, coir_udp *other)
{
    char byte = (char)below(100), got;
    coir_address from;
    MUST_BE(coir_udp_send(other, &byte, 1), 1);
    MUST_BE(coir_udp_recv(own, &got, 1, &from), 1);
    MUST_BE(got, byte);
    MUST_BE(coir_udp_send_to(own, &byte, 1, &from), 1);
    MUST_BE(coir_udp_recv(other, &got, 1, NULL), 1);
    MUST_BE(got, byte);
}

static void take_datagrams(void)
{
    coir_udp_options options = COIR_UDP_OPTIONS;
    coir_udp *own = NULL, *other;
    coir_address group;
    char text[32], local[64];
    int fd = posix_datagram(53);
    MUST(fd >= 0);
    snprintf(text, sizeof text, "fd:%d", fd);
    MUST_BE(listen_in_vain(text, NULL), -COIR_EPASSED);
    options.address = text;
    options.multicast_interface = "none";
    MUST_BE(coir_udp_open_with(&options, &own), -ENODEV);
    options.multicast_interface = NULL;
    options.peer = "127.0.0.1:53";
    MUST_BE(coir_udp_open_with(&options, &own), -COIR_EADDRESS);
    options.peer = NULL;
    options.receive_buffer = below(2) ? 1 << 16 : 0;
    MUST_BE(coir_udp_open_with(&options, &own), 0);
    MUST(coir_udp_local(own, local, sizeof local) > 0);
    MUST_BE(strcmp(local, "0.0.0.0:53"), 0);
    MUST_BE(coir_udp_open("127.0.0.1:0", "127.0.0.1:53", &other), 0);
    for (int i = 0; i < DATAGRAMS; i++)
        exchange(own, other);
    MUST_BE(coir_address_parse("224.0.0.9:53", &group), 0);
    MUST_BE(coir_udp_join(own, &group, "none"), -ENODEV);
    coir_udp_close(own);
    coir_udp_close(other);
}

/* ---- the file that is left behind ---- */

static int unlock_later(void *arg)
{
    coir_time *until = arg;
    int locked = posix_lock_directory(directory);
    MUST(locked >= 0);
    MUST_BE(coir_sleep_until(*until), 0);
    close(locked);
    return 0;
}

static void listen_again(bool has_file)
{
    coir_listener *listener = NULL;
    coir_stream *stream, *accepted;
    coir_time begin = coir_now(), until = begin + (coir_time)below(2 * locked_time);
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, unlock_later, &until), 0);
    MUST_BE(coir_yield(), 0);
    int rc = coir_tcp_listen(path, &listener);
    if (has_file && until > begin + locked_time + COIR_S / 10)
        MUST_BE(rc, -EWOULDBLOCK); /* 6 */
    if (!has_file || until < begin + locked_time - COIR_S / 10)
        MUST_BE(rc, 0);
    if (rc < 0) {
        MUST_BE(rc, -EWOULDBLOCK);
        MUST(!listener && coir_now() >= begin + locked_time);
        w.failed++;
        MUST_BE(coir_tcp_connect(path, &stream), -ECONNREFUSED);
    }
    MUST_BE(coir_scope_wait(scope), 0);
    if (rc < 0)
        MUST_BE(coir_tcp_listen(path, &listener), 0);
    MUST_BE(coir_tcp_connect(path, &stream), 0);
    MUST_BE(coir_accept(listener, &accepted), 0);
    coir_close(accepted);
    coir_close(stream);
    coir_listener_close(listener);
    MUST_BE(coir_tcp_connect(path, &stream), -ENOENT); /* it removes its own */
}

/* ---- clients ---- */

static void visit(void)
{
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    coir_stream *stream;
    char number, byte = 'x';
    coir_time begin = coir_now();
    options.fast_open = !w.is_unix && below(2);
    MUST_BE(coir_tcp_connect_with(w.is_unix ? path : "me:80", &options, &stream), 0); /* 1 */
    if (below(2))
        rest(20 * COIR_MS);
    MUST_BE(coir_write_all(stream, &byte, 1), 0);
    MUST_BE(coir_read(stream, &number, 1), 1);
    MUST(number >= 0 && number < SERVERS);
    coir_time ended = w.servers[(int)number].ended;
    MUST(!ended || ended >= begin); /* 2 */
    MUST_BE(coir_read(stream, &byte, 1), 0);
    coir_close(stream);
}

static int be_a_client(void *arg)
{
    (void)arg;
    COIR_DEADLINE(coir_in(patience));
    for (int i = 0; i < VISITS; i++) {
        rest(w.span);
        visit();
    }
    w.clients--;
    return 0;
}

static void be_clients(coir_scope *scope)
{
    for (int i = 0; i < CLIENTS; i++)
        MUST_BE(coir_go_anywhere(scope, be_a_client, NULL), 0);
}

/* ---- all of it ---- */

static int run_servers(void *arg)
{
    int last = 0;
    (void)arg;
    listen_wrongly();
    listen_first(&w.servers[0].listener);
    {
        COIR_SCOPE(scope);
        start(scope, &w.servers[0]);
        w.listens = true;
        if (w.is_unix)
            be_clients(scope);
        for (uint64_t restarts = below(SERVERS); restarts; restarts--, last++) {
            rest(w.span);
            restart(scope, &w.servers[last], &w.servers[last + 1]);
        }
        if (!w.is_unix)
            take_connection();
        while (w.clients)
            MUST_BE(coir_sleep_for(5 * COIR_MS), 0);
        coir_cancel(&w.servers[last].handle);
        COIR_DEADLINE(coir_in(drain_time));
        MUST_BE(coir_scope_wait(scope), 0);
    }
    take_datagrams();
    if (w.is_unix)
        listen_again(last > 0);
    MUST_BE(w.logged, w.failed); /* 4 */
    return 0;
}

static int be_everybody(void *arg)
{
    (void)arg;
    while (!w.listens)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    if (!w.is_unix) {
        COIR_SCOPE(scope);
        be_clients(scope);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    chaos_await_end(w.host, 2 * patience);
    return 0;
}

static void count_error(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level != COIR_LOG_ERROR)
        return;
    MUST(strstr(line, "cannot listen on \""));
    w.logged++;
}

int scenario(coir_sim *sim)
{
    coir_config config = COIR_CONFIG;
    coir_name_answer me = {.addresses = "10.0.0.1"}; /* the server */
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    for (int i = 0; i < SERVERS; i++)
        w.servers[i].number = i;
    w.is_unix = below(2);
    w.fast_open = !w.is_unix && below(2);
    w.backlog = below(2) ? 1 + below(3) : 0;
    w.span = below(2) ? 20 * COIR_MS : 300 * COIR_MS;
    w.clients = CLIENTS;
    config.log = count_error;
    MUST_BE(coir_sim_configure(sim, &config), 0);
    if (!(w.host = coir_sim_host(sim, "server", run_servers, NULL)))
        return -ENOMEM;
    me.latency = me.latency_ipv6 = (coir_time)below(20 * COIR_MS);
    me.size = sizeof me;
    MUST_BE(coir_sim_set_name(sim, "me", &me), 0);
    coir_sim_link(sim, NULL, NULL, (coir_link){.latency = (coir_time)below(500 * COIR_US)});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
