/* A broadcast: a line from one client (nc 127.0.0.1 7785) goes to all others, as one buffer. A
 * client that does not read loses its oldest lines. Usage: 18_broadcast [ADDRESS] */
#include <coir.h>
#include <errno.h>

enum { CLIENTS_MAX = 10000 };

static coir_write_queue *queues[CLIENTS_MAX];
static size_t count;
static coir_mutex lock;

static int enter(coir_write_queue *queue)
{
    int rc = coir_mutex_lock(&lock);
    if (rc < 0)
        return rc;
    if (count < CLIENTS_MAX)
        queues[count++] = queue;
    else
        rc = -ENOSPC;
    coir_mutex_unlock(&lock);
    return rc;
}

static void leave(const coir_write_queue *queue)
{
    COIR_SHIELD; /* also when the server is being stopped */
    coir_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        if (queues[i] == queue)
            queues[i] = queues[--count];
    coir_mutex_unlock(&lock);
}

static int send_to_others(const coir_write_queue *own, char *line, size_t len)
{
    coir_buffer *buffer;
    line[len] = '\n'; /* in the place of its NUL */
    int rc = coir_buffer_new(line, len + 1, &buffer);
    if (rc < 0)
        return rc;
    if ((rc = coir_mutex_lock(&lock)) == 0) {
        for (size_t i = 0; i < count; i++)
            if (queues[i] != own)
                coir_write_queue_try_push(queues[i], buffer);
        coir_mutex_unlock(&lock);
    }
    coir_buffer_unref(buffer);
    return rc;
}

static int serve(coir_stream *client, void *arg)
{
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.overflow = COIR_OVERFLOW_DROP_OLDEST;
    coir_write_queue *queue = NULL;
    coir_reader *reader = NULL;
    char *line;
    size_t len;
    (void)arg;
    int rc = coir_write_queue_new_with(client, &options, &queue);
    if (rc == 0 && (rc = coir_reader_new(client, 0, &reader)) == 0)
        rc = enter(queue);
    while (rc == 0 && (rc = coir_reader_read_line(reader, &line, &len)) == 1)
        rc = send_to_others(queue, line, len);
    leave(queue);
    coir_reader_free(reader);
    coir_write_queue_free(queue);
    return rc;
}

static int start(void *address)
{
    return coir_serve_tcp(address, serve, NULL);
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:7785");
}
