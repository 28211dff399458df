/* Bytes that tell where in which message they stand: copied from a table and compared with it,
 * because most of what a seed computes would be these otherwise. */
#ifndef TEST_SIM_BYTES_H
#define TEST_SIM_BYTES_H

#include <stdbool.h>
#include <stddef.h>

/* The `len` bytes from `at` on of the message `which`. */
void bytes_make(void *to, unsigned which, size_t at, size_t len);
bool bytes_are(const void *data, unsigned which, size_t at, size_t len);

#endif
