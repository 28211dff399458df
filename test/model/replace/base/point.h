/* In place of src/base/point.h: another thread of the model may run before each atomic
 * operation. */
#ifndef CI_BASE_POINT_H
#define CI_BASE_POINT_H

#include <stdbool.h>
#include <stdint.h>

void ci_model_point(bool writes);
void ci_model_store_buffered(uint32_t *word, uint32_t value);
uint32_t ci_model_load_buffered(const uint32_t *word);

#define CI_POINT(writes, operation) (ci_model_point(writes), operation)
#define CI_POINT_BUFFERED(p, v) ci_model_store_buffered((p), (v))
#define CI_POINT_LOAD_BUFFERED(p) ci_model_load_buffered(p)

#endif
