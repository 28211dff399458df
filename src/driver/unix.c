#include "driver/unix.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

#include "base/check.h"
#include "sys/call.h"
#include "sys/file_call.h"
#include "sys/socket_call.h"

/* A path. In a sockaddr_un one of the full length has no NUL at its end. */
struct path {
    char text[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
};

/* False: the socket has an abstract name, or none. */
static bool find_path(const struct sockaddr *address, socklen_t len, struct path *ret_path)
{
    size_t begin = offsetof(struct sockaddr_un, sun_path);
    const char *name = (const char *)address + begin;
    if (len <= begin || !name[0])
        return false;
    memset(ret_path, 0, sizeof *ret_path);
    memcpy(ret_path->text, name, strnlen(name, len - begin));
    return true;
}

/* Locks the directory that the path is in: a descriptor to be closed. -EWOULDBLOCK: another process
 * has the lock. */
static coir_fd lock(const struct path *path)
{
    struct path directory = *path;
    char *slash = strrchr(directory.text, '/');
    if (!slash)
        return ci_sys_lock_directory(".");
    slash[slash == directory.text] = '\0';
    return ci_sys_lock_directory(directory.text);
}

/* Whether the probe, a new socket, is refused when it connects. Closes it. */
static bool is_refused(coir_fd probe, const struct sockaddr *address, socklen_t len)
{
    int rc = probe < 0 ? probe : ci_sys_connect(probe, address, len);
    if (probe >= 0)
        ci_sys_close(probe);
    return rc == -ECONNREFUSED;
}

/* Whether no socket is bound to the file. A listener does not notice a socket for datagrams that
 * connects to it, and a socket for datagrams is sent nothing. */
static bool is_stale(const struct sockaddr *address, socklen_t len)
{
    return is_refused(ci_sys_open_datagram(AF_UNIX), address, len);
}

/* Whether nothing listens on the file, though a socket may be bound to it. */
static bool is_refusing(const struct sockaddr *address, socklen_t len)
{
    return is_refused(ci_sys_socket(AF_UNIX), address, len);
}

static int remove_file(const struct path *path, coir_fd locked)
{
    ci_check(locked >= 0, "unix.h 2");
    return ci_sys_remove(path->text);
}

/* Removes the file that is in the way: 0, or why it stays. */
static int remove_stale(const struct path *path, const struct sockaddr *address, socklen_t len,
                        coir_fd locked)
{
    int rc = ci_sys_find_socket_file(path->text);
    if (rc == 0 && !is_stale(address, len))
        rc = -EADDRINUSE;
    if (rc == 0)
        rc = locked < 0 ? locked : remove_file(path, locked);
    return rc == -ENOENT ? 0 : rc;
}

static int set_access(const struct path *path, const struct ci_listen *listen)
{
    int rc = 0;
    if (listen->owner || listen->group)
        rc = ci_sys_set_owner(path->text, listen->owner ? listen->owner : UINT_MAX,
                              listen->group ? listen->group : UINT_MAX);
    return rc == 0 && listen->mode ? ci_sys_set_mode(path->text, listen->mode) : rc;
}

/* With the directory locked, if it can be. */
static int bind_path(coir_fd fd, const struct path *path, const struct ci_listen *listen,
                     coir_fd locked)
{
    ci_check(listen->backlog < 0 || locked != -EWOULDBLOCK || listen->without_lock, "unix.h 1");
    int rc = ci_sys_bind(fd, listen->address, listen->address_len);
    if (rc == -EADDRINUSE &&
        (rc = remove_stale(path, listen->address, listen->address_len, locked)) == 0)
        rc = ci_sys_bind(fd, listen->address, listen->address_len);
    if (rc < 0)
        return rc;
    if ((rc = set_access(path, listen)) < 0)
        ci_sys_remove(path->text);
    return rc;
}

/* Binds, and listens unless it is a socket for datagrams (whose backlog is negative). */
static int open_at(coir_fd fd, const struct ci_listen *listen)
{
    struct path path;
    bool listens = listen->backlog >= 0,
         has_path = find_path(listen->address, listen->address_len, &path);
    coir_fd locked = has_path ? lock(&path) : -ENOENT;
    int rc = -EWOULDBLOCK;
    if (!listens || locked != -EWOULDBLOCK || listen->without_lock) /* unix.h 1 */
        rc = has_path ? bind_path(fd, &path, listen, locked)
                      : ci_sys_bind(fd, listen->address, listen->address_len);
    if (rc == 0 && listens && (rc = ci_sys_begin_listen(fd, listen->backlog)) < 0 && has_path)
        ci_sys_remove(path.text);
    if (locked >= 0)
        ci_sys_close(locked);
    return rc;
}

static int open_or_close(coir_fd fd, const struct ci_listen *listen)
{
    int rc = fd < 0 ? fd : open_at(fd, listen);
    if (fd >= 0 && rc < 0)
        ci_sys_close(fd);
    return rc < 0 ? rc : fd;
}

int ci_unix_listen(const struct ci_listen *listen)
{
    return open_or_close(ci_sys_socket(AF_UNIX), listen);
}

int ci_unix_datagram(const struct sockaddr *address, socklen_t len)
{
    return open_or_close(
        ci_sys_open_datagram(AF_UNIX),
        &(struct ci_listen){.address = address, .address_len = len, .backlog = -1});
}

void ci_unix_remove(const struct sockaddr *address, socklen_t len)
{
    struct path path;
    coir_fd locked = find_path(address, len, &path) ? lock(&path) : -ENOENT;
    if (locked < 0)
        return;
    if (ci_sys_find_socket_file(path.text) == 0 && is_refusing(address, len))
        remove_file(&path, locked);
    ci_sys_close(locked);
}
