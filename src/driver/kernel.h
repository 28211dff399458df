/* What the drivers over a kernel have in common: clocks, random numbers, and the calls that never
 * wait. */
#ifndef CI_DRIVER_KERNEL_H
#define CI_DRIVER_KERNEL_H

#include "driver/driver.h"

coir_time ci_kernel_now(struct ci_driver *driver);
coir_time ci_kernel_wall(struct ci_driver *driver);
uint64_t ci_kernel_random(struct ci_driver *driver);
int ci_kernel_socket(struct ci_driver *driver, int family);
int ci_kernel_bind(struct ci_driver *driver, coir_fd fd, const struct sockaddr *address,
                   socklen_t len);
int ci_kernel_datagram(struct ci_driver *driver, const struct ci_datagram *datagram);
int ci_kernel_datagram_options(struct ci_driver *driver, coir_fd fd, int family,
                               const struct ci_datagram_options *options);
int ci_kernel_datagram_join(struct ci_driver *driver, coir_fd fd,
                            const struct sockaddr_storage *group, unsigned interface, bool leave);
int ci_kernel_listen(struct ci_driver *driver, const struct ci_listen *listen);
int ci_kernel_refuse(struct ci_driver *driver, coir_fd fd);
void ci_kernel_close_named(struct ci_driver *driver, coir_fd fd);
int ci_kernel_credentials(struct ci_driver *driver, coir_fd fd, coir_credentials *ret_credentials);
int ci_kernel_shutdown_write(struct ci_driver *driver, coir_fd fd);
int ci_kernel_fast_open(struct ci_driver *driver, coir_fd fd, int queue);
int ci_kernel_option(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option, int value);
int ci_kernel_get_option(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option);
int ci_kernel_tcp_info(struct ci_driver *driver, coir_fd fd, coir_tcp_info *ret_info);
int ci_kernel_unacknowledged(struct ci_driver *driver, coir_fd fd);
int ci_kernel_address(struct ci_driver *driver, coir_fd fd, bool peer,
                      struct sockaddr_storage *ret_address, socklen_t *ret_len);
int ci_kernel_take(struct ci_driver *driver, coir_fd fd, enum ci_passed kind);
int ci_kernel_resolve(struct ci_driver *driver, const char *host, int family,
                      struct ci_ips *ret_ips, coir_time *ret_delay);
int ci_kernel_file_size(struct ci_driver *driver, coir_fd fd, int64_t *ret_size);

/* Makes a table by descriptor hold `fd`: 0, -ENOMEM, or -EBADF for one that it does not hold and
 * that is not open. Without that check, any large number passed as a descriptor would make the
 * table that large. */
int ci_kernel_reserve(const coir_allocator *allocator, void **table, size_t *count,
                      size_t item_size, coir_fd fd);

/* A wait has failed, and may succeed later: pauses for a millisecond. After CI_FAILED_WAITS_MAX
 * failures in a row it returns the error, before that 0, and pauses for ten, for those who wait on
 * all the same, but not beyond the timeout. *failed counts; `timeout` is that of the wait. */
enum { CI_FAILED_WAITS_MAX = 100 };
int ci_kernel_note_failed_wait(int *failed, int error, coir_time timeout);

/* Those members of a struct ci_driver_kind. */
#define CI_KERNEL_CALLS                                                                         \
    .now = ci_kernel_now, .wall = ci_kernel_wall, .random = ci_kernel_random,                   \
    .socket = ci_kernel_socket, .bind = ci_kernel_bind, .datagram = ci_kernel_datagram,         \
    .listen = ci_kernel_listen, .shutdown_write = ci_kernel_shutdown_write,                     \
    .option = ci_kernel_option, .get_option = ci_kernel_get_option,                             \
    .tcp_info = ci_kernel_tcp_info, .address = ci_kernel_address, .take = ci_kernel_take,       \
    .resolve = ci_kernel_resolve, .refuse = ci_kernel_refuse, .file_size = ci_kernel_file_size, \
    .close_named = ci_kernel_close_named, .credentials = ci_kernel_credentials,                 \
    .datagram_options = ci_kernel_datagram_options, .datagram_join = ci_kernel_datagram_join,   \
    .fast_open = ci_kernel_fast_open, .unacknowledged = ci_kernel_unacknowledged

#endif
