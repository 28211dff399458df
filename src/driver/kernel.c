#include "driver/kernel.h"

#include "driver/unix.h"
#include "sys/call.h"
#include "sys/clock.h"
#include "sys/file_call.h"
#include "sys/socket_call.h"
#include <errno.h>

coir_time ci_kernel_now(struct ci_driver *driver)
{
    (void)driver;
    return ci_clock_now();
}

coir_time ci_kernel_wall(struct ci_driver *driver)
{
    (void)driver;
    return ci_clock_wall();
}

uint64_t ci_kernel_random(struct ci_driver *driver)
{
    (void)driver;
    return ci_sys_random();
}

int ci_kernel_socket(struct ci_driver *driver, int family)
{
    (void)driver;
    int fd = ci_sys_socket(family);
    if (fd >= 0 && family != AF_UNIX)
        ci_sys_no_delay(fd);
    return fd;
}

int ci_kernel_bind(struct ci_driver *driver, coir_fd fd, const struct sockaddr *address,
                   socklen_t len)
{
    (void)driver;
    return ci_sys_bind(fd, address, len);
}

int ci_kernel_datagram(struct ci_driver *driver, const struct ci_datagram *datagram)
{
    (void)driver;
    bool is_unix = datagram->address->sa_family == AF_UNIX;
    int fd = is_unix
                 ? ci_unix_datagram(datagram->address, datagram->address_len)
                 : ci_sys_datagram(datagram->address, datagram->address_len, &datagram->options);
    int rc = fd >= 0 && is_unix ? ci_sys_datagram_options(fd, AF_UNIX, &datagram->options) : fd;
    if (rc >= 0 && datagram->peer)
        rc = ci_sys_connect(fd, datagram->peer, datagram->peer_len);
    if (fd >= 0 && rc < 0)
        ci_sys_close(fd);
    if (fd >= 0 && rc < 0 && is_unix)
        ci_unix_remove(datagram->address, datagram->address_len);
    return rc < 0 ? rc : fd;
}

int ci_kernel_datagram_options(struct ci_driver *driver, coir_fd fd, int family,
                               const struct ci_datagram_options *options)
{
    (void)driver;
    return ci_sys_datagram_options(fd, family, options);
}

int ci_kernel_datagram_join(struct ci_driver *driver, coir_fd fd,
                            const struct sockaddr_storage *group, unsigned interface, bool leave)
{
    (void)driver;
    return ci_sys_datagram_join(fd, group, interface, leave);
}

int ci_kernel_listen(struct ci_driver *driver, const struct ci_listen *listen)
{
    (void)driver;
    if (listen->address->sa_family == AF_UNIX)
        return ci_unix_listen(listen);
    int fd = ci_sys_listen(listen->address, listen->address_len, listen->backlog,
                           listen->reuse_port, listen->ipv6_only);
    if (fd >= 0)
        ci_sys_no_delay(fd); /* accepted sockets inherit it: no call per connection */
    return fd;
}

int ci_kernel_refuse(struct ci_driver *driver, coir_fd fd)
{
    (void)driver;
    return ci_sys_refuse(fd);
}

void ci_kernel_close_named(struct ci_driver *driver, coir_fd fd)
{
    struct sockaddr_storage own;
    socklen_t len;
    bool is_unix = ci_sys_name(fd, false, &own, &len) == 0 && own.ss_family == AF_UNIX;
    if (is_unix)
        ci_sys_refuse(fd); /* the driver may keep it open for a moment */
    ci_driver_close(driver, fd);
    if (is_unix)
        ci_unix_remove((struct sockaddr *)&own, len);
}

int ci_kernel_credentials(struct ci_driver *driver, coir_fd fd, coir_credentials *ret_credentials)
{
    (void)driver;
    return ci_sys_credentials(fd, ret_credentials);
}

int ci_kernel_shutdown_write(struct ci_driver *driver, coir_fd fd)
{
    (void)driver;
    return ci_sys_shutdown_write(fd);
}

int ci_kernel_fast_open(struct ci_driver *driver, coir_fd fd, int queue)
{
    (void)driver;
    return queue ? ci_sys_fast_open(fd, queue) : ci_sys_fast_open_connect(fd);
}

int ci_kernel_option(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option, int value)
{
    (void)driver;
    return ci_sys_tcp_option(fd, option, value);
}

int ci_kernel_get_option(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option)
{
    (void)driver;
    return ci_sys_get_tcp_option(fd, option);
}

int ci_kernel_tcp_info(struct ci_driver *driver, coir_fd fd, coir_tcp_info *ret_info)
{
    (void)driver;
    return ci_sys_tcp_info(fd, ret_info);
}

int ci_kernel_unacknowledged(struct ci_driver *driver, coir_fd fd)
{
    (void)driver;
    return ci_sys_unacknowledged(fd);
}

int ci_kernel_address(struct ci_driver *driver, coir_fd fd, bool peer,
                      struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    (void)driver;
    return ci_sys_name(fd, peer, ret_address, ret_len);
}

int ci_kernel_take(struct ci_driver *driver, coir_fd fd, enum ci_passed kind)
{
    (void)driver;
    int rc = ci_passed_take(fd, kind);
    if (rc == 0 && kind != CI_PASSED_DATAGRAM)
        ci_sys_no_delay(fd);
    return rc;
}

/* Names that are known without a lookup. */
int ci_kernel_resolve(struct ci_driver *driver, const char *host, int family,
                      struct ci_ips *ret_ips, coir_time *ret_delay)
{
    (void)driver;
    return ci_sys_resolve(host, family, ret_ips, ret_delay);
}

int ci_kernel_file_size(struct ci_driver *driver, coir_fd fd, int64_t *ret_size)
{
    (void)driver;
    return ci_sys_file_size(fd, ret_size);
}

int ci_kernel_reserve(const coir_allocator *allocator, void **table, size_t *count,
                      size_t item_size, coir_fd fd)
{
    if (ci_likely((size_t)fd < *count))
        return 0;
    return ci_sys_is_open(fd) ? ci_grow(allocator, table, count, item_size, (size_t)fd + 1)
                              : -EBADF;
}

int ci_kernel_note_failed_wait(int *failed, int error, coir_time timeout)
{
    const coir_time pause = COIR_MS, pause_most = 10 * COIR_MS;
    bool persists = *failed == CI_FAILED_WAITS_MAX;
    if (persists) {
        ci_clock_sleep(timeout < 0 || timeout > pause_most ? pause_most : timeout);
        return error;
    }
    ++*failed;
    ci_clock_sleep(pause);
    return 0;
}
