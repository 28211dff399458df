/* A ring of the simulated kernel: its set-up, its end, and registrations. io_uring_setup(2) and
 * io_uring_register(2); io_uring.c and register.c of Linux 6.1 to 6.18. */
#include "sim/kernel/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MOST = 32768, COMPLETIONS_MOST = 2 * ENTRIES_MOST };
static const coir_time end_most = 200 * COIR_US;

/* The rates are chosen so that each trait is off in many of the runs. */
void ci_krings_open(void)
{
    static const uint32_t versions[] = {1, 6, 12, 18, 1, 12, 18, 0}, races[] = {0, 0, 3, 20},
                          refusals[] = {0, 0, 40, 400}, sizes[] = {0, 0, 0, 2, 8},
                          withheld[] = {0, 0, 0, 60, 1022}, workers[] = {0, 0, 5},
                          cuts[] = {0, 0, 10, 100};
    ci_list_init(&ci_krings);
    ci_k.before_call = ci_kring_before_call;
    ci_k.thread_ended = ci_kring_thread_ended;
    ci_kring_traits = (struct ci_kring_traits){
        .version = versions[ci_kbelow(ci_countof(versions))],
        .race_one_in = races[ci_kbelow(ci_countof(races))],
        .refuse_one_in = refusals[ci_kbelow(ci_countof(refusals))],
        .size_most = sizes[ci_kbelow(ci_countof(sizes))],
        .withheld = withheld[ci_kbelow(ci_countof(withheld))],
        .worker_one_in = workers[ci_kbelow(ci_countof(workers))],
        .cut_one_in = cuts[ci_kbelow(ci_countof(cuts))],
    };
}

/* Traits of a kernel with DEFER_TASKRUN, which 6.0 does not have: without it, task work may run in
 * any system call. */
void ci_krings_calm(void)
{
    if (ci_kring_traits.version < 1)
        ci_kring_traits.version = 1;
    ci_kring_traits.refuse_one_in = ci_kring_traits.worker_one_in = ci_kring_traits.race_one_in = 0;
}

/* ---- end ---- */

static void free_memory(struct ci_kring *ring)
{
    for (size_t i = 0; i < CI_KRING_BUCKETS; i++)
        while (!ci_list_empty(&ring->table[i]))
            ci_krequest_drop(ci_container_of(ring->table[i].next, struct ci_krequest, link));
    ring->entered = false;
    ci_kring_put_files(ring);
    ci_kring_drop_overflow(ring);
    ci_kring_buffers_free(ring);
    free(ring->rings);
    free(ring->entries);
    ring->rings = NULL;
}

/* io_ring_exit_work: some time after the close, a kernel thread ends the requests in flight. */
static void end_ring(void *arg, size_t number)
{
    (void)number;
    struct ci_kring *ring = arg;
    ci_ktrace("ring ends", (int64_t)ring->file.serial, 0);
    free_memory(ring);
}

static void release(struct ci_kfile *file)
{
    struct ci_kring *ring = ci_container_of(file, struct ci_kring, file);
    ring->closed = true;
    if (ci_k.thread && !ring->process->node->crashed)
        ci_kring_buffers_audit(ring);
    ci_kschedule(ci_kafter((uint64_t)end_most), end_ring, ring, 0);
}

void ci_krings_free(void)
{
    struct ci_list *node;
    while ((node = ci_list_pop(&ci_krings))) {
        struct ci_kring *ring = ci_container_of(node, struct ci_kring, link);
        if (ring->rings)
            free_memory(ring);
        free(ring);
    }
}

/* ---- set-up ---- */

static unsigned poll_ring(struct ci_kfile *file)
{
    (void)file;
    ci_kunknown("waiting for a ring's descriptor");
}

static const struct ci_kfile_type ring_type = {
    .name = "io_uring", .poll = poll_ring, .release = release};

