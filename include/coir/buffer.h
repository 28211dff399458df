/* Buffers: bytes that are shared and never change, counted by reference. Data for many receivers is
 * one buffer, to which each has a reference: nothing is copied. */
#ifndef COIR_BUFFER_H
#define COIR_BUFFER_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A buffer. It is made by coir_buffer_new or coir_buffer_wrap, with one reference. */
typedef struct coir_buffer coir_buffer;

/* Makes a buffer that holds a copy of `len` bytes. Its memory is that of the calling worker's
 * runtime, which it must not outlive then, or of malloc, on a plain thread.
 * Suspends: no.  Threads: any.  Owns: *ret_buffer is a reference of the caller's.
 * Errors: -ENOMEM; -EINVAL no bytes, or nowhere for the buffer. */
COIR_API int coir_buffer_new(const void *data, size_t len, coir_buffer **ret_buffer);

/* Makes a buffer of bytes that stay where they are, and must not change from now on. When the last
 * reference is given up, `free_data` (NULL: nothing) is called with them, by whichever thread that
 * is; it must not suspend. Otherwise as coir_buffer_new.
 * Suspends: no.  Threads: any.  Owns: the bytes are the buffer's, if it succeeds; *ret_buffer is a
 * reference of the caller's.
 * Errors: -ENOMEM; -EINVAL no bytes, or nowhere for the buffer. */
COIR_API int coir_buffer_wrap(void *data, size_t len, void (*free_data)(void *data, void *arg),
                              void *arg, coir_buffer **ret_buffer);

/* Takes another reference of a buffer, and returns the buffer.
 * Suspends: no.  Threads: any.  Owns: the result is a reference of the caller's. */
COIR_API coir_buffer *coir_buffer_ref(coir_buffer *buffer);

/* Gives a reference up. The last one frees the buffer. Takes NULL.
 * Suspends: no.  Threads: any.  Owns: the reference is the call's. */
COIR_API void coir_buffer_unref(coir_buffer *buffer);

/* The bytes of a buffer.
 * Suspends: no.  Threads: any. */
COIR_API const void *coir_buffer_data(const coir_buffer *buffer);

/* How many bytes a buffer has.
 * Suspends: no.  Threads: any. */
COIR_API size_t coir_buffer_len(const coir_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
