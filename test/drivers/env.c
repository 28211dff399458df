#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "driver/readiness.h"
#include "env.h"
#include "harness.h"
#include "sim/completion.h"
#include "sim/driver.h"
#include "sim/event.h"
#include "sim/node.h"

struct env env;
uint32_t serial;

static void on_done(struct ci_op *op)
{
    struct counted *counted = ci_container_of(op, struct counted, op);
    CHECK(++counted->done == 1); /* exactly once */
}

/* Lets something happen: for a real driver, what comes within a moment; for a world, the next
 * thing. */
void pass(void)
{
    if (env.world && !ci_sim_driver_busy(env.driver)) {
        coir_time next = ci_world_next_event(env.world);
        if (next != COIR_NEVER && next > env.world->now)
            env.world->now = next;
        ci_world_run_due(env.world);
    }
    env.driver->kind->wait(env.driver, ci_driver_now(env.driver) + 20 * COIR_MS);
}

/* Starts an operation. True: complete at once. */
bool start(struct counted *counted, struct ci_op op)
{
    op.done = on_done;
    *counted = (struct counted){.op = op};
    return ci_driver_start(env.driver, &counted->op);
}

int finish(struct counted *counted)
{
    while (!counted->done)
        pass();
    return counted->op.result;
}

/* Cancels an operation, unless it is done: its result. */
int stop(struct counted *counted)
{
    return !counted->done && ci_driver_cancel(env.driver, &counted->op) ? counted->op.result
                                                                        : finish(counted);
}

int run(struct ci_op op)
{
    struct counted counted;
    return start(&counted, op) ? counted.op.result : finish(&counted);
}

int read_some(coir_fd fd, void *buf, size_t len)
{
    return run((struct ci_op){.fd = fd, .kind = CI_OP_READ, .buf = buf, .len = len});
}

int write_some(coir_fd fd, const void *data, size_t len)
{
    return run((struct ci_op){.fd = fd, .kind = CI_OP_WRITE, .data = data, .len = len});
}

/* Writes until a write waits: what was written before that one. */
size_t write_until_full(coir_fd fd, struct counted *waiting)
{
    static char data[1 << 20];
    for (size_t sent = 0;; sent += (size_t)waiting->op.result) {
        if (start(waiting,
                  (struct ci_op){.fd = fd, .kind = CI_OP_WRITE, .data = data, .len = sizeof data}))
            continue;
        for (int i = 0; i < 5 && !waiting->done; i++)
            pass();
        if (!waiting->done)
            return sent;
    }
}

void fill_up(coir_fd fd)
{
    struct counted writing;
    do
        write_until_full(fd, &writing);
    while (stop(&writing) >= 0);
    CHECK_EQ(writing.op.result, -ECANCELED);
}

int wait_events(coir_fd fd, int events)
{
    return run((struct ci_op){.fd = fd, .kind = CI_OP_POLL, .events = (uint8_t)events});
}

void close_fd(coir_fd fd)
{
    ci_driver_close(env.driver, fd);
}

int accept_one(void)
{
    return run((struct ci_op){.fd = env.listener, .kind = CI_OP_ACCEPT, .len = serial});
}

struct sockaddr_storage listener_address(void)
{
    struct sockaddr_storage address;
    socklen_t len;
    CHECK_EQ(env.driver->kind->address(env.driver, env.listener, false, &address, &len), 0);
    return address;
}

void make_pair(void)
{
    struct sockaddr_storage address = listener_address();
    struct counted connecting;
    env.client = env.driver->kind->socket(env.driver, AF_INET);
    CHECK(env.client >= 0);
    struct ci_op connect = {.fd = env.client,
                            .kind = CI_OP_CONNECT,
                            .address = (struct sockaddr *)&address,
                            .count = sizeof(struct sockaddr_in)};
    bool at_once = start(&connecting, connect);
    env.server = accept_one();
    CHECK(env.server >= 0);
    CHECK_EQ(at_once ? connecting.op.result : finish(&connecting), 0);
}

void close_pair(void)
{
    close_fd(env.client);
    close_fd(env.server);
}

bool completes_soon(const struct counted *counted)
{
    coir_time deadline = ci_driver_now(env.driver) + COIR_S / 4;
    while (!counted->done && ci_driver_now(env.driver) < deadline) {
        if (env.world)
            pass();
        else
            env.driver->kind->wait(env.driver, deadline);
    }
    return counted->done && ci_driver_now(env.driver) < deadline;
}

void cancel_a_read(coir_fd fd)
{
    char byte;
    struct counted reading;
    CHECK(!start(&reading, (struct ci_op){.fd = fd, .kind = CI_OP_READ, .buf = &byte, .len = 1}));
    CHECK_EQ(stop(&reading), -ECANCELED);
}

void read_all(coir_fd fd, size_t len)
{
    static char in[1 << 16];
    for (size_t got = 0; got < len;) {
        int n = read_some(fd, in, len - got < sizeof in ? len - got : sizeof in);
        CHECK(n > 0);
        got += (size_t)n;
    }
}

void write_all(coir_fd fd, size_t len)
{
    static const char out[1 << 16];
    for (size_t done = 0; done < len;) {
        int n = write_some(fd, out, len - done < sizeof out ? len - done : sizeof out);
        CHECK(n > 0);
        done += (size_t)n;
    }
}

enum { CROWD = 64 };
static coir_fd crowd[CROWD][2];

void crowd_in(void)
{
    static char flood[1 << 17];
    for (int i = 0; i < CROWD; i++) {
        crowd[i][0] = env.client;
        crowd[i][1] = env.server;
        cancel_a_read(env.server);
        CHECK(send(env.client, flood, sizeof flood, MSG_DONTWAIT) > 0);
        env.driver->kind->wait(env.driver, 0);
        make_pair();
    }
}

void crowd_out(void)
{
    for (int i = 0; i < CROWD; i++) {
        close_fd(crowd[i][0]);
        close_fd(crowd[i][1]);
    }
}

void listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ci_listen listen = {
        .address = (struct sockaddr *)&address, .address_len = sizeof address, .backlog = 16};
    env.listener = env.driver->kind->listen(env.driver, &listen);
    serial++;
    CHECK(env.listener >= 0);
}

/* False: it is io_uring, and that does not work here. */
static bool open_or_leave_out(void)
{
    int rc = ci_driver_open(env.name, &ci_system_allocator, &env.driver);
    if (rc < 0 && strcmp(env.name, "io_uring") == 0) {
        printf("left out: io_uring does not work here: %s\n", coir_strerror(rc));
        return false;
    }
    CHECK_EQ(rc, 0);
    return true;
}

void open_another(struct ci_driver **ret_driver)
{
    CHECK_EQ(ci_driver_open(env.name, &ci_system_allocator, ret_driver), 0);
}

void on_driver(const char *name, void (*body)(void))
{
    struct ci_world world;
    env = (struct env){.name = name};
    if (strcmp(name, "sim") == 0) {
        ci_world_init(&world, 7);
        env.world = &world;
        CHECK_EQ(ci_sim_driver_open(&world, ci_world_add_node(&world, "here"), &env.driver), 0);
    } else if (!open_or_leave_out()) {
        return;
    }
    listen_anywhere();
    make_pair();
    body();
    close_fd(env.listener);
    env.driver->kind->free(env.driver);
    if (env.world)
        ci_world_done(&world);
}
