/* The allowed sizes of reads and writes, the same for every driver and for streams without one.
 *
 * - A transfer of no bytes returns 0 at once, whatever the state of the stream.
 * - A negative count of pieces, or a piece of more bytes than a result can say, is -EINVAL.
 * - An attempt begins with a piece that is not empty, so that 0 from a read is the end of the
 *   stream. It has at most CI_PIECES_MAX pieces, the kernel's limit: with more, the transfer is
 *   short.
 */
#ifndef CI_DRIVER_COUNT_H
#define CI_DRIVER_COUNT_H

#include <errno.h>

#include "base/compiler.h"
#include "driver/driver.h"

enum { CI_PIECES_MAX = 1024 };

/* Trims a vector to what an attempt may transfer. True: there is nothing to transfer, `result` is
 * set. */
static inline bool ci_count_trim_vector(struct ci_op *op)
{
    while (op->count > 0 && op->iov->iov_len == 0) {
        op->iov++;
        op->count--;
    }
    op->result = op->count < 0 ? -EINVAL : 0;
    if (op->count <= 0)
        return true;
    if (op->count > CI_PIECES_MAX)
        op->count = CI_PIECES_MAX;
    for (int i = 0; i < op->count; i++)
        if (ci_unlikely(op->iov[i].iov_len > INT64_MAX)) {
            op->result = -EINVAL;
            return true;
        }
    return false;
}

/* The same for any operation; only reads and writes of streams are changed. */
CI_INLINE bool ci_count_trim(struct ci_op *op)
{
    if (op->kind == CI_OP_READ || op->kind == CI_OP_WRITE) {
        op->result = 0;
        return ci_unlikely(op->len == 0);
    }
    return (op->kind == CI_OP_READV || op->kind == CI_OP_WRITEV) && ci_count_trim_vector(op);
}

#endif
