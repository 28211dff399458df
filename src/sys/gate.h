/* A gate that one thread opens, once, for threads that wait at it. What was stored before it was
 * opened is seen behind it. The last to pass it may free it: whoever opens it does not touch it
 * any more. */
#ifndef CI_SYS_GATE_H
#define CI_SYS_GATE_H

#include <stdbool.h>

#include "sys/thread.h"

struct ci_gate {
    struct ci_mutex lock;
    struct ci_condition opened;
    bool open;
};

void ci_gate_init(struct ci_gate *gate);
void ci_gate_done(struct ci_gate *gate);
void ci_gate_open(struct ci_gate *gate);
void ci_gate_wait(struct ci_gate *gate);

#endif
