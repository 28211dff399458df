/* Generators: a function with a stack of its own that hands out values one at a time. Both
 * directions carry 64 bits. A generator runs as part of the task that resumes it: it may suspend,
 * and sees that task's cancellation and deadlines. Scopes, deadlines and shields nest with those of
 * the task: what its function has opened or entered it closes or leaves before it yields. */
#ifndef COIR_GENERATOR_H
#define COIR_GENERATOR_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A generator. It is made by coir_generator_new. */
typedef struct coir_generator coir_generator;

/* A generator's function: returns 0, or a negative error. `first` is what the first
 * coir_generator_next passed in. */
typedef int coir_generator_fn(coir_generator *generator, uint64_t first, void *arg);

/* Makes a generator with a stack of its own; its function first runs in coir_generator_next.
 * Suspends: no.  Threads: worker, in a fiber.  Owns: *ret_generator is the caller's to free, on
 * this worker.
 * Errors: -ENOMEM; -EINVAL no function; -ESRCH not in a fiber. */
COIR_API int coir_generator_new(coir_generator_fn *fn, void *arg, coir_generator **ret_generator);

/* Runs a generator until it yields or ends. It returns 1 when the function has yielded *ret_value;
 * 0 or the function's error when it has ended, from then on always that. `send` is what the
 * function's yield gets.
 * Suspends: when the generator's function does.  Threads: owner.
 * Errors: what the function returned; -EXDEV another worker; -EBUSY it is running.
 * Cancel safety: what the function waits for is cancelled; the generator stays usable. */
COIR_SUSPENDS int coir_generator_next(coir_generator *generator, uint64_t send,
                                      uint64_t *ret_value);

/* Hands a value out of a generator's function, and waits for the next coir_generator_next. It
 * stores what that sends in *ret_sent, where given. It switches back to the task, which goes on.
 * Suspends: no: the generator's function waits, not the task.  Threads: owner.
 * Errors: -ECANCELED when the generator is being freed, and from then on. */
COIR_API int coir_generator_yield(coir_generator *generator, uint64_t value, uint64_t *ret_sent);

/* Lets an unfinished generator's function run to its end, then frees the generator. The function's
 * yields return -ECANCELED meanwhile. Takes NULL.
 * Suspends: when the function does.  Threads: owner, in a fiber.
 * Cancel safety: it runs to its end all the same. */
COIR_SUSPENDS void coir_generator_free(coir_generator *generator);

#ifdef __cplusplus
}
#endif

#endif
