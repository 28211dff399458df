/* Counts what OpenSSL has allocated. Included by one file of a program: it takes the place of
 * OpenSSL's allocator before main. */
#ifndef TEST_OPENSSL_MEMORY_H
#define TEST_OPENSSL_MEMORY_H

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#ifdef TEST_OPENSSL_ALONE_H /* in a program of one thread, counting costs nothing */
#define OPENSSL_COUNT
#else
#define OPENSSL_COUNT _Atomic
#endif

static OPENSSL_COUNT long openssl_live; /* allocations that were not freed yet */

/* While it is watched: how many were made on another thread than openssl_home. */
static pthread_t openssl_home;
static OPENSSL_COUNT bool openssl_watched;
static OPENSSL_COUNT long openssl_elsewhere;

static void *openssl_count_malloc(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    void *memory = malloc(size);
    openssl_live += memory != NULL;
    openssl_elsewhere += openssl_watched && !pthread_equal(openssl_home, pthread_self());
    return memory;
}

static void *openssl_count_realloc(void *memory, size_t size, const char *file, int line)
{
    (void)file, (void)line;
    void *moved = realloc(memory, size);
    openssl_live += !memory && moved;
    return moved;
}

static void openssl_count_free(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    openssl_live -= memory != NULL;
    free(memory);
}

__attribute__((constructor)) static void openssl_count(void)
{
    if (!CRYPTO_set_mem_functions(openssl_count_malloc, openssl_count_realloc, openssl_count_free))
        abort(); /* OpenSSL has allocated already */
}

#endif
