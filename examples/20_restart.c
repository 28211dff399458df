/* A restart that refuses no client: started again for the same address, it takes over the old
 * process's listener. Usage: 20_restart [ADDRESS] */
#include <coir.h>
#include <stdio.h>
#include <unistd.h>

static char control[80]; /* where processes hand over */

static int answer(coir_stream *client, void *arg)
{
    char line[64];
    (void)arg;
    return coir_read(client, line, sizeof line) > 0 ? coir_write_all(client, "hello\n", 6) : 0;
}

static int serve(void *listener)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.listener = listener;
    return coir_serve_tcp_with(&options, answer, NULL);
}

/* From the process that serves already, if there is one; it hears that this one has it. */
static int take_over(const char *address, coir_listener **ret_listener)
{
    coir_stream *old;
    char byte, text[32];
    coir_fd fd;
    size_t count;
    int rc = -COIR_EEND;
    if (coir_tcp_connect(control, &old) < 0)
        return coir_tcp_listen(address, ret_listener);
    if (coir_unix_recv_fds(old, &byte, 1, &fd, 1, &count) == 1 && count == 1) {
        snprintf(text, sizeof text, "fd:%d", fd);
        if ((rc = coir_tcp_listen(text, ret_listener)) == 0)
            rc = coir_write_all(old, "!", 1);
    }
    coir_close(old);
    return rc;
}

/* To the next process that asks: 1 when that one has it, 0 if it has not. */
static int hand_over(coir_listener *listener)
{
    coir_listener *door = NULL;
    coir_stream *next = NULL;
    coir_credentials peer = COIR_CREDENTIALS;
    char byte;
    int rc = coir_tcp_listen(control, &door);
    rc = rc < 0 ? rc : coir_accept(door, &next);
    coir_listener_close(door); /* the successor listens there next */
    if (rc == 0 && coir_unix_peer(next, &peer) == 0 && peer.uid == geteuid()) {
        coir_fd fd = coir_listener_share(listener);
        rc = coir_unix_send_fds(next, "!", 1, &fd, 1) == 1 && coir_read(next, &byte, 1) == 1;
        close(fd);
    }
    coir_close(next);
    return rc;
}

static int start(void *address)
{
    coir_listener *listener = NULL;
    COIR_SCOPE(scope);
    snprintf(control, sizeof control, "unix:@coir-restart-%s", (const char *)address);
    int rc = take_over(address, &listener);
    if (rc == 0 && (rc = coir_go(scope, serve, listener)) == 0)
        fprintf(stderr, "process %d serves\n", (int)getpid());
    while (rc == 0)
        rc = hand_over(listener);
    coir_scope_cancel(scope); /* what has begun is served to its end */
    coir_scope_wait(scope);
    coir_listener_close(listener);
    return rc < 0 ? rc : 0;
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:7780");
}
