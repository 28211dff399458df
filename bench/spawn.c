/* A child process from its start to its end: coir beside posix_spawn and waitid alone, in blocks
 * that alternate. Usage: bench_spawn [COUNT], of spawns of each kind. */
#include <coir.h>
#include <dirent.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { BLOCK = 50 };

extern char **environ;
static const char *const command[] = {"/bin/true", NULL};

static int spawn_bare(void)
{
    pid_t pid;
    siginfo_t info;
    int rc = posix_spawn(&pid, command[0], NULL, NULL, (char **)(uintptr_t)command, environ);
    return rc ? -rc : waitid(P_PID, (id_t)pid, &info, WEXITED) < 0 ? -1 : info.si_status;
}

static int spawn_coir(void)
{
    COIR_PROCESS(child);
    int rc = coir_process_spawn(child, command);
    return rc < 0 ? rc : coir_process_wait(child);
}

static coir_time block_of(int (*spawn)(void))
{
    coir_time begin = coir_now();
    for (int i = 0; i < BLOCK; i++)
        if (spawn() != 0)
            abort();
    return coir_now() - begin;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int open_files(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static long resident(void)
{
    long pages = 0, kept = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &pages, &kept) != 2)
        kept = 0;
    if (file)
        fclose(file);
    return kept;
}

static int start(void *arg)
{
    int blocks = *(const int *)arg / BLOCK;
    double *ratios = malloc((size_t)blocks * sizeof *ratios);
    coir_time bare = 0, coir = 0;
    if (!ratios)
        return -1;
    block_of(spawn_bare);
    block_of(spawn_coir);
    int files = open_files();
    long pages = resident();
    for (int i = 0; i < blocks; i++) {
        coir_time own = 0, other;
        if (i % 2)
            own = block_of(spawn_coir);
        other = block_of(spawn_bare);
        if (!own)
            own = block_of(spawn_coir);
        ratios[i] = (double)own / (double)other;
        coir += own;
        bare += other;
    }
    qsort(ratios, (size_t)blocks, sizeof *ratios, by_value);
    printf("posix_spawn and waitid %.0f us, coir %.0f us, ratio %.3f (%.3f to %.3f), goal 1.1\n",
           (double)bare / 1e3 / blocks / BLOCK, (double)coir / 1e3 / blocks / BLOCK,
           ratios[blocks / 2], ratios[blocks / 10], ratios[blocks - 1 - blocks / 10]);
    printf("left by %d spawns: %d descriptors, %d zombies, %ld pages\n", blocks * BLOCK,
           open_files() - files, waitpid(-1, NULL, WNOHANG | __WALL) >= 0, resident() - pages);
    free(ratios);
    return 0;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1000;
    setenv("COIR_WORKERS", "1", 1);
    return count < BLOCK ? 2 : coir_main(start, &count);
}
