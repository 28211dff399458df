/* Histories of concurrent operations on one object, and a check of whether they are linearizable:
 * whether each operation can have taken effect at one moment between its invocation and its
 * return, so that a sequential object gives the same results (Herlihy and Wing, 1990).
 *
 * The check is the search of Wing and Gong, with Lowe's memoisation: the set of operations that
 * have taken effect, together with the object's state, is tried once. Linearizability is local: a
 * history of several objects is linearizable if that of each object is, so each has its own. */
#ifndef TEST_SIM_HISTORY_H
#define TEST_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { HISTORY_MOST = 256, HISTORY_STATE_MOST = 256 };

struct history_op {
    int task, kind;   /* kind: the model's */
    int64_t arg, ret; /* likewise */
    uint64_t invoked, returned;
    bool open; /* its outcome is unknown: it may take effect at any time after its invocation, or
                  never */
};

/* The sequential object. */
struct history_model {
    const char *const *kinds; /* names, for reports */
    size_t state_size;        /* at most HISTORY_STATE_MOST; the first state is all zero, but for */
    void (*init)(void *state, const void *context); /* [NULL] what this sets */

    /* Applies the operation to the state. False: a sequential object would not have given this
     * result in this state; the state is not used again then. An open operation has no result. */
    bool (*step)(void *state, const struct history_op *op);
};

struct history {
    const struct history_model *model;
    const void *context;
    const char *name;
    size_t count;
    struct history_op ops[HISTORY_MOST];
};

/* The time of invocations and returns: greater with each call. */
uint64_t history_now(void);

void history_init(struct history *history, const struct history_model *model, const void *context,
                  const char *name);

/* Whether there is room for so many operations more. */
bool history_room(const struct history *history, size_t count);

/* Adds an operation that has returned just now, or one that is open. */
void history_add(struct history *history, int task, int kind, int64_t arg, int64_t ret,
                 uint64_t invoked);
void history_add_open(struct history *history, int task, int kind, int64_t arg, uint64_t invoked);

enum verdict {
    LINEARIZABLE,
    NOT_LINEARIZABLE,
    UNDECIDED /* the search was given up: the history is too long for its concurrency */
};

enum verdict history_check(const struct history *history);

/* Checks; if the history is not linearizable, prints it to standard error and dies. */
void history_must_be_linearizable(const struct history *history);

void history_print(const struct history *history, FILE *file);

#endif
