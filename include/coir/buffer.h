/* Buffers: immutable bytes with a reference count. Data for many receivers is one buffer to which
 * each receiver has a reference: nothing is copied. */
#ifndef COIR_BUFFER_H
#define COIR_BUFFER_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A buffer. It is made by coir_buffer_new or coir_buffer_wrap, with one reference. */
typedef struct coir_buffer coir_buffer;

/* Makes a buffer that holds a copy of `len` bytes. On a worker its memory is from the allocator of
 * the runtime, and the buffer must be freed before the runtime is; on a plain thread, from malloc.
 * Suspends: no.  Threads: any.  Owns: *ret_buffer is a reference of the caller's.
 * Errors: -ENOMEM; -EINVAL data or ret_buffer is NULL, or len is 0. */
COIR_API int coir_buffer_new(const void *data, size_t len, coir_buffer **ret_buffer);

/* Makes a buffer of bytes without copying them. They must not change from now on. The thread that
 * drops the last reference calls `free_data` with them, unless it is NULL; it must not suspend.
 * Otherwise as coir_buffer_new.
 * Suspends: no.  Threads: any.  Owns: on success the bytes are the buffer's, and *ret_buffer is a
 * reference of the caller's.
 * Errors: -ENOMEM; -EINVAL data or ret_buffer is NULL, or len is 0. */
COIR_API int coir_buffer_wrap(void *data, size_t len, void (*free_data)(void *data, void *arg),
                              void *arg, coir_buffer **ret_buffer);

/* Takes another reference to a buffer, and returns the buffer.
 * Suspends: no.  Threads: any.  Owns: the result is a reference of the caller's. */
COIR_API coir_buffer *coir_buffer_ref(coir_buffer *buffer);

/* Drops a reference, which the caller must not use again. The last one frees the buffer. Takes
 * NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_buffer_unref(coir_buffer *buffer);

/* The bytes of a buffer.
 * Suspends: no.  Threads: any. */
COIR_API const void *coir_buffer_data(const coir_buffer *buffer);

/* The number of bytes of a buffer.
 * Suspends: no.  Threads: any. */
COIR_API size_t coir_buffer_len(const coir_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
