/* A gate that one thread opens, once, for the threads that wait at it. They see what was stored
 * before it was opened. The last of them may free it: the thread that opened it does not touch it
 * again. */
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
