/* In place of src/base/point.h: another thread of the model may run before each atomic
 * operation. */
#ifndef CI_BASE_POINT_H
#define CI_BASE_POINT_H

#include <stdbool.h>

void ci_model_point(bool writes);

#define CI_POINT(writes, operation) (ci_model_point(writes), operation)

#endif
