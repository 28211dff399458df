/* Descriptors over a Unix socket: one task opens files for another, as for another process. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Opens what the client names, and sends one byte with the descriptor, or alone. */
static int hand_out(coir_stream *client, void *arg)
{
    char name[256];
    coir_credentials peer = COIR_CREDENTIALS;
    (void)arg;
    int rc = coir_unix_peer(client, &peer);
    if (rc < 0 || peer.uid != geteuid()) /* who asks? */
        return rc < 0 ? rc : -EACCES;
    ssize_t n = coir_read(client, name, sizeof name - 1);
    if (n <= 0)
        return (int)n;
    name[n] = '\0';
    coir_fd fd = open(name, O_RDONLY);
    n = coir_unix_send_fds(client, "!", 1, &fd, fd >= 0);
    if (fd >= 0)
        close(fd); /* the client has one of its own */
    return n < 0 ? (int)n : 0;
}

static int ask_for(const char *address, const char *name, coir_fd *ret_fd)
{
    coir_stream *server;
    size_t count = 0;
    char byte;
    int rc = coir_tcp_connect(address, &server);
    if (rc < 0)
        return rc;
    ssize_t n = coir_write_all(server, name, strlen(name));
    if (n == 0)
        n = coir_unix_recv_fds(server, &byte, 1, ret_fd, 1, &count);
    coir_close(server);
    return n < 0 ? (int)n : count == 1 ? 0 : -ENOENT;
}

static int serve(void *listener)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.listener = listener;
    return coir_serve_tcp_with(&options, hand_out, NULL);
}

static int start(void *arg)
{
    static const char *const names[] = {"/dev/zero", "/dev/nowhere"};
    coir_listener *listener;
    char address[128], buf[10];
    (void)arg;
    int rc = coir_tcp_listen("unix:@", &listener); /* "unix:/run/files.sock" would be a file */
    if (rc < 0)
        return rc;
    COIR_SCOPE(scope);
    coir_listener_local(listener, address, sizeof address);
    rc = coir_go(scope, serve, listener);
    for (int i = 0; rc == 0 && i < 2; i++) {
        coir_fd fd;
        int asked = ask_for(address, names[i], &fd);
        bool whole = asked == 0 && read(fd, buf, sizeof buf) == 10;
        printf("%s: %s\n", names[i], whole ? "ten bytes" : coir_strerror(asked));
        if (asked == 0)
            close(fd);
    }
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    coir_listener_close(listener);
    return rc;
}

int main(void)
{
    return coir_main(start, NULL);
}
