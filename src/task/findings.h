/* What a snapshot shows to be wrong: tasks that wait for each other, locks whose holder has ended,
 * tasks that compute for too long, scopes that were left open. What is found is true of the moment
 * of the snapshot; what is not found may still be there. */
#ifndef CI_TASK_FINDINGS_H
#define CI_TASK_FINDINGS_H

#include "task/snapshot.h"

enum ci_finding_kind {
    CI_FINDS_CYCLE,     /* each party waits for a lock that the next one holds */
    CI_FINDS_ENDED,     /* its parties wait for a lock; the task that has taken it has ended */
    CI_FINDS_COMPUTING, /* a worker does not answer; its parties wait for a lock that it holds */
    CI_FINDS_SCOPE_LEFT_OPEN /* the function that opened it has returned */
};

enum { CI_FINDING_PARTIES = 20 }; /* that the log names; a dump names all */

struct ci_finding {
    enum ci_finding_kind kind;
    size_t first, count; /* of its parties: indices of tasks */
    int worker;          /* index in the snapshot's `workers` */
    const void *place;   /* of the code; NULL: not known */
};

/* Finds what needs nothing but the snapshot. Names the holders of locks, too. */
void ci_findings_make(struct ci_snapshot *snapshot);

static inline const struct ci_finding *ci_finding_at(const struct ci_snapshot *snapshot,
                                                     size_t index)
{
    return (const struct ci_finding *)snapshot->findings.items + index;
}

static inline size_t ci_finding_party(const struct ci_snapshot *snapshot,
                                      const struct ci_finding *finding, size_t index)
{
    return ((const size_t *)snapshot->parties.items)[finding->first + index];
}

#endif
