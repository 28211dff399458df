/* Runs a command whenever something in a directory has changed, once the changes have paused.
 * Usage: 26_watch DIRECTORY COMMAND [ARGUMENT...] */
#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>

enum { CHANGES = COIR_CHANGE_WRITTEN | COIR_CHANGE_REMOVED | COIR_CHANGE_MOVED_IN };
static const int stops[] = {SIGINT, SIGTERM};

static int run(const char *const *command)
{
    COIR_PROCESS(child);
    int rc = coir_process_spawn(child, command);
    if (rc == 0)
        rc = coir_process_wait(child);
    if (rc > 0)
        fprintf(stderr, "%s: status %d\n", command[0], rc);
    return rc < 0 ? rc : 0;
}

/* What is to be done about a change: 1, nothing: 0, or the error that ends the program. */
static int look_at(const coir_change *change)
{
    switch (change->kind) {
    case COIR_CHANGE_OVERFLOW: puts("changes were lost"); return 1;
    case COIR_CHANGE_GONE: return -ENOENT;
    case COIR_CHANGE_MOVED: return 0;
    default: printf("%s\n", change->name); return 1;
    }
}

static int watch(coir_watcher *watcher, coir_signals *signals, const char *const *command)
{
    coir_time due = COIR_NEVER; /* when the command runs */
    for (;;) {
        coir_change change = COIR_CHANGE;
        coir_case waits[] = {coir_case_signal(signals), coir_case_change(watcher, &change),
                             coir_case_at(due)};
        int which = coir_select_in_order(waits, 3);
        int rc = which < 0 ? which : (int)waits[which].result;
        if (rc < 0 || which == 0)
            return rc < 0 ? rc : 0;
        if (which == 1 && (rc = look_at(&change)) > 0)
            due = coir_in(50 * COIR_MS);
        if (which == 2) {
            due = COIR_NEVER;
            rc = run(command);
        }
        fflush(stdout);
        if (rc < 0)
            return rc;
    }
}

static int start(void *arg)
{
    const char *const *arguments = arg;
    coir_watcher *watcher = NULL;
    coir_signals *signals = NULL;
    int rc = coir_signals_open(stops, 2, &signals);
    if (rc == 0 && (rc = coir_watcher_open(&watcher)) == 0 &&
        (rc = coir_watcher_add(watcher, arguments[0], CHANGES)) > 0)
        rc = watch(watcher, signals, arguments + 1);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", arguments[0], coir_strerror(rc));
    coir_watcher_close(watcher);
    coir_signals_close(signals);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "usage: 26_watch DIRECTORY COMMAND [ARGUMENT...]\n"), 2;
    return coir_main(start, argv + 1);
}
