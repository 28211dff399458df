/* Hosts' ends of the network: which node takes over which, and the memory that faults refuse. */
#include "sim/node.h"

#include <fcntl.h>

#include "net.h"
#include "sim/disk.h"

TEST(a_dead_host_leaves_its_address_and_its_disk)
{
    struct net net;
    net_open(&net, 1);
    struct ci_file *file, *found;
    CHECK_EQ(ci_disk_find(net.a, "notes", O_CREAT | O_RDWR, &file), 0);
    CHECK_EQ(ci_disk_sync(net.a, net.a->disk->root), 0);
    int number = net.a->number;
    struct ci_node *other = ci_world_add_node(&net.world, "a"); /* the first one is up */
    CHECK(other->number != number && other->disk != net.a->disk);
    ci_world_kill(&net.world, net.a);
    struct ci_node *next = ci_world_add_node(&net.world, "a");
    CHECK_EQ(next->number, number);
    CHECK_EQ(net.a->number, 0);
    CHECK_EQ(ci_disk_find(next, "notes", O_RDWR, &found), 0);
    CHECK(found == file);
    net_close(&net);
}

TEST(of_several_dead_hosts_of_a_name_each_is_replaced_once)
{
    struct net net;
    net_open(&net, 1);
    struct ci_node *twin = ci_world_add_node(&net.world, "a");
    int numbers[] = {net.a->number, twin->number};
    struct ci_disk *disks[] = {net.a->disk, twin->disk};
    ci_world_kill(&net.world, net.a);
    ci_world_kill(&net.world, twin);
    for (int i = 0; i < 2; i++) { /* the oldest first */
        const struct ci_node *next = ci_world_add_node(&net.world, "a");
        CHECK_EQ(next->number, numbers[i]);
        CHECK(next->disk == disks[i]);
    }
    net_close(&net);
}

TEST(memory_is_counted_and_refused)
{
    struct net net;
    net_open(&net, 1);
    const coir_allocator *allocator = &net.a->allocator;
    void *memory = ci_alloc(allocator, 100);
    CHECK(memory);
    CHECK_EQ(net.a->memory, 100);
    net.a->faults.no_memory = 1;
    CHECK(!ci_alloc(allocator, 100));
    CHECK_EQ(net.a->memory, 100);
    ci_free(allocator, memory, 100);
    CHECK_EQ(net.a->memory, 0);
    net_close(&net);
}
