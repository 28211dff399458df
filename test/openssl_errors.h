/* OpenSSL keeps a queue of errors for each thread of the system: over the simulated kernel each
 * simulated thread has its own by `ci_kthread_exchange = openssl_errors_exchange`. Otherwise an
 * error that another thread has not read yet would be taken for the caller's. Of each error its
 * code is kept, as the library reads nothing else. */
#ifndef TEST_OPENSSL_ERRORS_H
#define TEST_OPENSSL_ERRORS_H

#include <openssl/err.h>
#include <stdlib.h>

#include "sim/kernel/kernel.h"

enum { OPENSSL_ERRORS_MOST = 16 }; /* which the queue has room for */

struct openssl_errors {
    int count;
    unsigned long codes[OPENSSL_ERRORS_MOST];
};

static void *openssl_errors_exchange(void *kept)
{
    struct openssl_errors *came = kept, *left = NULL;
    if (ERR_peek_error()) {
        left = ci_kalloc(sizeof *left);
        for (unsigned long code; left->count < OPENSSL_ERRORS_MOST && (code = ERR_get_error());)
            left->codes[left->count++] = code;
        ERR_clear_error(); /* what those have left, too */
    }
    for (int i = 0; came && i < came->count; i++) {
        ERR_new();
        ERR_set_error(ERR_GET_LIB(came->codes[i]), ERR_GET_REASON(came->codes[i]), NULL);
    }
    free(came);
    return left;
}

#endif
