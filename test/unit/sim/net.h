/* Two hosts in a simulated world, "a" and "b", each with a driver, without any runtime. */
#ifndef TEST_UNIT_SIM_NET_H
#define TEST_UNIT_SIM_NET_H

#include <netinet/in.h>
#include <string.h>

#include "harness.h"
#include "sim/completion.h"
#include "sim/driver.h"
#include "sim/event.h"
#include "sim/node.h"

struct net {
    struct ci_world world;
    struct ci_node *a, *b;
    struct ci_driver *on_a, *on_b;
};

static inline void net_open(struct net *net, uint64_t seed)
{
    ci_world_init(&net->world, seed);
    CHECK((net->a = ci_world_add_node(&net->world, "a")));
    CHECK((net->b = ci_world_add_node(&net->world, "b")));
    CHECK_EQ(ci_sim_driver_open(&net->world, net->a, &net->on_a), 0);
    CHECK_EQ(ci_sim_driver_open(&net->world, net->b, &net->on_b), 0);
}

static inline void net_close(struct net *net)
{
    ci_world_done(&net->world);
    net->on_a->kind->free(net->on_a);
    net->on_b->kind->free(net->on_b);
}

/* Lets the next event happen, and both drivers report. False: there is none. */
static inline bool net_pass(struct net *net)
{
    coir_time next = ci_world_next_event(&net->world);
    if (next != COIR_NEVER && next > net->world.now)
        net->world.now = next;
    ci_world_run_due(&net->world);
    for (int i = 0; i < 100; i++) { /* the seed may put a report off, but not for ever */
        net->on_a->kind->wait(net->on_a, 0);
        net->on_b->kind->wait(net->on_b, 0);
    }
    return next != COIR_NEVER;
}

static inline void net_done(struct ci_op *op)
{
    (void)op;
}

/* The operation's result, when it has been reported. */
static inline int net_finish(struct net *net, const struct ci_op *op)
{
    while (op->pending)
        if (!net_pass(net) && op->pending)
            test_fail(__FILE__, __LINE__, "the operation never completes");
    return op->result;
}

static inline int net_run(struct net *net, struct ci_driver *driver, struct ci_op op)
{
    op.done = net_done;
    return ci_driver_start(driver, &op) ? op.result : net_finish(net, &op);
}

static inline struct sockaddr_in net_address(const struct ci_node *node, unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(10u << 24 | (unsigned)node->number)};
}

static inline coir_fd net_listen(struct net *net, unsigned port, int backlog)
{
    struct sockaddr_in address = net_address(net->a, port);
    struct ci_listen listen = {
        .address = (struct sockaddr *)&address, .address_len = sizeof address, .backlog = backlog};
    return net->on_a->kind->listen(net->on_a, &listen);
}

/* A stream of "b" that connects to a port of "a": 0 or an error, when the answer has come. */
static inline int net_connect(struct net *net, unsigned port, coir_fd *ret_client)
{
    struct sockaddr_in address = net_address(net->a, port);
    *ret_client = net->on_b->kind->socket(net->on_b, AF_INET);
    CHECK(*ret_client >= 0);
    return net_run(net, net->on_b,
                   (struct ci_op){.kind = CI_OP_CONNECT,
                                  .fd = *ret_client,
                                  .address = (struct sockaddr *)&address,
                                  .count = sizeof address});
}

/* Connects, and accepts. */
static inline void net_pair(struct net *net, coir_fd *ret_client, coir_fd *ret_server)
{
    coir_fd listener = net_listen(net, 7777, 4);
    CHECK(listener >= 0);
    CHECK_EQ(net_connect(net, 7777, ret_client), 0);
    *ret_server = net_run(net, net->on_a, (struct ci_op){.kind = CI_OP_ACCEPT, .fd = listener});
    CHECK(*ret_server >= 0);
    ci_driver_close(net->on_a, listener);
}

static inline int net_write(struct net *net, struct ci_driver *driver, coir_fd fd, const char *text)
{
    return net_run(
        net, driver,
        (struct ci_op){.kind = CI_OP_WRITE, .fd = fd, .data = text, .len = strlen(text)});
}

static inline int net_read(struct net *net, struct ci_driver *driver, coir_fd fd, char *text,
                           size_t size)
{
    return net_run(net, driver,
                   (struct ci_op){.kind = CI_OP_READ, .fd = fd, .buf = text, .len = size});
}

#endif