static uint32_t round_up(uint32_t n)
{
    uint32_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

/* Checks the flags: those this kernel version knows, and the rules among them. */
static int check_setup(uint32_t setup)
{
    static const uint32_t known = IORING_SETUP_CQSIZE | IORING_SETUP_R_DISABLED |
                                  IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
                                  IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SINGLE_ISSUER |
                                  IORING_SETUP_DEFER_TASKRUN;
    if (setup & ~known)
        ci_kunknown("a flag of io_uring_setup");
    if (setup & IORING_SETUP_DEFER_TASKRUN &&
        (ci_kring_traits.version < 1 || !(setup & IORING_SETUP_SINGLE_ISSUER)))
        return -EINVAL;
    if (setup & IORING_SETUP_TASKRUN_FLAG &&
        !(setup & (IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN)))
        return -EINVAL;
    return 0;
}

/* Linux never makes rings smaller than requested. The model does, to test what happens to a program
 * with more operations in flight. */
static int set_sizes(uint32_t entries, struct io_uring_params *params)
{
    uint32_t most = ci_kring_traits.size_most ? ci_kring_traits.size_most : ENTRIES_MOST;
    bool own = params->flags & IORING_SETUP_CQSIZE;
    if (entries == 0 || entries > ENTRIES_MOST)
        return -EINVAL;
    if (own && (params->cq_entries == 0 || params->cq_entries > COMPLETIONS_MOST))
        return -EINVAL;
    params->sq_entries = round_up(entries);
    params->cq_entries = own ? round_up(params->cq_entries) : 2 * params->sq_entries;
    if (params->cq_entries < params->sq_entries)
        return -EINVAL;
    if (params->sq_entries > most)
        params->sq_entries = most;
    if (ci_kring_traits.size_most && params->cq_entries > 2 * most)
        params->cq_entries = 2 * most;
    return 0;
}

/* Features beyond IORING_FEAT_LINKED_FILE, which not every header has: they are of 6.3, 6.10 and
 * 6.12. */
static uint32_t features(void)
{
    uint32_t bits = 2 * IORING_FEAT_LINKED_FILE - 1;
    if (ci_kring_traits.version >= 3)
        bits |= 1u << 13;
    if (ci_kring_traits.version >= 10)
        bits |= 1u << 14;
    return ci_kring_traits.version >= 12 ? bits | 1u << 15 : bits;
}

int ci_ring_call_setup(uint32_t entries, struct io_uring_params *params)
{
    ci_kcall();
    int rc = check_setup(params->flags);
    if (rc == 0)
        rc = set_sizes(entries, params);
    if (rc == 0)
        rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    struct ci_kring *ring = ci_kalloc(sizeof *ring);
    ci_kfile_init(&ring->file, &ring_type);
    ring->process = ci_k.process;
    ring->setup = params->flags;
    ring->run_soon = ci_kring_run_soon;
    ring->disabled = params->flags & IORING_SETUP_R_DISABLED;
    if (params->flags & IORING_SETUP_SINGLE_ISSUER && !ring->disabled)
        ring->owner = ci_k.thread->number;
    ci_list_init(&ring->overflow);
    ci_list_init(&ring->work);
    ci_list_init(&ring->puts);
    for (size_t i = 0; i < CI_KRING_BUCKETS; i++)
        ci_list_init(&ring->table[i]);
    ci_kring_make_memory(ring, params);
    params->features = features();
    ci_list_push(&ci_krings, &ring->link);
    return ci_kfd_install(&ring->file);
}

/* ---- registering ---- */

static int enable(struct ci_kring *ring)
{
    if (!ring->disabled)
        return -EBADFD;
    if (ring->setup & IORING_SETUP_SINGLE_ISSUER)
        ring->owner = ci_k.thread->number;
    ring->disabled = false;
    return 0;
}

int ci_ring_call_register(coir_fd fd, unsigned what, void *arg, unsigned count)
{
    struct ci_kring *ring;
    ci_kcall();
    int rc = ci_kring_find(fd, &ring);
    if (rc < 0)
        return rc;
    ci_ktrace("register", fd, what);
    if (!ci_kring_may_enter(ring))
        return -EEXIST;
    switch (what) {
    case IORING_REGISTER_ENABLE_RINGS: return arg || count ? -EINVAL : enable(ring);
    case IORING_REGISTER_PBUF_RING:
        return count != 1 ? -EINVAL : ci_kring_buffers_register(ring, arg);
    case IORING_REGISTER_PROBE: ci_kring_probe(arg, count); return 0;
    case IORING_REGISTER_SYNC_CANCEL: return count != 1 ? -EINVAL : ci_kring_cancel_sync(ring, arg);
    default: ci_kunknown("an operation of io_uring_register");
    }
}
