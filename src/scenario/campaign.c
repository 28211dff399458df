/* Runs a scenario under many seeds, in several processes, because a failing run may end its
 * process.
 *
 * The state of a run (its seed, the faults so far) lies in memory shared with the parent, so that
 * it survives the process. One seed in a hundred is run twice, and once more in a new process; it
 * fails if the runs differ. A failure is shrunk by leaving faults out, as long as the run without
 * them still fails in any way. One that does not fail in a process of its own is tried after the
 * seeds that its process had run, of which those are left out that do not matter.
 *
 * 1. A job runs no seed outside of the campaign's range, and a shrunk schedule has no more faults
 * than the one that failed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/compiler.h"
#include "coir/sim.h"
#include "sys/cpu.h"
#include "sys/fork.h"
#include "sys/mapping_keep.h"
#include "sys/misuse.h"
#include "sys/valgrind.h"

enum {
    JOBS_MOST = 64,
    RUN_SECONDS = 120,
    SHRINK_RUNS_MOST = 1000,
    EARLIER_RUNS_MOST = 100,
    EARLIER_MOST = 1000,
    TWICE_EVERY = 100,
    MAPPINGS_GO_EVERY = 16
};
/* Exit statuses of a job; UNTOLD: it has not come to its end. */
enum { UNTOLD = -1, FAILED = 3, DIFFERED, DIFFERED_IN_NEW, TO_NEW_PROCESS };
enum { UNSUPPORTED = 77 }; /* exit status of a campaign: a skipped test's, by convention */

/* The seeds that a process has run: a failure may hang on them. */
struct earlier {
    size_t count;
    uint64_t seeds[EARLIER_MOST];
};

struct job {
    pid_t pid;
    uint64_t seed;
    int error;   /* returned by the scenario */
    int outcome; /* the exit status; a scenario may end the process with any */
    coir_sim_result result;
    struct earlier earlier;
    bool again;                 /* a new process first runs the seed again, */
    uint64_t trace_hash, steps; /* and is to find these */
};

struct shared {
    uint64_t next, done;
    bool stop;
    struct job jobs[JOBS_MOST];
};

struct campaign {
    const char *program;
    coir_scenario_fn *scenario;
    void *arg;
    uint64_t from, to, only;
    unsigned jobs, workers;
    const char *driver;
    bool keep_going, replay, choose_faults, unsupported, incomplete;
    uint32_t *faults;
    size_t fault_count;
    uint64_t *after; /* run before the one that is replayed */
    size_t after_count;
    struct shared *shared;
    uint64_t failed;
};

static int say_unsupported(const struct campaign *campaign)
{
    printf("%s: not supported on the driver %s\n", campaign->program, campaign->driver);
    return UNSUPPORTED;
}

/* ---- one run ---- */

static void print_line(const char *line, void *arg)
{
    (void)arg;
    puts(line);
}

/* After most runs the mappings of stacks and buffers are kept, which is faster; where they are
 * unmapped, what uses one after its runtime's end does not stay unseen. Valgrind takes the clearing
 * of a stack, which nobody is on, for an invalid write. */
static void keep_mappings(uint64_t seed)
{
    static struct ci_mapping_keep keep;
    ci_mapping_keep(seed % MAPPINGS_GO_EVERY && !ci_under_valgrind() ? &keep : NULL);
}

static int run_once(const struct campaign *campaign, struct job *job, const uint32_t *faults,
                    size_t fault_count, bool choose, bool trace)
{
    coir_sim_options options = COIR_SIM_OPTIONS;
    options.seed = job->seed;
    options.workers = campaign->workers;
    options.driver = campaign->driver;
    options.faults = faults;
    options.fault_count = fault_count;
    options.choose_faults = choose;
    options.trace = trace ? print_line : NULL;
    static const coir_sim_result empty = COIR_SIM_RESULT;
    job->result = empty;
    ci_check(campaign->replay || (job->seed >= campaign->from && job->seed <= campaign->to),
             "campaign.c 1");
    keep_mappings(job->seed);
    alarm(RUN_SECONDS);
    job->error = coir_sim_run(&options, campaign->scenario, campaign->arg, &job->result);
    alarm(0);
    ci_mapping_keep(NULL);
    return job->error < 0 ? FAILED : 0;
}

