/* Many sleeping fibers on one worker: what each costs in resident memory. Usage: probe_fibers
 * COUNT */
#include <coir.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int asleep;

static int sleeper(void *arg)
{
    (void)arg;
    asleep++;
    return coir_sleep_for(3600 * COIR_S);
}

static long resident(void)
{
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &ignored, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static long page_tables(void)
{
    char line[200];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "VmPTE: %ld kB", &kb);
    if (file)
        fclose(file);
    return kb * 1024;
}

static long mappings(void)
{
    long count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c; file && (c = fgetc(file)) != EOF;)
        count += c == '\n';
    if (file)
        fclose(file);
    return count;
}

static int start(void *arg)
{
    long count = *(long *)arg, before = resident(), tables = page_tables();
    coir_time began = coir_now();
    {
        COIR_SCOPE(scope);
        for (long i = 0; i < count; i++) {
            int rc = coir_go(scope, sleeper, NULL);
            if (rc < 0) {
                printf("stopped at %ld: %s\n", i, coir_strerror(rc));
                return rc;
            }
            if (i % 1000 == 0)
                coir_yield();
        }
        while (asleep < count)
            coir_yield();
        printf("%ld fibers asleep after %.2f s: %.0f bytes resident each (and %.0f of page "
               "tables), %ld mappings\n",
               count, (double)(coir_now() - began) / (double)COIR_S,
               (double)(resident() - before) / (double)count,
               (double)(page_tables() - tables) / (double)count, mappings());
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 100000;
    setenv("COIR_WORKERS", "1", 1);
    return coir_main(start, &count);
}
