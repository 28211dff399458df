/* All atomics of coir go through here, so that the same code can be built against a model
 * scheduler, which runs every order of them (point.h). A site that uses an order weaker than
 * seq_cst names the site that it pairs with. */
#ifndef CI_BASE_ATOMIC_H
#define CI_BASE_ATOMIC_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/point.h"

#define ci_load(p) CI_POINT(false, __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define ci_load_acquire(p) CI_POINT(false, __atomic_load_n((p), __ATOMIC_ACQUIRE))
#define ci_load_relaxed(p) CI_POINT(false, __atomic_load_n((p), __ATOMIC_RELAXED))
#define ci_store(p, v) CI_POINT(true, __atomic_store_n((p), (v), __ATOMIC_SEQ_CST))
#define ci_store_release(p, v) CI_POINT(true, __atomic_store_n((p), (v), __ATOMIC_RELEASE))
#define ci_store_relaxed(p, v) CI_POINT(true, __atomic_store_n((p), (v), __ATOMIC_RELAXED))
#define ci_exchange(p, v) CI_POINT(true, __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))
#define ci_exchange_acquire(p, v) CI_POINT(true, __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE))
#define ci_fetch_add(p, v) CI_POINT(true, __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define ci_fetch_sub(p, v) CI_POINT(true, __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST))
#define ci_fetch_or(p, v) CI_POINT(true, __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST))
#define ci_fetch_and(p, v) CI_POINT(true, __atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST))
#define ci_fetch_add_relaxed(p, v) CI_POINT(true, __atomic_fetch_add((p), (v), __ATOMIC_RELAXED))
#define ci_compare_exchange(p, expected, v)                                                   \
    CI_POINT(true, __atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_SEQ_CST, \
                                               __ATOMIC_SEQ_CST))

/* A counter that one thread writes and any may read. It orders nothing; a plain load and store cost
 * less than an atomic addition. */
#define ci_bump(p) \
    __atomic_store_n((p), __atomic_load_n((p), __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED)
#define ci_drop(p) \
    __atomic_store_n((p), __atomic_load_n((p), __ATOMIC_RELAXED) - 1, __ATOMIC_RELAXED)

/* A look, without the lock that guards it, at a word that its holder shows. What it sees may be
 * old, so it decides nothing that matters; the model has no point there. */
#define ci_glance(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define ci_show(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/* A store of 32 bits after which the same thread looks at another word, without a fence: other
 * threads may see it late, but not after a barrier everywhere (sys/barrier.h). */
#define ci_store_buffered(p, v) CI_POINT_BUFFERED((p), (v))

/* An acquire load of such a word by another thread. */
#define ci_load_buffered(p) CI_POINT_LOAD_BUFFERED(p)

/* Orders all loads and stores around it. A site names the fence that it pairs with. */
#define ci_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

#endif
