#include "sys/gate.h"

void ci_gate_init(struct ci_gate *gate)
{
    ci_mutex_init(&gate->lock);
    ci_condition_init(&gate->opened);
    gate->open = false;
}

void ci_gate_done(struct ci_gate *gate)
{
    ci_condition_done(&gate->opened);
    ci_mutex_done(&gate->lock);
}

void ci_gate_open(struct ci_gate *gate)
{
    ci_mutex_lock(&gate->lock);
    gate->open = true;
    ci_condition_broadcast(&gate->opened);
    ci_mutex_unlock(&gate->lock); /* the last access: a waiter that returns may free the gate */
}

void ci_gate_wait(struct ci_gate *gate)
{
    ci_mutex_lock(&gate->lock);
    while (!gate->open)
        ci_condition_wait(&gate->opened, &gate->lock, COIR_NEVER);
    ci_mutex_unlock(&gate->lock);
}
