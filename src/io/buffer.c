/* Buffers: immutable bytes with a reference count. */
#include "io/buffer.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/check.h"
#include "sync/allocator.h"
#include "sys/fork.h"
#include "sys/misuse.h"

static int make(size_t len, size_t own, coir_buffer **ret_buffer)
{
    const coir_allocator *allocator = ci_allocator_here();
    coir_buffer *buffer =
        own <= SIZE_MAX - sizeof *buffer ? ci_alloc(allocator, sizeof *buffer + own) : NULL;
    if (!buffer)
        return -ENOMEM;
    *buffer = (coir_buffer){.refs = 1, .len = len, .own = own, .allocator = *allocator};
    *ret_buffer = buffer;
    return 0;
}

int coir_buffer_new(const void *data, size_t len, coir_buffer **ret_buffer)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!data || !len || !ret_buffer)
        return CI_MISUSE(-EINVAL, "data, len or ret_buffer is NULL");
    coir_buffer *buffer;
    int rc = make(len, len, &buffer);
    if (rc < 0)
        return rc;
    buffer->data = memcpy(buffer + 1, data, len);
    *ret_buffer = buffer;
    return 0;
}

int coir_buffer_wrap(void *data, size_t len, void (*free_data)(void *data, void *arg), void *arg,
                     coir_buffer **ret_buffer)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!data || !len || !ret_buffer)
        return CI_MISUSE(-EINVAL, "data, len or ret_buffer is NULL");
    coir_buffer *buffer;
    int rc = make(len, 0, &buffer);
    if (rc < 0)
        return rc;
    buffer->data = data;
    buffer->free_data = free_data;
    buffer->arg = arg;
    *ret_buffer = buffer;
    return 0;
}

coir_buffer *coir_buffer_ref(coir_buffer *buffer)
{
    if (CI_REFUSED(!buffer, "buffer is NULL"))
        return NULL;
    uint32_t before =
        ci_fetch_add_relaxed(&buffer->refs, 1); /* relaxed: the caller has one already */
    ci_check(before > 0, "buffer.h 1");
    return buffer;
}

void coir_buffer_unref(coir_buffer *buffer)
{
    if (!buffer || ci_forked())
        return;
    uint32_t before = ci_fetch_sub(&buffer->refs, 1);
    ci_check(before > 0, "buffer.h 1");
    if (before > 1)
        return;
    if (buffer->contained) {
        buffer->free_data((void *)(uintptr_t)buffer->data, buffer->arg);
        return;
    }
    if (buffer->free_data)
        buffer->free_data((void *)(uintptr_t)buffer->data, buffer->arg);
    coir_allocator allocator = buffer->allocator;
    ci_free(&allocator, buffer, sizeof *buffer + buffer->own);
}

const void *coir_buffer_data(const coir_buffer *buffer)
{
    return CI_REFUSED(!buffer, "buffer is NULL") ? NULL : buffer->data;
}

size_t coir_buffer_len(const coir_buffer *buffer)
{
    return CI_REFUSED(!buffer, "buffer is NULL") ? 0 : buffer->len;
}
