/* eventfd(2): man-pages 6.03; fs/eventfd.c of Linux 6.1. A counter without EFD_SEMAPHORE. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/kernel.h"
#include "sys/call.h"

struct counter {
    struct ci_kfile file;
    uint64_t count;
};

static struct counter *counter_of(struct ci_kfile *file)
{
    return ci_container_of(file, struct counter, file);
}

static unsigned poll_counter(struct ci_kfile *file)
{
    const struct counter *counter = counter_of(file);
    unsigned events = 0;
    if (counter->count > 0)
        events |= POLLIN;
    if (counter->count == UINT64_MAX)
        events |= POLLERR;
    if (counter->count < UINT64_MAX - 1)
        events |= POLLOUT;
    return events;
}

static ssize_t read_counter(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct counter *counter = counter_of(file);
    if (count < 1 || iov->iov_len < sizeof counter->count)
        return -EINVAL;
    if (!counter->count)
        return -EAGAIN;
    memcpy(iov->iov_base, &counter->count, sizeof counter->count);
    counter->count = 0;
    ci_kfile_wake(file, POLLOUT);
    return sizeof counter->count;
}

static ssize_t write_counter(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct counter *counter = counter_of(file);
    uint64_t added;
    if (count < 1 || iov->iov_len < sizeof added)
        return -EINVAL;
    memcpy(&added, iov->iov_base, sizeof added);
    if (added == UINT64_MAX)
        return -EINVAL;
    if (UINT64_MAX - counter->count <= added)
        return -EAGAIN;
    counter->count += added;
    ci_kfile_wake(file, POLLIN);
    return sizeof added;
}

static void release(struct ci_kfile *file)
{
    free(counter_of(file));
}

static const struct ci_kfile_type eventfd_type = {
    .name = "eventfd",
    .poll = poll_counter,
    .read = read_counter,
    .write = write_counter,
    .release = release,
};

int ci_sys_eventfd(void)
{
    ci_kcall();
    int rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    struct counter *counter = ci_kalloc(sizeof *counter);
    ci_kfile_init(&counter->file, &eventfd_type);
    return ci_kfd_install(&counter->file);
}

void ci_sys_eventfd_add(coir_fd fd)
{
    uint64_t one = 1;
    ci_sys_write(fd, &one, sizeof one);
}

void ci_sys_eventfd_drain(coir_fd fd)
{
    uint64_t count;
    ci_sys_read(fd, &count, sizeof count);
}
