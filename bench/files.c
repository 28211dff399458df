/* 4 KiB random reads of one file: operations per second of CPU time, at a depth. Usage: bench_files
 * PATH DEPTH SECONDS [direct] */
#include <coir.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BLOCK = 4096 };

static coir_file *file;
static int64_t blocks;
static coir_time end;
static uint64_t reads, errors;

static int read_at_random(void *arg)
{
    uint64_t state = (uint64_t)(uintptr_t)arg * 0x9e3779b97f4a7c15u + 1;
    void *buf = aligned_alloc(BLOCK, BLOCK);
    for (unsigned i = 0; buf && (i % 64 || coir_now() < end); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int64_t block = (int64_t)((state >> 33) % (uint64_t)blocks);
        errors += coir_file_read(file, buf, BLOCK, block * BLOCK) != BLOCK;
        reads++;
    }
    free(buf);
    return 0;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int start(void *arg)
{
    char **argv = arg;
    int depth = atoi(argv[2]),
        rc = coir_file_open(argv[1], O_RDONLY | (argv[4] ? O_DIRECT : 0), 0, &file);
    int64_t size;
    if (rc < 0 || (rc = coir_file_size(file, &size)) < 0)
        return rc;
    blocks = size / BLOCK;
    coir_time began = coir_now();
    end = began + atoi(argv[3]) * COIR_S;
    double before = cpu_seconds();
    {
        COIR_SCOPE(scope);
        for (intptr_t i = 0; i < depth; i++)
            coir_go(scope, read_at_random, (void *)i);
        rc = coir_scope_wait(scope);
    }
    double seconds = (double)(coir_now() - began) / 1e9, cpu = cpu_seconds() - before;
    printf("%.0f reads/s, %.0f reads per CPU second, %llu errors\n", (double)reads / seconds,
           (double)reads / cpu, (unsigned long long)errors);
    coir_file_close(file);
    return rc;
}

int main(int argc, char **argv)
{
    setenv("COIR_WORKERS", "1", 1);
    return argc < 4 ? 2 : coir_main(start, argv);
}
