/* Descriptors that travel over Unix sockets (SCM_RIGHTS): unix(7), cmsg(3); net/core/scm.c of Linux
 * 6.1. A segment holds references to the open files.
 *
 * - All descriptors are looked up before anything is sent.
 * - As many are installed as the control data has room for, and the process has numbers for; the
 * others are closed, which MSG_CTRUNC says.
 * - Sockets that only their own queues refer to stay until the kernel ends: there is no collector
 * of such cycles (net/unix/garbage.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/socket.h"

enum { RIGHTS_MOST = 253 }; /* SCM_MAX_FD */

static int take_one(struct ci_krights *rights, coir_fd fd)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!file)
        return -EBADF;
    rights->files[rights->count++] = ci_kfile_ref(file);
    return 0;
}

static int take_all(struct ci_krights *rights, const struct cmsghdr *header)
{
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(coir_fd);
    if (rights->count + count > RIGHTS_MOST)
        return -EINVAL;
    if (!rights->files)
        rights->files = ci_kalloc(RIGHTS_MOST * sizeof(struct ci_kfile *));
    for (size_t i = 0; i < count; i++) {
        coir_fd fd;
        memcpy(&fd, CMSG_DATA((struct cmsghdr *)(uintptr_t)header) + i * sizeof fd, sizeof fd);
        int rc = take_one(rights, fd);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int ci_krights_take(struct ci_krights *rights, const struct msghdr *message)
{
    struct msghdr *it = (struct msghdr *)(uintptr_t)message;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(it); header; header = CMSG_NXTHDR(it, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            ci_kunknown("control data other than SCM_RIGHTS");
        int rc = header->cmsg_len < CMSG_LEN(0) ? -EINVAL : take_all(rights, header);
        if (rc < 0) {
            ci_krights_drop(rights);
            return rc;
        }
    }
    return 0;
}

/* How many were installed; their numbers are in `fds`. */
static size_t install(struct ci_krights *rights, size_t most, coir_fd *fds)
{
    size_t count = 0;
    while (count < rights->count && count < most && ci_kfd_refused() == 0) {
        fds[count] = ci_kfd_install(rights->files[count]);
        rights->files[count++] = NULL;
    }
    return count;
}

void ci_krights_put(struct ci_krights *rights, struct msghdr *message)
{
    struct cmsghdr *header = message->msg_control;
    size_t room = message->msg_control ? message->msg_controllen : 0;
    size_t most =
        room > sizeof(struct cmsghdr) ? (room - sizeof(struct cmsghdr)) / sizeof(coir_fd) : 0;
    message->msg_controllen = 0;
    if (!rights->count)
        return;
    size_t count = most ? install(rights, most, (coir_fd *)(void *)CMSG_DATA(header)) : 0;
    if (count) {
        header->cmsg_len = (socklen_t)CMSG_LEN(count * sizeof(coir_fd));
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        size_t space = CMSG_SPACE(count * sizeof(coir_fd));
        message->msg_controllen = (socklen_t)(space < room ? space : room);
    }
    if (count < rights->count)
        message->msg_flags |= MSG_CTRUNC;
    ci_ktrace("rights", (int64_t)count, (int64_t)rights->count);
    ci_krights_drop(rights);
}

void ci_krights_drop(struct ci_krights *rights)
{
    struct ci_krights taken = *rights;
    *rights = (struct ci_krights){0};
    for (size_t i = 0; i < taken.count; i++)
        if (taken.files[i])
            ci_kfile_unref(taken.files[i]);
    free(taken.files);
}
