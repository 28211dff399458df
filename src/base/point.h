/* What an atomic operation is beside itself: nothing. The model scheduler of the tests puts a file
 * of its own in this one's place, where another thread may run before each operation. */
#ifndef CI_BASE_POINT_H
#define CI_BASE_POINT_H

#define CI_POINT(writes, operation) (operation)

#endif
