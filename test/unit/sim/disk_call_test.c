/* Files of simulated disks, and what a loss of power leaves of them. */
#include "sim/disk.h"

#include <errno.h>
#include <fcntl.h>

#include "net.h"

enum { SECTOR = 512, SECTORS = 64 };

static void fill(struct ci_node *node, struct ci_file *file, char c, size_t len)
{
    char bytes[SECTOR];
    memset(bytes, c, sizeof bytes);
    for (size_t at = 0; at < len; at += SECTOR)
        CHECK_EQ(ci_disk_write(node, file, bytes, SECTOR, (int64_t)at), SECTOR);
}

TEST(files_are_found_by_their_path)
{
    struct net net;
    struct ci_file *file;
    net_open(&net, 1);
    CHECK_EQ(ci_disk_find(net.a, "x", O_RDWR, &file), -ENOENT);
    CHECK_EQ(ci_disk_find(net.a, "x", O_RDWR | O_CREAT, &file), 0);
    CHECK_EQ(ci_disk_find(net.a, "x", O_RDWR | O_CREAT | O_EXCL, &file), -EEXIST);
    CHECK_EQ(ci_disk_find(net.b, "x", O_RDWR, &file), -ENOENT); /* another disk */
    CHECK_EQ(ci_disk_find(net.a, "x", O_RDWR, &file), 0);
    fill(net.a, file, 'x', SECTOR);
    CHECK_EQ(ci_disk_length(file), SECTOR);
    CHECK_EQ(ci_disk_find(net.a, "x", O_RDWR | O_TRUNC, &file), 0);
    CHECK_EQ(ci_disk_length(file), 0);
    CHECK_EQ(ci_disk_write(net.a, file, "x", 1, 1 << 30), -EFBIG);
    net_close(&net);
}

/* What was synced is there; of what was written since, each sector is old or new. */
TEST(a_loss_of_power_keeps_what_was_synced)
{
    int old = 0, new = 0, longer = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct net net;
        struct ci_file *file;
        char byte;
        net_open(&net, seed);
        CHECK_EQ(ci_disk_find(net.a, "x", O_RDWR | O_CREAT, &file), 0);
        fill(net.a, file, 'o', SECTORS * SECTOR);
        CHECK_EQ(ci_disk_sync(net.a, file), 0);
        CHECK_EQ(ci_disk_sync(net.a, net.a->disk->root), 0);
        fill(net.a, file, 'n', (SECTORS + 1) * SECTOR);
        ci_world_kill(&net.world, net.a);
        struct ci_node *next = ci_world_add_node(&net.world, "a");
        int64_t len = ci_disk_length(file);
        CHECK(len == SECTORS * SECTOR || len == (SECTORS + 1) * SECTOR);
        longer += len > SECTORS * SECTOR;
        for (int i = 0; i < SECTORS; i++) {
            CHECK_EQ(ci_disk_read(next, file, &byte, 1, i * SECTOR), 1);
            CHECK(byte == 'o' || byte == 'n');
            byte == 'o' ? old++ : new ++;
        }
        CHECK_EQ(ci_disk_write(net.a, file, "x", 1, 0), -EIO); /* the dead host's */
        net_close(&net);
    }
    CHECK(old > 100 && new > 100 && longer > 2 && longer < 18);
}
