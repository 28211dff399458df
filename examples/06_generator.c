/* A generator: a function that hands out one value after the other, and is sent one back each
 * time. */
#include <coir.h>
#include <inttypes.h>
#include <stdio.h>

static int fibonacci(coir_generator *generator, uint64_t first, void *arg)
{
    (void)arg;
    uint64_t a = first, b = 1, skip = 0;
    int rc;
    while ((rc = coir_generator_yield(generator, a, &skip)) == 0)
        do {
            uint64_t sum = a + b;
            a = b;
            b = sum;
        } while (skip-- > 0);
    return rc;
}

static int start(void *arg)
{
    (void)arg;
    coir_generator *numbers;
    uint64_t number;
    int rc = coir_generator_new(fibonacci, NULL, &numbers);
    for (int i = 0; rc >= 0 && i < 10; i++)
        if ((rc = coir_generator_next(numbers, i == 5 ? 10 : 0, &number)) > 0)
            printf("%" PRIu64 "\n", number);
    coir_generator_free(numbers);
    return rc < 0 ? rc : 0;
}

int main(void)
{
    return coir_main(start, NULL);
}