static int run(const struct campaign *campaign, struct job *job, const uint32_t *faults,
               size_t fault_count, bool choose, bool trace)
{
    int rc = run_once(campaign, job, faults, fault_count, choose, trace);
    if (rc || job->seed % TWICE_EVERY)
        return rc;
    uint64_t trace_hash = job->result.trace_hash, steps = job->result.steps;
    rc = run_once(campaign, job, faults, fault_count, choose, false);
    return rc                                                                   ? rc
           : trace_hash == job->result.trace_hash && steps == job->result.steps ? 0
                                                                                : DIFFERED;
}

static const char *outcome(const struct job *job, int rc)
{
    return rc == FAILED            ? coir_strerror(job->error)
           : rc == DIFFERED        ? "a second run differed from the first"
           : rc == DIFFERED_IN_NEW ? "a run in a new process differed"
           : rc                    ? "the process ended"
                                   : "passed";
}

static void run_earlier(const struct campaign *campaign, struct job *job, const uint64_t *seeds,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        job->seed = seeds[i];
        run_once(campaign, job, NULL, 0, false, false);
    }
}

static int replay(const struct campaign *campaign)
{
    struct job *job = &campaign->shared->jobs[0];
    run_earlier(campaign, job, campaign->after, campaign->after_count);
    job->seed = campaign->only;
    int rc =
        run(campaign, job, campaign->faults, campaign->fault_count, campaign->choose_faults, true);
    if (rc == FAILED && job->error == -ENOTSUP)
        return say_unsupported(campaign);
    printf("seed %llu: %s, %zu faults, %llu steps\n", (unsigned long long)job->seed,
           outcome(job, rc), job->result.fault_count, (unsigned long long)job->result.steps);
    if (job->result.left[0])
        printf("  left open: %s\n", job->result.left);
    return rc;
}

/* ---- shrinking ---- */

static struct job *scratch_of(const struct campaign *campaign)
{
    return &campaign->shared->jobs[JOBS_MOST - 1];
}

/* As fork(2). The child is silent; one that cannot be ends, with nothing to say. */
static pid_t fork_silent(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0 && (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout)))
        _exit(0);
    return pid;
}

