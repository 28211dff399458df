/* The hook around each atomic operation. Here it adds nothing; the model scheduler of the tests
 * replaces this file by one that may run another thread before the operation. */
#ifndef CI_BASE_POINT_H
#define CI_BASE_POINT_H

#define CI_POINT(writes, operation) (operation)

/* A store to a word of 32 bits that other threads may see late. The fence is the compiler's. */
#define CI_POINT_BUFFERED(p, v) \
    (__atomic_store_n((p), (v), __ATOMIC_RELAXED), __atomic_signal_fence(__ATOMIC_SEQ_CST))

#define CI_POINT_LOAD_BUFFERED(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)

#endif
