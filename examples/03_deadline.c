/* A deadline holds to the end of its block, and is inherited by everything called in it. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>

static int start(void *arg)
{
    (void)arg;
    coir_stream *here, *there;
    char buf[16];
    ssize_t n;
    int rc = coir_duplex(0, &here, &there);
    if (rc < 0)
        return rc;
    {
        COIR_DEADLINE(coir_in(50 * COIR_MS));
        /* the other end does not write: -ETIME once it has passed */
        n = coir_read(here, buf, sizeof buf);
        printf("first read: %s\n", n == -ETIME ? "too late" : "?");
    }
    coir_write_all(there, "better late than never", 22);
    n = coir_read_full(here, buf, 11, NULL); /* the timeout did not damage anything */
    printf("second read: %.*s\n", (int)n, buf);
    coir_close(here);
    coir_close(there);
    return 0;
}

int main(void)
{
    return coir_main(start, NULL);
}