/* The wait status of a child; -1: there is none. */
static int status_of(pid_t pid)
{
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Whether the seed fails with these faults alone: in a process of its own, silently. */
static bool fails_with(const struct campaign *campaign, uint64_t seed, const uint32_t *faults,
                       size_t count)
{
    struct job *scratch = scratch_of(campaign);
    scratch->outcome = 0;
    pid_t pid = fork_silent();
    if (pid == 0) {
        scratch->seed = seed;
        scratch->outcome = UNTOLD;
        _exit(scratch->outcome = run(campaign, scratch, faults, count, true, false));
    }
    int status = status_of(pid);
    return status > 0 || (status == 0 && scratch->outcome);
}

/* Runs the seed silently in a new process, after others. Whether it fails, or differs from one with
 * that hash; 0: it only has to fail. */
static bool differs_after(const struct campaign *campaign, uint64_t seed, const uint64_t *earlier,
                          size_t count, uint64_t hash)
{
    struct job *scratch = scratch_of(campaign);
    pid_t pid = fork_silent();
    if (pid == 0) {
        run_earlier(campaign, scratch, earlier, count);
        scratch->seed = seed;
        scratch->outcome = UNTOLD;
        _exit(scratch->outcome = run_once(campaign, scratch, NULL, 0, false, false));
    }
    int status = status_of(pid);
    if (status < 0 || scratch->seed != seed)
        return false; /* it did not come so far */
    return status != 0 || scratch->outcome || (hash && scratch->result.trace_hash != hash);
}

/* Leaves out earlier seeds without which the seed differs as well. */
static void shrink_earlier(const struct campaign *campaign, uint64_t seed, uint64_t hash,
                           struct earlier *earlier)
{
    static struct earlier without;
    int runs = 0;
    for (size_t part = (earlier->count + 1) / 2; part > 0; part = part > 1 ? (part + 1) / 2 : 0) {
        for (size_t at = 0; at < earlier->count && runs < EARLIER_RUNS_MOST; runs++) {
            size_t n = part < earlier->count - at ? part : earlier->count - at;
            without.count = earlier->count - n;
            memcpy(without.seeds, earlier->seeds, at * sizeof without.seeds[0]);
            memcpy(without.seeds + at, earlier->seeds + at + n,
                   (without.count - at) * sizeof without.seeds[0]);
            if (differs_after(campaign, seed, without.seeds, without.count, hash))
                *earlier = without;
            else
                at += n;
        }
    }
}

/* Says what a seed needs beside itself, and returns that. NULL: it fails alone. */
static const struct earlier *report_earlier(const struct campaign *campaign, const struct job *job)
{
    static struct earlier earlier;
    earlier = job->earlier;
    if (differs_after(campaign, job->seed, NULL, 0, 0))
        return NULL;
    uint64_t hash = scratch_of(campaign)->result.trace_hash;
    bool repeated = differs_after(campaign, job->seed, earlier.seeds, earlier.count, hash);
    if (repeated)
        shrink_earlier(campaign, job->seed, hash, &earlier);
    printf(" alone it passes, %s\n",
           repeated ? "but it differs after other seeds" : "and again after those of its process");
    return &earlier;
}

static void print_earlier(const struct earlier *earlier)
{
    for (size_t i = 0; i < earlier->count; i++)
        printf("%s%llu", i ? "," : " --after ", (unsigned long long)earlier->seeds[i]);
}

/* Removes faults that the failure does not need: halves, then quarters, down to single faults.
 * Returns how many remain. */
static size_t shrink(const struct campaign *campaign, uint64_t seed, uint32_t *faults, size_t count)
{
    static uint32_t without[COIR_SIM_FAULTS_KEPT];
    int runs = 0;
    for (size_t part = (count + 1) / 2; part > 0 && count > 0 && runs < SHRINK_RUNS_MOST;) {
        bool left_out = false;
        for (size_t at = 0; at < count && runs < SHRINK_RUNS_MOST;) {
            size_t n = part < count - at ? part : count - at;
            memcpy(without, faults, at * sizeof *faults);
            memcpy(without + at, faults + at + n, (count - at - n) * sizeof *faults);
            runs++;
            if (fails_with(campaign, seed, without, count - n)) {
                count -= n;
                memcpy(faults, without, count * sizeof *faults);
                left_out = true;
            } else {
                at += n;
            }
        }
        if (!left_out || part > 1)
            part = part > 1 ? (part + 1) / 2 : 0;
    }
    return count;
}

/* Of a seed that hangs no fault is left out: each try would take RUN_SECONDS. */
static void report(struct campaign *campaign, const struct job *job, int status)
{
    static uint32_t faults[COIR_SIM_FAULTS_KEPT];
    unsigned long long seed = job->seed;
    campaign->failed++;
    bool hangs = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    if (hangs)
        printf("seed %llu failed: still running after %d s\n", seed, RUN_SECONDS);
    else if (WIFSIGNALED(status))
        printf("seed %llu failed: signal %d\n", seed, WTERMSIG(status));
    else
        printf("seed %llu failed: %s\n", seed, outcome(job, job->outcome));
    if (WIFEXITED(status) && job->result.left[0])
        printf("  left open: %s\n", job->result.left);
    fflush(stdout);
    size_t count = job->result.fault_count, all = count;
    bool known = count <= COIR_SIM_FAULTS_KEPT && !hangs;
    if (known) {
        memcpy(faults, job->result.faults, count * sizeof *faults);
        known = fails_with(campaign, job->seed, faults, count);
    }
    if (known) {
        count = shrink(campaign, job->seed, faults, count);
        ci_check(count <= all, "campaign.c 1");
        printf(" %zu faults, of which the failure needs %zu\n", all, count);
    }
    const struct earlier *earlier = known || hangs ? NULL : report_earlier(campaign, job);
    printf(" to repeat it: %s --driver %s --workers %u --seed %llu", campaign->program,
           campaign->driver, campaign->workers, seed);
    if (earlier)
        print_earlier(earlier);
    if (known)
        printf(" --faults %s", count ? "" : "none");
    for (size_t i = 0; known && i < count; i++)
        printf("%s%u", i ? "," : "", faults[i]);
    printf("\n");
    fflush(stdout);
}

/* ---- many runs ---- */

/* The seed of the process before, which has run others before it. */
static int run_again(const struct campaign *campaign, struct job *job)
{
    int rc = run_once(campaign, job, NULL, 0, false, false);
    if (rc == 0 && (job->result.trace_hash != job->trace_hash || job->result.steps != job->steps))
        rc = DIFFERED_IN_NEW;
    job->again = false;
    return rc;
}

/* Leaves the seed, which was run twice, to a new process, which has run no others before it. */
static int hand_on(struct job *job)
{
    job->again = true;
    job->trace_hash = job->result.trace_hash;
    job->steps = job->result.steps;
    return TO_NEW_PROCESS;
}

static int work(const struct campaign *campaign, struct job *job)
{
    struct shared *shared = campaign->shared;
    int rc = job->again ? run_again(campaign, job) : 0;
    if (rc)
        return rc;
    for (job->earlier.count = 0; !ci_load(&shared->stop) && job->earlier.count < EARLIER_MOST;
         job->earlier.seeds[job->earlier.count++] = job->seed) {
        if ((job->seed = ci_fetch_add(&shared->next, 1)) > campaign->to)
            return 0;
        job->result.fault_count = 0;
        job->result.left[0] = '\0';
        rc = run(campaign, job, NULL, 0, false, false);
        if (rc)
            return rc;
        ci_fetch_add(&shared->done, 1);
        if (job->seed % TWICE_EVERY == 0 && job->earlier.count > 0)
            return hand_on(job);
    }
    return TO_NEW_PROCESS;
}

static bool start(struct campaign *campaign, struct job *job)
{
    fflush(NULL);
    job->outcome = UNTOLD;
    pid_t pid = fork();
    if (pid == 0)
        _exit(job->outcome = work(campaign, job));
    if (pid < 0 && !campaign->incomplete)
        fprintf(stderr, "%s: no process: %s\n", campaign->program, strerror(errno));
    campaign->incomplete |= pid < 0;
    job->pid = pid;
    return pid > 0;
}

static struct job *job_of(const struct campaign *campaign, pid_t pid)
{
    for (unsigned i = 0; i < campaign->jobs; i++)
        if (campaign->shared->jobs[i].pid == pid)
            return &campaign->shared->jobs[i];
    return NULL;
}

/* A seed that needs what the driver lacks, where no other has passed: it is not the seed. */
static bool is_unsupported(const struct campaign *campaign, const struct job *job)
{
    return job->outcome == FAILED && job->error == -ENOTSUP && !ci_load(&campaign->shared->done) &&
           !campaign->failed;
}

static int run_all(struct campaign *campaign)
{
    struct shared *shared = campaign->shared;
    unsigned running = 0;
    shared->next = campaign->from;
    for (unsigned i = 0; i < campaign->jobs; i++)
        running += start(campaign, &shared->jobs[i]);
    while (running) {
        int status;
        pid_t pid = wait(&status);
        if (pid < 0)
            break;
        struct job *job = job_of(campaign, pid);
        if (!job)
            continue;
        running--;
        if (job->outcome == 0)
            continue;
        bool failed = job->outcome != TO_NEW_PROCESS;
        if (failed && is_unsupported(campaign, job))
            campaign->unsupported = true;
        if (campaign->unsupported || (failed && !campaign->keep_going))
            ci_store(&shared->stop, true);
        if (failed && !campaign->unsupported)
            report(campaign, job, status);
        running += !ci_load(&shared->stop) && start(campaign, job);
    }
    if (campaign->unsupported)
        return say_unsupported(campaign);
    printf("%s: %llu seeds passed, %llu failed\n", campaign->program,
           (unsigned long long)shared->done, (unsigned long long)campaign->failed);
    return campaign->failed || campaign->incomplete || !shared->done;
}

/* ---- the command line ---- */

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--seeds FROM-TO] [--jobs N] [--workers N] [--driver NAME] [--keep-going]\n"
            "       %s --seed N [--workers N] [--driver NAME] [--faults NUMBER,...|none]\n"
            "           [--after SEED,...]\n",
            program, program);
    return 2;
}

