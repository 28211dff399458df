/* Public structs that grow from version to version, and so begin with their size. A program may
 * have been compiled against an older coir, whose structs are shorter, or against a newer one,
 * whose structs are longer. A field is never removed, moved, or put into former padding: so the
 * fields beyond the end of an older struct all have their defaults. */
#ifndef CI_BASE_OPTIONS_H
#define CI_BASE_OPTIONS_H

#include "base/compiler.h"
#include "coir/base.h"

/* Whether the size in `given` may be that of some version of a struct which has `size` bytes in
 * this one. -COIR_EUNSIZED. */
int ci_size_check(const void *given, size_t size);

/* Copies the options of a program, of any version's size, into `options`, a struct of `size` bytes
 * that is set to its initialiser. 0; -COIR_EUNSIZED as ci_size_check; -COIR_ENEWER what lies behind
 * `size` bytes is not zero. NULL: nothing is given. */
int ci_options_read(void *options, size_t size, const void *given);

/* Copies a result, a struct of `size` bytes, into the program's, as much as that has room for.
 * -COIR_EUNSIZED. */
int ci_result_write(void *ret_result, const void *result, size_t size);

/* The allocator to use: a copy of what was given, or malloc's for NULL. -EINVAL a function is
 * missing; as ci_options_read. */
int ci_allocator_read(coir_allocator *allocator, const coir_allocator *given);

/* An opaque struct of the public interface keeps room for later versions. */
#define CI_SPARE_WORDS 4
#define CI_LEAVES_SPARE_WORDS(own, shown)                                            \
    _Static_assert(sizeof(own) + CI_SPARE_WORDS * sizeof(uint64_t) <= sizeof(shown), \
                   #shown " has too few spare words")

#endif
