/* sys/splice.h. splice(2), sendfile(2), readahead(2); fs/splice.c of Linux 6.1 (do_splice,
 * splice_direct_to_actor), tcp_splice_read of net/ipv4/tcp.c, unix_stream_splice_read of
 * net/unix/af_unix.c: with SPLICE_F_NONBLOCK neither the pipe nor the socket is waited for; what a
 * socket does not take stays in the pipe, or is read from the file again. */
#include "sys/splice.h"

#include <errno.h>

#include "sim/kernel/kernel.h"
#include "sys/file_call.h"

int ci_sys_pipe(coir_fd fds[2], size_t size, size_t *ret_size)
{
    enum { SIZE = 65536 };
    int rc = ci_kfd_refused();
    if (rc < 0 || (rc = ci_kpipe(fds)) < 0)
        return rc;
    for (int i = 0; i < 2; i++)
        ci_kfd_find(fds[i])->blocking = false;
    *ret_size = size < SIZE ? size : SIZE;
    return 0;
}

ssize_t ci_sys_splice(coir_fd from, coir_fd to, size_t len)
{
    ci_kcall();
    struct ci_kfile *in = ci_kfd_find(from), *out = ci_kfd_find(to);
    return in && out ? ci_kpipe_splice(in, out, len) : -EBADF;
}

static ssize_t read_at(coir_fd file, void *buf, size_t len, int64_t offset)
{
    struct iovec part = {buf, len};
    return ci_sys_file(&(struct ci_file_call){
        .kind = CI_FILE_READ, .fd = file, .iov = &part, .count = 1, .offset = offset});
}

/* No other thread runs between the end of the read and that of the write. */
ssize_t ci_sys_sendfile(coir_fd to, coir_fd file, int64_t offset, size_t len)
{
    static char bytes[65536];
    size_t most = len < sizeof bytes ? len : sizeof bytes;
    ssize_t n = read_at(file, bytes, most > 1 ? 1 + (size_t)ci_kbelow(most) : most, offset);
    struct ci_kfile *out = ci_kfd_find(to);
    if (n <= 0)
        return n;
    return !out                    ? -EBADF
           : !out->type->is_socket ? -EINVAL
                                   : out->type->write(out, &(struct iovec){bytes, (size_t)n}, 1);
}

int ci_sys_read_ahead(coir_fd file, int64_t offset, size_t len)
{
    char byte;
    (void)len;
    ssize_t n = read_at(file, &byte, 1, offset); /* sleeps for as long as the disk takes */
    return n < 0 ? (int)n : 0;
}