static bool parse_faults(struct campaign *campaign, const char *text)
{
    campaign->choose_faults = true;
    campaign->faults = calloc(strlen(text) + 1, sizeof *campaign->faults);
    if (!campaign->faults || strcmp(text, "none") == 0)
        return campaign->faults != NULL;
    for (char *end;; text = end + 1) {
        campaign->faults[campaign->fault_count++] = (uint32_t)strtoul(text, &end, 10);
        if (end == text || (*end && *end != ','))
            return false;
        if (!*end)
            return true;
    }
}

static bool parse_after(struct campaign *campaign, const char *text)
{
    campaign->after = calloc(strlen(text) + 1, sizeof *campaign->after);
    for (char *end; campaign->after; text = end + 1) {
        campaign->after[campaign->after_count++] = strtoull(text, &end, 10);
        if (end == text || (*end && *end != ','))
            return false;
        if (!*end)
            return true;
    }
    return false;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;
    *ret = strtoull(text, &end, 10);
    return end != text && !*end && *ret <= most;
}

static bool parse_range(struct campaign *campaign, const char *text)
{
    char *end;
    campaign->from = strtoull(text, &end, 10);
    return *end == '-' && parse_number(end + 1, UINT64_MAX - JOBS_MOST, &campaign->to) &&
           campaign->from <= campaign->to;
}

