/* An echo server with callbacks, and a client that tries it: TCP without tasks. */
#include <coir/loop_tcp.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct connection {
    coir_queued_write write;
    char data[4096];
} connection;
static coir_socket_fn on_data;

static void finish(coir_socket *socket, connection *own)
{
    coir_socket_close(socket);
    free(own);
}

static void on_echoed(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    connection *own = arg;
    (void)write;
    if (result < 0 || coir_socket_read(socket, own->data, sizeof own->data, on_data, own) < 0)
        finish(socket, own);
}

/* Reads and writes take turns: from a client that does not read, nothing is read. */
static void on_data(coir_socket *socket, ssize_t count, void *arg)
{
    connection *own = arg;
    if (count <= 0 ||
        coir_socket_write(socket, &own->write, own->data, (size_t)count, on_echoed, own) < 0)
        finish(socket, own);
}

static void on_connection(coir_acceptor *acceptor, coir_socket *socket, int result, void *arg)
{
    (void)arg;
    connection *own = result < 0 ? NULL : malloc(sizeof *own);
    if (!own || coir_socket_read(socket, own->data, sizeof own->data, on_data, own) < 0)
        finish(socket, own);
    coir_acceptor_close(acceptor); /* one client will do here */
}

/* An error is that of the answer, too. */
static void on_sent(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)socket, (void)write, (void)result, (void)arg;
}

static void on_answer(coir_socket *socket, ssize_t count, void *arg)
{
    if (count > 0)
        printf("answer: %.*s\n", (int)count, (const char *)arg);
    coir_socket_close(socket); /* nothing is left: the loop returns */
}

static void on_connected(coir_socket *socket, ssize_t result, void *arg)
{
    if (result < 0 || coir_socket_read(socket, arg, 64, on_answer, arg) < 0)
        coir_socket_close(socket);
}

int main(void)
{
    char answer[64], where[64];
    coir_loop *loop;
    coir_socket *client;
    coir_acceptor *acceptor;
    coir_queued_write hello;
    if (coir_loop_new(&loop) < 0 ||
        coir_acceptor_open(loop, "127.0.0.1:0", on_connection, NULL, &acceptor) < 0 ||
        coir_acceptor_local(acceptor, where, sizeof where) < 0 ||
        coir_socket_connect(loop, where, on_connected, answer, &client) < 0 ||
        coir_socket_write(client, &hello, "hello", 5, on_sent, NULL) < 0)
        return 1;
    int rc = coir_loop_run(loop);
    coir_loop_free(loop);
    return rc < 0;
}
