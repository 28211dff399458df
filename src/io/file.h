/* Calls on files as futures, for this layer. */
#ifndef CI_IO_FILE_H
#define CI_IO_FILE_H

#include "coir/dir.h"
#include "coir/offload.h"
#include "io/io.h"
#include "sys/statx.h"

/* A call that makes several operations refers to its files until it ends: they stay open, although
 * coir_file_close is called. NULL is the working directory. */
void ci_file_ref(coir_file *file);
void ci_file_unref(coir_file *file);

/* A reference that holds the position too, if the call uses it. */
struct ci_file_use {
    coir_file *file;
    bool positioned;
};

/* `*offset` becomes the file's position, where it is COIR_POSITION: 0; -EBUSY another call uses the
 * position; -EINVAL another negative offset. */
int ci_file_use_begin(struct ci_file_use *use, coir_file *file, int64_t *offset);

/* `moved`: the bytes by which the call moves the position; an error moves it by none. */
void ci_file_use_end(const struct ci_file_use *use, int64_t moved);

/* A call in progress. */
struct ci_file_op {
    coir_future future;
    coir_file *at, *to; /* what call.fd and call.to_fd are; NULL: the working directory, or none */
    struct ci_file_use use; /* of `at` */
    struct ci_file_call call;
    struct iovec one;              /* of a call with one buffer */
    coir_file *opened, **ret_file; /* of an open */
    int result;
    union {
        coir_wait_op turn;
        struct ci_io_op native;
        coir_offload_job job;
    };
};
CI_LEAVES_SPARE_WORDS(struct ci_file_op, coir_file_op);

/* A stat in progress, and what a ring tells about the file. */
struct ci_stat_op {
    struct ci_file_op op;
    uint64_t statx[CI_STATX_SIZE / sizeof(uint64_t)];
};
CI_LEAVES_SPARE_WORDS(struct ci_stat_op, coir_stat_op);

static inline struct ci_stat_op *ci_stat_op_of(coir_stat_op *op)
{
    return (struct ci_stat_op *)(void *)op;
}

/* The future of a call, in a coir_file_op. `call` is copied; its descriptors are set from `at` and
 * `to`. */
coir_future *ci_file_op_init(struct ci_file_op *op, coir_file *at, coir_file *to,
                             const struct ci_file_call *call);

/* A call that completes in one go, in a fiber. */
int ci_file_call(coir_file *at, coir_file *to, const struct ci_file_call *call);

#endif
