/* The names of Unix sockets, abstract ones and files, and what streams and datagrams have in
 * common: unix(7), flock(2); net/unix/af_unix.c of Linux 6.1 to 6.18.
 *
 * - A file that a socket was bound to stays when the socket has gone, until it is removed.
 * - Every directory exists, on every host. A lock of one is an open file.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/socket.h"
#include "sys/file_call.h"
#include "sys/socket_call.h"

enum { NAME_AT = offsetof(struct sockaddr_un, sun_path), OVERHEAD = 768 };

/* A socket's file. */
struct entry {
    struct entry *next;
    const struct ci_node *node;
    struct ci_ksocket *socket; /* NULL: it has gone */
    unsigned mode, owner, group;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
};

struct lock {
    struct ci_kfile file;
    struct lock *next;
    const struct ci_node *node;
    char path[sizeof(((struct entry *)0)->path)];
};

static struct entry *entries;
static struct lock *locks;
static uint32_t chosen; /* of names that the kernel chooses */

bool ci_kunix_is(const struct ci_ksocket *socket)
{
    return socket->file.type->is_unix;
}

/* ---- segments ---- */

bool ci_kunix_is_writable(const struct ci_ksocket *socket)
{
    return socket->out.bytes * 4 <= socket->out_most;
}

static void copy_in(struct ci_ksegment *segment, const struct msghdr *message, size_t from)
{
    size_t copied = 0;
    for (size_t i = 0; i < message->msg_iovlen && copied < segment->len; i++) {
        const struct iovec *iov = &message->msg_iov[i];
        size_t skipped = from < iov->iov_len ? from : iov->iov_len, n = iov->iov_len - skipped;
        n = n < segment->len - copied ? n : segment->len - copied;
        if (n)
            memcpy(segment->data + copied, (const char *)iov->iov_base + skipped, n);
        copied += n;
        from -= skipped;
    }
}

struct ci_ksegment *ci_kunix_segment_make(struct ci_ksocket *sender, const struct msghdr *message,
                                          size_t from, size_t len, struct ci_krights *rights)
{
    struct ci_ksegment *segment = ci_ksegment_new(len);
    copy_in(segment, message, from);
    segment->rights = *rights;
    *rights = (struct ci_krights){0};
    segment->sender = sender;
    segment->charge = len + OVERHEAD;
    sender->out.bytes += segment->charge;
    return segment;
}

/* unix_write_space */
void ci_kunix_segment_end(struct ci_ksegment *segment)
{
    struct ci_ksocket *sender = segment->sender;
    ci_krights_drop(&segment->rights);
    sender->out.bytes -= segment->charge;
    free(segment);
    if (!sender->orphan && ci_kunix_is_writable(sender))
        ci_kfile_wake(&sender->file, POLLOUT | POLLWRNORM | POLLWRBAND);
}

void ci_kunix_drop(struct ci_ksocket *socket)
{
    while (socket->in.first)
        ci_kunix_segment_end(ci_kqueue_pop(&socket->in));
}

/* ---- reading, writing, shutting down ---- */

static struct msghdr message_of(const struct iovec *iov, int count)
{
    return (struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)count};
}

ssize_t ci_kunix_read(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct msghdr message = message_of(iov, count);
    return file->type->receive(file, &message, 0);
}

ssize_t ci_kunix_write(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct msghdr message = message_of(iov, count);
    return file->type->send(file, &message, 0);
}

size_t ci_kunix_length(const struct msghdr *message)
{
    size_t len = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        len += message->msg_iov[i].iov_len;
    return len;
}

void ci_kunix_shut_down(struct ci_ksocket *socket, int how)
{
    socket->in_ended |= how != SHUT_WR;
    socket->out_ended |= how != SHUT_RD;
    ci_kfile_wake(&socket->file, 0);
}

/* ---- finding ---- */

static struct entry **entry_at(const char *path)
{
    struct entry **at = &entries;
    while (*at &&
           ((*at)->node->number != ci_k.process->node->number || strcmp((*at)->path, path) != 0))
        at = &(*at)->next;
    return at;
}

