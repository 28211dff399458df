/* System calls on sockets. They return a negative errno (call.h). */
#ifndef CI_SYS_SOCKET_CALL_H
#define CI_SYS_SOCKET_CALL_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "coir/base.h"
#include "coir/socket.h"

/* ---- transferring ---- */

ssize_t ci_sys_recv(coir_fd fd, void *buf, size_t len);
ssize_t ci_sys_peek(coir_fd fd, void *buf, size_t len);
ssize_t ci_sys_send(coir_fd fd, const void *buf, size_t len);
ssize_t ci_sys_recvv(coir_fd fd, const struct iovec *iov, int iov_count);
ssize_t ci_sys_sendv(coir_fd fd, const struct iovec *iov, int iov_count);
ssize_t ci_sys_recvmsg(coir_fd fd, struct msghdr *message);
ssize_t ci_sys_sendmsg(coir_fd fd, const struct msghdr *message);

/* ---- opening: the descriptors are non-blocking and close-on-exec ---- */

/* A stream socket. */
int ci_sys_socket(int family);
int ci_sys_connect(coir_fd fd, const struct sockaddr *address, socklen_t len);

/* A stream socket that listens. */
int ci_sys_listen(const struct sockaddr *address, socklen_t len, int backlog, bool reuse_port,
                  bool ipv6_only);
int ci_sys_accept(coir_fd fd);

/* A datagram socket that is bound; one that is not. */
int ci_sys_open_datagram(int family);

/* bind(2) and listen(2) by themselves. */
int ci_sys_bind(coir_fd fd, const struct sockaddr *address, socklen_t len);
int ci_sys_begin_listen(coir_fd fd, int backlog);

/* ---- state and options ---- */

/* Has the system leave new connections to a listener unanswered (those to a Unix socket are
 * refused). Handshakes in progress may finish, and connections in the backlog can be accepted.
 * -EOPNOTSUPP: the system has no way to do this. */
int ci_sys_refuse(coir_fd fd);
int ci_sys_shutdown_write(coir_fd fd);
/* The address of the socket, or of its peer. */
int ci_sys_name(coir_fd fd, bool peer, struct sockaddr_storage *ret_address, socklen_t *ret_len);
/* The result of a connect in progress (SO_ERROR): 0 or a negative error. Clears it. */
int ci_sys_socket_error(coir_fd fd);
int ci_sys_no_delay(coir_fd fd);
int ci_sys_reset_on_close(coir_fd fd);
/* TCP fast open: of a listener, with room for `queue` requests; of a socket before its connect.
 * -EOPNOTSUPP: the system does not have it, or does not allow it. */
int ci_sys_fast_open(coir_fd fd, int queue);
int ci_sys_fast_open_connect(coir_fd fd);
int ci_sys_tcp_option(coir_fd fd, enum coir_tcp_option option, int value);
int ci_sys_get_tcp_option(coir_fd fd, enum coir_tcp_option option);
int ci_sys_tcp_info(coir_fd fd, coir_tcp_info *ret_info);
/* The bytes of a TCP connection that its peer has not acknowledged; on Linux its end counts as one.
 * -EOPNOTSUPP: the system does not tell. */
int ci_sys_unacknowledged(coir_fd fd);

/* The process at the other end of a Unix socket, as of its connect or listen. */
int ci_sys_credentials(coir_fd fd, coir_credentials *ret_credentials);

#endif
