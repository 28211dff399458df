/* The calls of POSIX that tests make beside the library, on the simulated kernel: included before
 * everything else (-include), so that the same tests run over it. What is not in it is not
 * modelled. */
#ifndef TEST_KERNEL_POSIX_H
#define TEST_KERNEL_POSIX_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

int posix_socket(int family, int type, int protocol);
int posix_connect(int fd, const struct sockaddr *address, socklen_t len);
int posix_bind(int fd, const struct sockaddr *address, socklen_t len);
int posix_listen(int fd, int backlog);
int posix_accept(int fd);
ssize_t posix_send(int fd, const void *data, size_t len, int flags);
ssize_t posix_recv(int fd, void *buf, size_t len, int flags);
ssize_t posix_read(int fd, void *buf, size_t len);
ssize_t posix_write(int fd, const void *data, size_t len);
int posix_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int posix_getsockname(int fd, struct sockaddr *address, socklen_t *len);
int posix_shutdown(int fd, int how);
int posix_poll(struct pollfd *fds, nfds_t count, int timeout);
int posix_pipe(int fds[2]);
int posix_dup2(int from, int to);
int posix_socketpair(int family, int type, int protocol, int fds[2]);
int posix_pipe2(int fds[2], int flags);
ssize_t posix_sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to,
                     socklen_t to_len);
int posix_temporary(void);                  /* a regular file */
int posix_datagram(int port);               /* a UDP socket, bound to it */
int posix_lock_directory(const char *path); /* flock(2) */

/* Whether there is a simulated kernel: the simulator's own driver has none. */
bool posix_has_kernel(void);

/* Where what processes write to the numbers 0 to 2 goes from now on; NULL: they have none. */
void posix_console(void (*print)(const void *bytes, size_t len));

/* What the kernel does not have: the case ends, and says that it was left out. */
__attribute__((noreturn)) void posix_leave_out(const char *what);
int posix_none(const char *what, ...);
int posix_close(int fd);
int posix_fcntl(int fd, int command);
int posix_getpid(void);
unsigned posix_geteuid(void); /* and the group */
int posix_usleep(useconds_t duration);
int posix_raise(int number);
int posix_wait_for_any(void); /* as waitpid(2) of -1, without blocking */
int posix_clock_gettime(clockid_t clock, struct timespec *ret_time);
int posix_thread_create(pthread_t *thread, void *(*fn)(void *arg), void *arg);
int posix_thread_join(pthread_t thread);

#ifndef TEST_KERNEL_POSIX_C /* where they are defined the names keep their meaning */
#define socket posix_socket
#define connect posix_connect
#define bind posix_bind
#define listen posix_listen
#define accept(fd, address, len) posix_accept(fd)
#define send posix_send
#define recv posix_recv
#define sendto posix_sendto
#define pipe2 posix_pipe2
#define socketpair posix_socketpair
#define timerfd_create(...) posix_none("timerfd", __VA_ARGS__)
#define timerfd_settime(...) posix_none("timerfd", __VA_ARGS__)
#define setrlimit(...) posix_none("setrlimit", __VA_ARGS__)
#define fork() posix_none("fork")
#define open(...) posix_none("open(2)", __VA_ARGS__)
#define raise posix_raise
#define kill(...) posix_none("signals", __VA_ARGS__)
#define pthread_kill(...) posix_none("signals", __VA_ARGS__)
#define tmpfile() NULL
#define fileno(file) posix_temporary()
#define read posix_read
#define write posix_write
#define setsockopt posix_setsockopt
#define getsockname posix_getsockname
#define shutdown posix_shutdown
#define poll posix_poll
#define pipe posix_pipe
#define dup2 posix_dup2
#define close posix_close
#define fcntl(fd, command) posix_fcntl(fd, command)
#define getpid posix_getpid
#define geteuid posix_geteuid
#define getegid posix_geteuid
#define usleep posix_usleep
#define clock_gettime posix_clock_gettime
#define pthread_create(thread, attributes, fn, arg) posix_thread_create(thread, fn, arg)
#define pthread_join(thread, result) posix_thread_join(thread)
#endif

#endif
