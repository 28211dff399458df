/* Waiting for a descriptor that the program reads itself: here a child's output. */
#define _POSIX_C_SOURCE 200809L /* for popen */
#include <coir.h>
#include <stdio.h>
#include <stdlib.h>

static int tick(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 3; i++)
        if (coir_sleep_for(30 * COIR_MS) == 0)
            printf("tick %d\n", i);
    return 0;
}

static int start(void *arg)
{
    (void)arg;
    FILE *child = popen("sleep 0.2; echo from the child", "r");
    char line[100];
    if (!child)
        return 1;
    COIR_SCOPE(scope);
    coir_go(scope, tick, NULL); /* goes on meanwhile */
    if (coir_fd_wait(fileno(child), COIR_READ) > 0 && fgets(line, sizeof line, child))
        printf("the child says: %s", line);
    pclose(child);
    return coir_scope_wait(scope);
}

int main(void)
{
    return coir_main(start, NULL);
}