static void path_of(const struct sockaddr *address, socklen_t len, char *path)
{
    size_t n = strnlen((const char *)address + NAME_AT, len - NAME_AT);
    memcpy(path, (const char *)address + NAME_AT, n);
    path[n] = '\0';
}

static bool is_abstract(const struct sockaddr *address)
{
    return ((const char *)address)[NAME_AT] == '\0';
}

/* Streams and datagram sockets may have the same abstract name. */
static struct ci_ksocket *find_abstract(const struct ci_kfile_type *type,
                                        const struct sockaddr *address, socklen_t len)
{
    struct ci_ksocket *socket = ci_k.sockets;
    while (socket && (socket->orphan || socket->file.type != type || !socket->bound ||
                      socket->node != ci_k.process->node || socket->name_len != len ||
                      memcmp(&socket->name, address, len) != 0))
        socket = socket->next;
    return socket;
}

struct ci_ksocket *ci_kunix_find(const struct ci_kfile_type *type, const struct sockaddr *address,
                                 socklen_t len, int *ret_error)
{
    char path[sizeof entries->path];
    *ret_error = -ECONNREFUSED;
    if (len <= NAME_AT || len > sizeof(struct sockaddr_un) || address->sa_family != AF_UNIX) {
        *ret_error = -EINVAL;
        return NULL;
    }
    if (is_abstract(address))
        return find_abstract(type, address, len);
    path_of(address, len, path);
    const struct entry *entry = *entry_at(path);
    if (!entry) {
        *ret_error = -ENOENT;
        return NULL;
    }
    if (entry->socket && entry->socket->file.type != type) {
        *ret_error = -EPROTOTYPE;
        return NULL;
    }
    return entry->socket;
}

/* ---- names ---- */

static int bind_path(struct ci_ksocket *socket, const struct sockaddr *address, socklen_t len)
{
    struct entry *entry = ci_kalloc(sizeof *entry);
    path_of(address, len, entry->path);
    if (*entry_at(entry->path)) {
        free(entry);
        return -EADDRINUSE;
    }
    entry->next = entries;
    entry->node = socket->node;
    entry->socket = socket;
    entries = entry;
    socket->name_len = (socklen_t)(NAME_AT + strlen(entry->path) + 1);
    return 0;
}

/* unix_autobind */
static int choose_name(struct ci_ksocket *socket)
{
    socket->bound = true;
    socket->name_len = NAME_AT + 6;
    snprintf(socket->name.sun_path + 1, sizeof socket->name.sun_path - 1, "%05x", ++chosen);
    return 0;
}

static int bind_socket(struct ci_ksocket *socket, const struct sockaddr *address, socklen_t len)
{
    int rc = 0;
    if (address->sa_family != AF_UNIX || len < NAME_AT || len > sizeof socket->name)
        return -EINVAL;
    if (socket->name_len)
        return len == NAME_AT ? 0 : -EINVAL;
    socket->name.sun_family = AF_UNIX;
    if (len == NAME_AT)
        return choose_name(socket);
    if (!is_abstract(address))
        rc = bind_path(socket, address, len);
    else if (find_abstract(socket->file.type, address, len))
        rc = -EADDRINUSE;
    else
        socket->name_len = len;
    if (rc == 0)
        memcpy(&socket->name, address, len);
    socket->bound = rc == 0;
    return rc;
}

void ci_kunix_forget_name(const struct ci_ksocket *socket)
{
    for (struct entry *entry = entries; entry; entry = entry->next)
        if (entry->socket == socket)
            entry->socket = NULL;
}

int ci_kunix_name(const struct ci_ksocket *socket, bool peer, struct sockaddr_storage *ret_address,
                  socklen_t *ret_len)
{
    const struct ci_ksocket *of = peer ? socket->peer : socket;
    if (!of)
        return -ENOTCONN;
    *ret_address = (struct sockaddr_storage){.ss_family = AF_UNIX};
    memcpy(ret_address, &of->name, of->name_len);
    ret_address->ss_family = AF_UNIX;
    *ret_len = of->name_len ? of->name_len : NAME_AT;
    return 0;
}

