/* How fast the machine is now, on one processor: a null system call, a step of a chain of dependent
 * multiplications, a load from memory that is in no cache, in nanoseconds of CPU time; and the
 * share of the time that the processor was this program's. Figures of runs between which these
 * differ do not compare. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 200000, MULTIPLICATIONS = 20000000, LOADS = 1000000, CELLS = 1 << 20, CELL = 64 };

struct cell {
    struct cell *next;
    char rest[CELL - sizeof(struct cell *)];
};

static double clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double now_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static double system_call_ns(void)
{
    double start = now_ns();
    for (int i = 0; i < CALLS; i++)
        syscall(SYS_getppid);
    return (now_ns() - start) / CALLS;
}

static double multiplication_ns(void)
{
    volatile uint64_t result;
    uint64_t product = 3;
    double start = now_ns();
    for (int i = 0; i < MULTIPLICATIONS; i++) {
        product *= product;
        __asm__ volatile("" : "+r"(product)); /* each one is made */
    }
    result = product;
    (void)result;
    return (now_ns() - start) / MULTIPLICATIONS;
}

/* One circle through all cells, in an order that nothing foresees. */
static void link_cells(struct cell *cells)
{
    uint32_t *order = malloc(CELLS * sizeof *order);
    if (!order)
        exit(1);
    uint64_t random = 1;
    for (uint32_t i = 0; i < CELLS; i++)
        order[i] = i;
    for (uint32_t i = CELLS - 1; i > 0; i--) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        uint32_t with = (uint32_t)(random >> 33) % (i + 1), other = order[with];
        order[with] = order[i];
        order[i] = other;
    }
    for (uint32_t i = 0; i < CELLS; i++)
        cells[order[i]].next = &cells[order[(i + 1) % CELLS]];
    free(order);
}

static double load_ns(void)
{
    struct cell *cells = malloc(CELLS * sizeof *cells);
    if (!cells)
        exit(1);
    link_cells(cells);
    struct cell *volatile end, *at = cells;
    double start = now_ns();
    for (int i = 0; i < LOADS; i++)
        at = at->next;
    end = at;
    (void)end;
    double ns = (now_ns() - start) / LOADS;
    free(cells);
    return ns;
}

int main(void)
{
    double start = clock_ns(CLOCK_MONOTONIC), cpu_start = now_ns();
    printf("%.1f %.3f %.1f", system_call_ns(), multiplication_ns(), load_ns());
    printf(" %.2f\n", (now_ns() - cpu_start) / (clock_ns(CLOCK_MONOTONIC) - start));
    return 0;
}
