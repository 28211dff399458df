/* Generators: a function with a stack of its own that hands out values one at a time. Both
 * directions carry 64 bits. A generator runs as part of the task that resumes it: it may suspend,
 * and sees that task's cancellation and deadlines. */
#ifndef COIR_GENERATOR_H
#define COIR_GENERATOR_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_generator coir_generator;

/* `first` is what the first coir_generator_next passed in. Returns 0 or a negative error. */
typedef int coir_generator_fn(coir_generator *generator, uint64_t first, void *arg);

/* Suspends: no.  Threads: worker, in a fiber.  Owns: *ret_generator is the caller's, of this
 * worker.
 * Errors: -ENOMEM; -EINVAL no function; -ESRCH not in a fiber. */
COIR_API int coir_generator_new(coir_generator_fn *fn, void *arg, coir_generator **ret_generator);

/* Runs the generator until it yields (1, *ret_value is what it yielded) or ends (0, or its error;
 * from then on always that).
 * Suspends: when the generator's function does.  Threads: owner.
 * Errors: what the function returned; -EXDEV another worker; -EBUSY it is running.
 * Cancel safety: what the function waits for is cancelled; the generator stays usable. */
COIR_SUSPENDS int coir_generator_next(coir_generator *generator, uint64_t send,
                                      uint64_t *ret_value);

/* Called by the generator's function: hands `value` out and waits for the next coir_generator_next,
 * whose value it stores.
 * Suspends: the generator, not the task.  Threads: owner.
 * Errors: -ECANCELED when the generator is being freed, and from then on. */
COIR_API int coir_generator_yield(coir_generator *generator, uint64_t value, uint64_t *ret_sent);

/* Lets an unfinished function run to its end (its yields return -ECANCELED), then frees. Takes
 * NULL.
 * Suspends: when the function does.  Threads: owner, in a fiber.
 * Cancel safety: it runs to its end all the same. */
COIR_SUSPENDS void coir_generator_free(coir_generator *generator);

#ifdef __cplusplus
}
#endif

#endif
