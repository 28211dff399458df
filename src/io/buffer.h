/* The record of a buffer, for objects that contain one.
 *
 * 1. `refs` is the number of references to the buffer, which is freed when it reaches 0.
 */
#ifndef CI_IO_BUFFER_H
#define CI_IO_BUFFER_H

#include "base/memory.h"
#include "coir/buffer.h"

struct coir_buffer {
    uint32_t refs;
    bool contained;   /* free_data frees the record as well */
    const char *data; /* behind the struct (a copy), or the program's (wrapped) */
    size_t len, own;  /* own: bytes allocated behind the struct */
    void (*free_data)(void *data, void *arg);
    void *arg;
    coir_allocator allocator;
};

/* Makes a buffer inside of an object, which `free_object` frees with the last reference. Bytes and
 * length are the object's to set before another task sees the buffer. */
static inline void ci_buffer_init(coir_buffer *buffer, void (*free_object)(void *data, void *arg),
                                  void *arg)
{
    buffer->refs = 1;
    buffer->contained = true;
    buffer->free_data = free_object;
    buffer->arg = arg;
}

#endif
