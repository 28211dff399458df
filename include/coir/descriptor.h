/* Waiting on descriptors that the program or a library reads and writes itself: a library's socket,
 * a pipe, a timerfd, an inotify queue. */
#ifndef COIR_DESCRIPTOR_H
#define COIR_DESCRIPTOR_H

#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Waits until one of `events` holds on a descriptor, and returns those that do. The bits are those
 * of enum coir_events; COIR_HANGUP and COIR_EVENT_ERROR are returned too, where they hold, so with
 * 0 it waits for them alone. A file that is always ready returns at once. The descriptor stays the
 * caller's: it may be closed and its number reused between two waits.
 * Suspends: yes.  Threads: worker.
 * Errors: -EBADF; -ENOMEM; -EBUSY another task of the worker waits for the same event; -EINVAL
 * other bits.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_fd_wait(coir_fd fd, int events);
COIR_API coir_future *coir_fd_wait_op(coir_io_op *op, coir_fd fd, int events);

/* Readiness of a descriptor, as a case of coir_select. As coir_fd_wait. */
COIR_API coir_case coir_case_fd(coir_fd fd, int events);

/* Calls read(2) on a non-blocking descriptor, and waits where that would return -EAGAIN.
 * Suspends: yes.  Threads: worker.
 * Errors: those of read(2) and of coir_fd_wait.
 * Cancel safety: an error means that nothing was read. */
COIR_SUSPENDS ssize_t coir_fd_read(coir_fd fd, void *buf, size_t len);

/* Calls write(2) on a non-blocking descriptor, and waits where that would return -EAGAIN.
 * Suspends: yes.  Threads: worker.
 * Errors: those of write(2) and of coir_fd_wait.
 * Cancel safety: an error means that nothing was written. */
COIR_SUSPENDS ssize_t coir_fd_write(coir_fd fd, const void *buf, size_t len);

#ifdef __cplusplus
}
#endif

#endif
