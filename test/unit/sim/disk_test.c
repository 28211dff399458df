/* Operations on the descriptors of simulated files. */
#include "sim/disk.h"

#include <errno.h>
#include <fcntl.h>

#include "net.h"

TEST(operations_take_their_time_and_fail)
{
    struct net net;
    char text[4] = "";
    net_open(&net, 1);
    coir_fd fd = ci_disk_open(net.a, "x", O_RDWR | O_CREAT);
    CHECK(ci_disk_is_file(fd));
    struct iovec out = {(char[]){"abc"}, 3}, in = {text, 3};
    struct ci_file_call write_call = {.kind = CI_FILE_WRITE, .fd = fd, .iov = &out, .count = 1},
                        read_call = {.kind = CI_FILE_READ, .fd = fd, .iov = &in, .count = 1},
                        sync_call = {.kind = CI_FILE_SYNC, .fd = fd};
    struct ci_op write = {.kind = CI_OP_FILE, .fd = fd, .call = &write_call},
                 read = {.kind = CI_OP_FILE, .fd = fd, .call = &read_call},
                 sync = {.kind = CI_OP_FILE, .fd = fd, .call = &sync_call};
    coir_time before = net.world.now;
    CHECK_EQ(net_run(&net, net.on_a, write), 3);
    CHECK(net.world.now > before);
    CHECK_EQ(net_run(&net, net.on_a, sync), 0);
    CHECK_EQ(net_run(&net, net.on_a, read), 3);
    CHECK_EQ(strcmp(text, "abc"), 0);
    net.a->faults.disk_full = 1;
    CHECK_EQ(net_run(&net, net.on_a, write), -ENOSPC);
    net.a->faults.disk_error = 1;
    CHECK_EQ(net_run(&net, net.on_a, read), -EIO);
    net.a->faults = (coir_faults){.disk_short = 1};
    int n = net_run(&net, net.on_a, read);
    CHECK(n > 0 && n < 3);
    ci_driver_close(net.on_a, fd);
    CHECK_EQ(net_run(&net, net.on_a, read), -EBADF);
    coir_fd only = ci_disk_open(net.a, "x", O_RDONLY);
    write_call.fd = write.fd = only;
    CHECK_EQ(net_run(&net, net.on_a, write), -EBADF);
    net_close(&net);
}