/* unix_copy_addr: of a socket without a name, nothing. */
void ci_kunix_copy_name(const struct ci_ksocket *socket, struct msghdr *message)
{
    socklen_t len = message->msg_name ? message->msg_namelen : 0;
    if (len)
        memcpy(message->msg_name, &socket->name, len < socket->name_len ? len : socket->name_len);
    message->msg_namelen = message->msg_name ? socket->name_len : 0;
}

void ci_kunix_free_all(void)
{
    for (struct ci_ksocket *socket = ci_k.sockets; socket; socket = socket->next)
        if (ci_kunix_is(socket))
            ci_kunix_drop(socket);
    while (entries) {
        struct entry *entry = entries;
        entries = entry->next;
        free(entry);
    }
    chosen = 0;
}

/* ---- calls on sockets ---- */

struct ci_ksocket *ci_kunix_at(coir_fd fd, int *ret_error)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    *ret_error = file ? -ENOTSOCK : -EBADF;
    if (!ci_ksocket_is(file))
        return NULL;
    struct ci_ksocket *socket = ci_ksocket_of(file);
    *ret_error = -EOPNOTSUPP;
    return ci_kunix_is(socket) ? socket : NULL;
}

int ci_sys_bind(coir_fd fd, const struct sockaddr *address, socklen_t len)
{
    int rc;
    struct ci_ksocket *socket = ci_kunix_at(fd, &rc);
    return socket ? bind_socket(socket, address, len) : rc;
}

int ci_sys_credentials(coir_fd fd, coir_credentials *ret_credentials)
{
    int rc;
    const struct ci_ksocket *socket = ci_kunix_at(fd, &rc);
    if (!socket || !socket->peer_pid)
        return socket || rc == -EOPNOTSUPP ? -ENOTCONN : rc;
    *ret_credentials =
        (coir_credentials){.pid = socket->peer_pid, .uid = CI_KUSER, .gid = CI_KUSER};
    return 0;
}

/* ---- calls on files ---- */

static void release_lock(struct ci_kfile *file)
{
    struct lock *lock = ci_container_of(file, struct lock, file), **at = &locks;
    while (*at != lock)
        at = &(*at)->next;
    *at = lock->next;
    free(lock);
}

static const struct ci_kfile_type lock_type = {.name = "directory", .release = release_lock};

int ci_sys_lock_directory(const char *path)
{
    ci_kcall();
    int rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    for (const struct lock *lock = locks; lock; lock = lock->next)
        if (lock->node == ci_k.process->node && strcmp(lock->path, path) == 0)
            return -EWOULDBLOCK;
    struct lock *lock = ci_kalloc(sizeof *lock);
    ci_kfile_init(&lock->file, &lock_type);
    snprintf(lock->path, sizeof lock->path, "%s", path);
    lock->node = ci_k.process->node;
    lock->next = locks;
    locks = lock;
    return ci_kfd_install(&lock->file);
}

int ci_sys_find_socket_file(const char *path)
{
    ci_kcall();
    return *entry_at(path) ? 0 : -ENOENT;
}

int ci_sys_remove(const char *path)
{
    ci_kcall();
    struct entry **at = entry_at(path), *entry = *at;
    if (!entry)
        return -ENOENT;
    *at = entry->next;
    free(entry);
    return 0;
}

int ci_sys_set_mode(const char *path, unsigned mode)
{
    ci_kcall();
    struct entry *entry = *entry_at(path);
    if (entry)
        entry->mode = mode;
    return entry ? 0 : -ENOENT;
}

int ci_sys_set_owner(const char *path, unsigned owner, unsigned group)
{
    ci_kcall();
    struct entry *entry = *entry_at(path);
    if (!entry)
        return -ENOENT;
    if (owner != CI_KUSER && owner != (unsigned)-1)
        return -EPERM;
    entry->owner = owner;
    entry->group = group;
    return 0;
}
