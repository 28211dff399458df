/* The command line of the fuzzer of connections, and seeds in several processes at once. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "connections/fuzz.h"
#include "connections/secure.h"

enum { JOBS_MOST = 16 };

struct shared {
    uint64_t next;
    bool stop;
    struct totals totals[JOBS_MOST];
};

struct campaign {
    struct settings settings;
    uint64_t from, to;
    int64_t seconds; /* 0: no limit */
    unsigned jobs;
    bool keep_going;
    struct shared *shared;
};

static int work(const struct campaign *campaign, struct totals *totals)
{
    struct shared *shared = campaign->shared;
    int64_t end = campaign->seconds ? time_now() + campaign->seconds * SECOND : INT64_MAX;
    uint64_t seed;
    bool ok = true;
    while (!ci_load(&shared->stop) && time_now() < end &&
           (seed = ci_fetch_add(&shared->next, 1)) <= campaign->to)
        if (!run_seed(&campaign->settings, seed, totals)) {
            ok = false;
            if (!campaign->keep_going)
                ci_store(&shared->stop, true);
        }
    return !ok;
}

static int run_all(const struct campaign *campaign)
{
    struct shared *shared = campaign->shared;
    struct totals sum = {0};
    int64_t start = time_now();
    int bad = 0, status;
    shared->next = campaign->from;
    for (unsigned i = 0; i < campaign->jobs; i++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            int rc = work(campaign, &shared->totals[i]);
            fflush(NULL);
            _exit(rc);
        }
        bad |= pid < 0;
    }
    while (wait(&status) > 0)
        bad |= status;
    for (unsigned i = 0; i < campaign->jobs; i++) {
        const struct totals *totals = &shared->totals[i];
        sum.seeds += totals->seeds;
        sum.failed += totals->failed;
        sum.connections += totals->connections;
        sum.answers += totals->answers;
        sum.resident_most =
            totals->resident_most > sum.resident_most ? totals->resident_most : sum.resident_most;
        sum.bytes_most = totals->bytes_most > sum.bytes_most ? totals->bytes_most : sum.bytes_most;
    }
    printf("%s: %llu seeds, %llu connections, %llu answers, %llu failures in %.1f s; the server "
           "held at most "
           "%ld KiB (%ld KiB resident) at an end\n",
           campaign->settings.driver, (unsigned long long)sum.seeds,
           (unsigned long long)sum.connections, (unsigned long long)sum.answers,
           (unsigned long long)sum.failed, (double)(time_now() - start) / SECOND,
           sum.bytes_most / 1024, sum.resident_most);
    return bad || sum.failed || !sum.seeds;
}

/* ---- the command line ---- */

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--driver NAME] [--workers N] [--seeds A-B | --seed N] [--seconds N] "
            "[--jobs N]\n"
            "          [--tls] [--keep-going] [--verbose]\n"
            "A seed chooses the number of workers where none is given.\n",
            program);
    return 2;
}

static bool parse_number(const char *text, uint64_t *ret)
{
    char *end;
    *ret = strtoull(text, &end, 10);
    return end != text && !*end;
}

static bool parse_range(struct campaign *campaign, const char *text)
{
    char *end;
    campaign->from = strtoull(text, &end, 10);
    return end != text && *end == '-' && parse_number(end + 1, &campaign->to);
}

static bool parse_flag(struct campaign *campaign, const char *option)
{
    if (strcmp(option, "--keep-going") == 0)
        return campaign->keep_going = true;
    if (strcmp(option, "--verbose") == 0)
        return campaign->settings.verbose = true;
    if (strcmp(option, "--tls") == 0) {
        if (!secure_is_there)
            fprintf(stderr, "--tls needs OpenSSL 3 (libssl-dev), which was not there when this was "
                            "built\n");
        return campaign->settings.tls = secure_is_there;
    }
    return false;
}

static bool parse_option(struct campaign *campaign, const char *option, const char *value)
{
    uint64_t number = 0;
    if (strcmp(option, "--driver") == 0) {
        campaign->settings.driver = value;
        return true;
    }
    if (strcmp(option, "--seeds") == 0)
        return parse_range(campaign, value);
    if (!parse_number(value, &number))
        return false;
    if (strcmp(option, "--seed") == 0)
        campaign->from = campaign->to = number;
    else if (strcmp(option, "--seconds") == 0)
        campaign->seconds = (int64_t)number;
    else if (strcmp(option, "--jobs") == 0 && number && number <= JOBS_MOST)
        campaign->jobs = (unsigned)number;
    else if (strcmp(option, "--workers") == 0 && number && number <= 64)
        campaign->settings.workers = (unsigned)number;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct campaign campaign = {.from = 1, .to = 100, .jobs = 2};
    campaign.settings = (struct settings){.program = argv[0], .driver = "io_uring"};
    bool range = false;
    for (int i = 1; i < argc; i++) {
        range |= strncmp(argv[i], "--seed", 6) == 0 && strcmp(argv[i], "--seconds") != 0;
        if (parse_flag(&campaign, argv[i]))
            continue;
        if (i + 1 == argc || !parse_option(&campaign, argv[i], argv[i + 1]))
            return usage(argv[0]);
        i++;
    }
    if (campaign.seconds && !range)
        campaign.to = UINT64_MAX - JOBS_MOST;
    setvbuf(stdout, NULL, _IOFBF, 1 << 20); /* so that reports of several jobs do not mix */
    if (campaign.from == campaign.to)
        campaign.jobs = 1;
    campaign.shared = mmap(NULL, sizeof *campaign.shared, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (campaign.shared == MAP_FAILED)
        return 2;
    return run_all(&campaign);
}
