/* Clients that a restart must not touch: each connects, sends a line, reads the answer to its end,
 * and comes again, until SIGTERM and once more. Prints how many visits there were; anything but an
 * answer, also one that does not come, is an error. Usage: visits ADDRESS */
#include <coir.h>
#include <errno.h>
#include <stdio.h>

enum { CLIENTS = 16 };

static int visits;

static int visit(const char *address)
{
    coir_stream *stream;
    char answer[64];
    int rc = coir_tcp_connect(address, &stream);
    if (rc < 0)
        return rc;
    rc = coir_write_all(stream, "who?\n", 5);
    size_t len = 0;
    for (ssize_t n = 1; rc == 0 && n != 0; len += n > 0 ? (size_t)n : 0) {
        n = coir_read(stream, answer + len, sizeof answer - len);
        rc = n < 0 ? (int)n : 0;
    }
    coir_close(stream);
    return rc < 0 ? rc : len > 0 && answer[len - 1] == '\n' ? 0 : -ENODATA;
}

static int visit_again(const char *address)
{
    COIR_SHIELD;
    COIR_DEADLINE(coir_in(30 * COIR_S));
    return visit(address);
}

static int be_a_client(void *address)
{
    int rc;
    while ((rc = visit(address)) == 0)
        visits++;
    if (rc == coir_task_interrupted())
        rc = visit_again(address);
    if (rc < 0)
        printf("visit %d: %s\n", visits, coir_strerror(rc));
    return rc;
}

static int start(void *address)
{
    COIR_SCOPE(scope);
    for (int i = 0; i < CLIENTS; i++)
        coir_go(scope, be_a_client, address);
    int rc = coir_scope_wait(scope);
    printf("%d visits\n", visits);
    return rc;
}

int main(int argc, char **argv)
{
    return argc == 2 ? coir_main(start, argv[1]) : 2;
}
