#include "base/options.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

/* A larger size is garbage: the program left the initialiser out. No version's struct grows so
 * much, and each ends at a word boundary. */
enum { GROWTH_MAX = 1024 };

int ci_size_check(const void *given, size_t size)
{
    size_t given_size;
    memcpy(&given_size, given, sizeof given_size);
    bool is_size = given_size >= sizeof given_size && given_size <= size + GROWTH_MAX &&
                   given_size % sizeof given_size == 0;
    return is_size ? 0 : -COIR_EUNSIZED;
}

int ci_options_read(void *options, size_t size, const void *given)
{
    size_t given_size;
    if (!given)
        return 0;
    int rc = ci_size_check(given, size);
    if (rc < 0)
        return rc;
    memcpy(&given_size, given, sizeof given_size);
    if (given_size > size && !ci_is_zero((const char *)given + size, given_size - size))
        return -COIR_ENEWER;
    memcpy(options, given, given_size < size ? given_size : size);
    memcpy(options, &size, sizeof size);
    return 0;
}

int ci_result_write(void *ret_result, const void *result, size_t size)
{
    size_t wanted;
    int rc = ci_size_check(ret_result, size);
    if (rc < 0)
        return rc;
    memcpy(&wanted, ret_result, sizeof wanted);
    size_t common = wanted < size ? wanted : size;
    memcpy((char *)ret_result + sizeof wanted, (const char *)result + sizeof wanted,
           common - sizeof wanted);
    if (wanted > size)
        memset((char *)ret_result + size, 0, wanted - size);
    return 0;
}

int ci_allocator_read(coir_allocator *allocator, const coir_allocator *given)
{
    *allocator = ci_system_allocator;
    int rc = ci_options_read(allocator, sizeof *allocator, given);
    return rc == 0 && (!allocator->alloc || !allocator->free) ? -EINVAL : rc;
}
