/* One attempt at each kind of operation: its result, or -EAGAIN at once. */
#include "driver/nonblocking.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

TEST(what_would_block_says_so)
{
    char bytes[4];
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct iovec piece = {bytes, sizeof bytes};
    struct ci_op read_op = {.kind = CI_OP_READ, .fd = pair[0], .buf = bytes, .len = sizeof bytes};
    struct ci_op readv_op = {.kind = CI_OP_READV, .fd = pair[0], .iov = &piece, .count = 1};
    struct ci_op write_op = {.kind = CI_OP_WRITE, .fd = pair[1], .data = "abcd", .len = 4};
    struct ci_op writev_op = {.kind = CI_OP_WRITEV, .fd = pair[1], .iov = &piece, .count = 1};
    CHECK_EQ(ci_op_attempt(&read_op), -EAGAIN);
    CHECK_EQ(ci_op_attempt(&readv_op), -EAGAIN);
    CHECK_EQ(ci_op_attempt(&write_op), 4);
    CHECK_EQ(ci_op_attempt(&read_op), 4);
    CHECK_EQ(ci_op_attempt(&writev_op), 4);
    CHECK_EQ(ci_op_attempt(&readv_op), 4);
    struct ci_op poll_op = {.kind = CI_OP_POLL, .fd = pair[0], .events = COIR_READ};
    CHECK_EQ(ci_op_attempt(&poll_op), -EINVAL); /* it makes no call */
    close(pair[1]);
    CHECK_EQ(ci_op_attempt(&read_op), 0);
    close(pair[0]);
    CHECK_EQ(ci_op_attempt(&read_op), -EBADF);
}
