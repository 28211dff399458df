/* Descriptors of simulated sockets, and the operations that are pending on them. */
#include "sim/socket.h"

#include <errno.h>

#include "net.h"

TEST(the_lowest_descriptor_is_used_again_at_once)
{
    struct net net;
    net_open(&net, 1);
    coir_fd first = net.on_a->kind->socket(net.on_a, AF_INET);
    coir_fd second = net.on_a->kind->socket(net.on_a, AF_INET);
    uint64_t serial = ci_socket_of(&net.world, first)->serial;
    ci_driver_close(net.on_a, first);
    CHECK(!ci_socket_of(&net.world, first));
    CHECK_EQ(net.on_a->kind->socket(net.on_a, AF_INET), first);
    CHECK(!ci_socket_find(&net.world, first, serial)); /* another one has the number */
    CHECK(ci_socket_of(&net.world, second));
    CHECK(!ci_socket_of(&net.world, -1) && !ci_socket_of(&net.world, 1000));
    net_close(&net);
}

static int found, missed;

static void look(struct ci_world *world, struct ci_socket *socket, size_t amount, void *data)
{
    (void)world;
    CHECK(amount == 5 && !data);
    socket ? found++ : missed++;
}

TEST(an_event_of_a_closed_socket_does_not_find_the_next_one)
{
    struct net net;
    net_open(&net, 1);
    coir_fd fd = net.on_a->kind->socket(net.on_a, AF_INET);
    ci_socket_schedule(&net.world, net.world.now, look, ci_socket_of(&net.world, fd), 5, NULL);
    ci_world_run_due(&net.world);
    ci_socket_schedule(&net.world, net.world.now, look, ci_socket_of(&net.world, fd), 5, NULL);
    ci_driver_close(net.on_a, fd);
    CHECK_EQ(net.on_a->kind->socket(net.on_a, AF_INET), fd);
    ci_world_run_due(&net.world);
    CHECK(found == 1 && missed == 1);
    net_close(&net);
}

/* As the seed says, one of two ways; both come in a few seeds. */
TEST(a_cancelled_operation_is_withdrawn_or_completes)
{
    int withdrawn = 0, completed = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct net net;
        coir_fd client, server;
        char byte;
        net_open(&net, seed);
        net_pair(&net, &client, &server);
        struct ci_op op = {
            .kind = CI_OP_READ, .fd = server, .buf = &byte, .len = 1, .done = net_done};
        CHECK(!ci_driver_start(net.on_a, &op) && op.pending);
        if (ci_driver_cancel(net.on_a, &op))
            withdrawn++;
        else
            completed += net_finish(&net, &op) == -ECANCELED;
        CHECK_EQ(op.result, -ECANCELED);
        CHECK(!op.pending && !ci_socket_of(&net.world, server)->pending);
        net_close(&net);
    }
    CHECK(withdrawn > 5 && completed > 5);
    CHECK_EQ(withdrawn + completed, 40);
}

TEST(an_operation_that_may_not_wait_is_refused)
{
    struct net net;
    coir_fd client, server;
    char byte;
    net_open(&net, 1);
    net_pair(&net, &client, &server);
    CHECK_EQ(
        net_run(&net, net.on_a,
                (struct ci_op){
                    .kind = CI_OP_READ, .fd = server, .buf = &byte, .len = 1, .no_wait = true}),
        -EAGAIN);
    CHECK_EQ(net_read(&net, net.on_a, 99, &byte, 1), -EBADF);
    net.a->faults.no_memory = 1;
    CHECK_EQ(net_read(&net, net.on_a, server, &byte, 1), -ENOMEM);
    net_close(&net);
}
