/* coir_dump. A worker has it made by a thread: a fiber's stack is small, and so the worker is
 * halted as all others are. */
#include "coir/dump.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/signal.h"
#include "sys/thread.h"
#include "sys/unwind.h"
#include "task/current.h"
#include "task/findings.h"
#include "task/runtime.h"
#include "task/snapshot_write.h"

static const coir_time halt_time = 250 * COIR_MS;

struct job {
    coir_fd fd;
    enum coir_dump_format format;
    struct ci_halted halted;
    struct ci_snapshot snapshot;
    int rc;
};

static void *make(void *arg)
{
    struct job *job = arg;
    ci_snapshot_init(&job->snapshot);
    ci_halt_all(&job->halted, halt_time);
    job->rc = ci_snapshot_take(&job->snapshot, &job->halted);
    ci_halt_release(&job->halted);
    if (job->rc == 0) {
        ci_findings_make(&job->snapshot);
        job->rc = job->snapshot.error;
    }
    if (job->rc == 0)
        job->rc = ci_snapshot_write(&job->snapshot, job->fd, job->format);
    ci_snapshot_done(&job->snapshot);
    return NULL;
}

/* The worker is read while it waits here. */
static CI_NOINLINE int make_for(struct ci_worker *worker, struct job *job)
{
    struct ci_thread thread;
    job->halted.self = worker;
    ci_unwind_here(&worker->halt.here);
    ci_halt_call(worker);
    int rc = ci_thread_start(&thread, make, job);
    if (rc < 0) {
        ci_halt_call_failed(worker);
        return rc;
    }
    ci_thread_join(&thread);
    return job->rc;
}

static int make_here(struct job *job)
{
    struct ci_signal_mask before;
    ci_signal_block_write(&before);
    make(job);
    ci_signal_restore(&before);
    return job->rc;
}

int coir_dump(coir_fd fd, enum coir_dump_format format)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (format != COIR_DUMP_TEXT && format != COIR_DUMP_JSON)
        return CI_MISUSE(-EINVAL, "format is none");
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return -ENOMEM;
    job->fd = fd;
    job->format = format;
    job->halted.thread = ci_thread_mark();
    int rc = ci_worker_current ? make_for(ci_worker_current, job) : make_here(job);
    free(job);
    return rc;
}
