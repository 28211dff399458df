#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "sim/address.h"
#include "sim/disk.h"
#include "sim/event.h"
#include "sim/link.h"
#include "sim/name.h"
#include "sim/node.h"
#include "sim/socket.h"

void ci_world_init(struct ci_world *world, uint64_t seed)
{
    memset(world, 0, sizeof *world); /* it is too large for a stack */
    world->random.state = seed;
    world->next_port = CI_PORT_FIRST;
    world->trace_hash = 0xcbf29ce484222325u;
    world->now = COIR_S;
    world->faults.random.state = ~seed;
    world->nodes_tail = &world->nodes;
    ci_random_next(&world->random);
}

void ci_world_done(struct ci_world *world)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++)
        ci_socket_close(world, (coir_fd)fd);
    ci_disk_close_all(world);
    ci_world_free_events(world);
    free(world->sockets);
    ci_world_free_nodes(world);
    ci_world_free_links(world);
    ci_world_free_names(world);
}