static bool parse(struct campaign *campaign, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        uint64_t number = 0;
        bool ok = false;
        if (strcmp(option, "--keep-going") == 0) {
            campaign->keep_going = true;
            continue;
        }
        if (strcmp(option, "--seeds") == 0)
            ok = parse_range(campaign, value);
        else if (strcmp(option, "--seed") == 0)
            campaign->replay = ok = parse_number(value, UINT64_MAX, &campaign->only);
        else if (strcmp(option, "--driver") == 0 && (ok = *value != '\0'))
            campaign->driver = value;
        else if (strcmp(option, "--faults") == 0)
            ok = parse_faults(campaign, value);
        else if (strcmp(option, "--after") == 0)
            ok = parse_after(campaign, value);
        else if (strcmp(option, "--jobs") == 0 &&
                 (ok = parse_number(value, JOBS_MOST - 1, &number) && number))
            campaign->jobs = (unsigned)number;
        else if (strcmp(option, "--workers") == 0 &&
                 (ok = parse_number(value, 64, &number) && number))
            campaign->workers = (unsigned)number;
        if (!ok)
            return false;
        i++;
    }
    return true;
}

int coir_sim_main(int argc, char **argv, coir_scenario_fn *scenario, void *arg)
{
    if (CI_REFUSED(!argv || !scenario, "argv or scenario is NULL"))
        return 1;
    if (ci_forked()) {
        fprintf(stderr, "%s: %s\n", argv[0], coir_strerror(-COIR_EFORKED));
        return 1;
    }
    struct campaign campaign = {argv[0],      scenario,       arg,
                                .from = 1,    .to = 1000,     .jobs = ci_cpu_available(),
                                .workers = 1, .driver = "sim"};
    if (campaign.jobs >= JOBS_MOST)
        campaign.jobs = JOBS_MOST - 1;
    if (!parse(&campaign, argc, argv)) {
        free(campaign.faults);
        free(campaign.after);
        return usage(argv[0]);
    }
    campaign.shared = mmap(NULL, sizeof *campaign.shared, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (campaign.shared == MAP_FAILED) {
        free(campaign.faults);
        free(campaign.after);
        fprintf(stderr, "%s: %s\n", argv[0], coir_strerror(-ENOMEM));
        return 2;
    }
    int rc = campaign.replay ? replay(&campaign) : run_all(&campaign);
    munmap(campaign.shared, sizeof *campaign.shared);
    free(campaign.faults);
    free(campaign.after);
    return rc;
}
