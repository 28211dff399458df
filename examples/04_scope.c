/* A scope: nothing outlives it; the first error cancels the rest; leaving the block early cancels
 * and waits. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>

struct page {
    const char *name;
    coir_time takes;
    int fails;
};

static int fetch(void *arg)
{
    struct page *page = arg;
    int rc = coir_sleep_for(page->takes);
    if (rc == 0 && page->fails)
        rc = -EIO;
    printf("%s: %s\n", page->name, rc == 0 ? "fetched" : coir_strerror(rc));
    return rc;
}

static int fetch_both(struct page *left, struct page *right)
{
    COIR_SCOPE(scope);
    coir_go(scope, fetch, left);
    coir_go(scope, fetch, right);
    return coir_scope_wait(scope);
}

static int start(void *arg)
{
    (void)arg;
    struct page quick = {"quick", 10 * COIR_MS, 0}, slow = {"slow", 20 * COIR_MS, 0},
                broken = {"broken", 10 * COIR_MS, 1};
    printf("both: %s\n", coir_strerror(fetch_both(&quick, &slow)));
    printf("both: %s\n", coir_strerror(fetch_both(&broken, &slow)));
    return 0;
}

int main(void)
{
    return coir_main(start, NULL);
}
