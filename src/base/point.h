/* The hook around each atomic operation. Here it adds nothing; the model scheduler of the tests
 * replaces this file by one that may run another thread before the operation. */
#ifndef CI_BASE_POINT_H
#define CI_BASE_POINT_H

#define CI_POINT(writes, operation) (operation)

#endif
