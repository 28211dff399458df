/* Two processes and a pipe: what `sort | uniq -c` makes of some words, for at most five seconds. */
#define _GNU_SOURCE /* pipe2 */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char words[] = "pear\napple\npear\nfig\napple\npear\n";

/* A task of its own: a child that reads and writes stops when nobody reads what it writes. */
static int feed(void *first)
{
    int rc = coir_write_all(coir_process_stdin(first), words, sizeof words - 1);
    coir_close(coir_process_stdin(first)); /* the end of its input */
    return rc;
}

/* Starts both, with a pipe between them that only they have. */
static int spawn_both(coir_process *first, coir_process *second)
{
    static const char *const sort[] = {"sort", NULL}, *const count[] = {"uniq", "-c", NULL};
    coir_process_options options = COIR_PROCESS_OPTIONS;
    int between[2];
    if (pipe2(between, O_CLOEXEC) < 0)
        return -errno;
    options.in = COIR_STDIO_PIPE;
    options.out = COIR_STDIO_FD(between[1]);
    int rc = coir_process_spawn_with(first, sort, &options);
    if (rc == 0) {
        options.in = COIR_STDIO_FD(between[0]);
        options.out = COIR_STDIO_PIPE;
        rc = coir_process_spawn_with(second, count, &options);
    }
    close(between[0]);
    close(between[1]);
    return rc;
}

static int start(void *arg)
{
    char text[256];
    ssize_t n;
    (void)arg;
    COIR_DEADLINE(coir_in(5 * COIR_S));
    COIR_PROCESS(first); /* however this block is left, both have ended then */
    COIR_PROCESS(second);
    COIR_SCOPE(scope);
    int rc = spawn_both(first, second);
    if (rc == 0)
        rc = coir_go(scope, feed, first);
    if (rc < 0)
        return rc;
    while ((n = coir_read(coir_process_stdout(second), text, sizeof text)) > 0)
        printf("%.*s", (int)n, text);
    if (n < 0 || (rc = coir_scope_wait(scope)) < 0)
        return n < 0 ? (int)n : rc;
    int codes[] = {coir_process_wait(first), coir_process_wait(second)};
    printf("exit codes %d and %d\n", codes[0], codes[1]);
    return codes[0] < 0 ? codes[0] : codes[1] < 0 ? codes[1] : 0;
}

int main(void)
{
    return coir_main(start, NULL);
}
