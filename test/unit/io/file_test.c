#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "coir/sim.h"
#include "harness.h"
#include "task/current.h"
#include "task/runtime.h"
#include "task/worker.h"

enum { BLOCK = 1000, BLOCKS = 64 };

static char path[] = "/tmp/coir-file-XXXXXX";

static void fill(char *block, int number)
{
    for (int i = 0; i < BLOCK; i++)
        block[i] = (char)(number * 31 + i);
}

static int write_block(void *arg)
{
    static int next;
    char block[BLOCK];
    int number = next++;
    fill(block, number);
    return coir_file_write(arg, block, BLOCK, (int64_t)number * BLOCK) == BLOCK ? 0 : -EIO;
}

/* ---- what is not a file ---- */

static void refuses(const char *name)
{
    static const int accesses[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDONLY | O_NONBLOCK};
    coir_file *file;
    for (int i = 0; i < 4; i++)
        CHECK_EQ(coir_file_open(name, accesses[i], 0, &file), -ESPIPE);
}

static void read_one(const char *name, int flags, ssize_t count)
{
    coir_file *file;
    char byte;
    CHECK_EQ(coir_file_open(name, flags, 0, &file), 0);
    if (count >= 0)
        CHECK_EQ(coir_file_read(file, &byte, 1, 0), count);
    coir_file_close(file);
}

/* Opening a pipe waits for no process at its other end, and the run ends. */
static void open_what_is_no_file(void)
{
    char name[] = "/tmp/coir-file-XXXXXX", fifo[64], at[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(mkdtemp(name) != NULL);
    snprintf(fifo, sizeof fifo, "%s/fifo", name);
    snprintf(at, sizeof at, "%s/socket", name);
    strcpy(address.sun_path, at);
    CHECK_EQ(mkfifo(fifo, 0600), 0);
    refuses(fifo); /* without a process at the other end */
    int reader = open(fifo, O_RDONLY | O_NONBLOCK);
    CHECK(reader >= 0);
    refuses(fifo); /* with one */
    close(reader);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    refuses(at);
    close(listener);
    read_one("/dev/null", O_RDWR, 0);
    read_one("/dev/zero", O_RDONLY, 1);
    read_one("/proc/self/status", O_RDONLY, 1);
    read_one(name, O_RDONLY | O_DIRECTORY, -1);
    unlink(fifo);
    unlink(at);
    rmdir(name);
}

TEST_REAL(what_has_no_offsets_is_refused_at_once)
{
    open_what_is_no_file();
}

/* ---- files ---- */

static void use_a_file(void)
{
    coir_file *file, *other;
    char block[BLOCK], expected[BLOCK];
    int64_t size;
    CHECK_EQ(coir_file_open("/nowhere/at/all", O_RDONLY, 0, &file), -ENOENT);
    CHECK_EQ(coir_file_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600, &file), 0);
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < BLOCKS; i++)
            CHECK_EQ(coir_go(scope, write_block, file), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK_EQ(coir_file_sync(file), 0);
    CHECK_EQ(coir_file_size(file, &size), 0);
    CHECK_EQ(size, BLOCK * BLOCKS);
    CHECK_EQ(coir_file_read(file, block, BLOCK, size), 0); /* the end */
    CHECK_EQ(coir_file_read(file, block, BLOCK, size - 10), 10);
    CHECK_EQ(coir_file_read(file, block, BLOCK, -2), -EINVAL);
    CHECK_EQ(coir_file_read(file, block, 0, 0), 0);
    CHECK_EQ(coir_file_write(file, block, 0, 0), 0);
    CHECK_EQ(coir_file_read(file, block, BLOCK, INT64_MAX - BLOCK), 0); /* far behind it */
    CHECK_EQ(coir_file_write(file, block, BLOCK, INT64_MAX - BLOCK), -EFBIG);
    CHECK_EQ(coir_file_open(path, O_RDONLY, 0, &other), 0);
    for (int i = 0; i < BLOCKS; i++) {
        fill(expected, i);
        CHECK_EQ(coir_file_read(other, block, BLOCK, (int64_t)i * BLOCK), BLOCK);
        CHECK(memcmp(block, expected, BLOCK) == 0);
    }
    CHECK(coir_file_write(other, block, BLOCK, 0) < 0);
    coir_file_close(other);

    coir_file_op op; /* closed while an operation is under way */
    coir_future *reading = coir_file_read_op(&op, file, block, BLOCK, BLOCK);
    {
        COIR_DEADLINE(coir_in(0));
        CHECK_EQ(coir_await(reading), -ETIME);
    }
    CHECK_EQ(coir_await(coir_file_read_op(&op, file, block, BLOCK, BLOCK)), BLOCK);
    coir_file_close(file);
}

TEST_REAL(a_file_is_written_and_read)
{
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    use_a_file();
    unlink(path);
}

TEST_SIM(a_simulated_file_is_written_and_read)
{
    use_a_file();
}

static int impatient(void *arg)
{
    char *block = malloc(BLOCK);
    for (int i = 0; i < 200; i++) {
        COIR_DEADLINE(coir_in(i % 50 * COIR_US));
        memset(block, 0xee, BLOCK);
        ssize_t n = coir_file_read(arg, block, BLOCK, (int64_t)(i % BLOCKS) * BLOCK);
        CHECK(n == BLOCK || n == -ETIME);
        CHECK(n != BLOCK || block[1] == (char)(i % BLOCKS * 31 + 1));
    }
    free(block);
    return 0;
}

static void cancel_in_races(void)
{
    coir_file *file;
    char block[BLOCK];
    CHECK_EQ(coir_file_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600, &file), 0);
    for (int i = 0; i < BLOCKS; i++) {
        fill(block, i);
        CHECK_EQ(coir_file_write(file, block, BLOCK, (int64_t)i * BLOCK), BLOCK);
    }
    COIR_SCOPE(scope);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(coir_go(scope, impatient, file), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_file_close(file);
}

TEST_REAL(reads_are_cancelled_in_races)
{
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    cancel_in_races();
    unlink(path);
}

TEST_SIM(simulated_reads_are_cancelled_in_races)
{
    cancel_in_races();
}

/* ---- what a loss of power leaves ---- */

/* A log of records of 700 bytes, each synced before it counts: after a crash every record that
 * counted is there, whole. */
enum { RECORD = 700 };
struct log {
    coir_sim *sim;
    coir_host *host;
    int synced, found;
};

static void record(char *bytes, int number)
{
    memset(bytes, 'a' + number % 26, RECORD);
    memcpy(bytes, &number, sizeof number);
}

static int append_forever(void *arg)
{
    struct log *log = arg;
    coir_file *file = NULL, *dir;
    char bytes[RECORD];
    int rc = coir_file_open("log", O_RDWR | O_CREAT, 0600, &file);
    if (rc == 0 && (rc = coir_file_open(".", O_RDONLY | O_DIRECTORY, 0, &dir)) == 0) {
        rc = coir_file_sync(dir);
        coir_file_close(dir);
    }
    for (int i = 0; rc >= 0; i++) {
        record(bytes, i);
        if ((rc = (int)coir_file_write(file, bytes, RECORD, (int64_t)i * RECORD)) == RECORD &&
            (rc = coir_file_sync(file)) == 0)
            log->synced = i + 1;
    }
    coir_file_close(file);
    return 0;
}

static int crash_it(void *arg)
{
    struct log *log = arg;
    coir_sleep_for((coir_time)(coir_sim_random(log->sim) % (100 * COIR_MS)));
    coir_sim_crash(log->sim, log->host);
    return 0;
}

static int look_at_log(void *arg)
{
    struct log *log = arg;
    coir_file *file;
    char bytes[RECORD], expected[RECORD];
    if (coir_file_open("log", O_RDONLY, 0, &file) < 0)
        return 0;
    for (;; log->found++) {
        record(expected, log->found);
        if (coir_file_read(file, bytes, RECORD, (int64_t)log->found * RECORD) != RECORD ||
            memcmp(bytes, expected, RECORD) != 0)
            break;
    }
    coir_file_close(file);
    return 0;
}

static int torn, kept_more;

static int lose_power(coir_sim *sim, void *arg)
{
    struct log *log = arg;
    log->sim = sim;
    log->host = coir_sim_host(sim, "server", append_forever, log);
    int rc = coir_sim_host_main(sim, "operator", crash_it, log);
    int synced = log->synced;
    if (rc == 0)
        rc = coir_sim_host_main(sim, "server", look_at_log, log);
    if (log->found < synced)
        return -EIO;
    kept_more += log->found > synced;
    torn += log->found == synced;
    return rc;
}

TEST(what_was_synced_survives_a_loss_of_power_and_nothing_else_must)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        coir_sim_options options = test_sim_options(seed, 1);
        struct log log = {0};
        int rc = coir_sim_run(&options, lose_power, &log, NULL);
        if (rc < 0)
            test_fail(__FILE__, __LINE__, "seed %d: %s, %d of %d records", (int)seed,
                      coir_strerror(rc), log.found, log.synced);
    }
    CHECK(torn > 50 && kept_more > 10);
}

/* ---- bounds: of calls in flight, and not of the pool's queue ---- */

enum { CALLS_MAX = 3, CALLERS = 20 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int entered, answered;

static int hold(void *arg)
{
    __atomic_store_n(&entered, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return arg != NULL;
}

static int offload_hold(void *arg)
{
    return coir_offload(hold, arg);
}

static int nothing(void *arg)
{
    return arg != NULL;
}

static int offload_nothing(void *arg)
{
    return coir_offload(nothing, arg);
}

static int look_at_root(void *arg)
{
    struct stat what;
    (void)arg;
    CHECK_EQ(coir_dir_stat(NULL, "/", 0, &what), 0);
    CHECK(S_ISDIR(what.st_mode));
    answered++;
    return 0;
}

static void start_callers(coir_scope *scope)
{
    for (int i = 0; i < CALLERS; i++)
        CHECK_EQ(coir_go(scope, look_at_root, NULL), 0);
    for (int i = 0; i < CALLERS; i++)
        coir_yield();
}

/* The one thread of the pool is held, and its queue is full. */
static int fill_pool(void *arg)
{
    struct ci_offload *pool = &coir_runtime_current()->offload;
    (void)arg;
    answered = entered = 0;
    pthread_mutex_lock(&gate);
    COIR_SCOPE(scope);
    coir_go(scope, offload_hold, NULL);
    while (!__atomic_load_n(&entered, __ATOMIC_ACQUIRE))
        coir_yield();
    coir_go(scope, offload_nothing, NULL);
    coir_yield();
    CHECK_EQ(coir_offload(nothing, NULL), -EAGAIN);
    start_callers(scope);
    ci_mutex_lock(&pool->lock);
    CHECK_EQ(pool->queued, 1 + CALLS_MAX);
    ci_mutex_unlock(&pool->lock);
    CHECK_EQ(answered, 0);
    pthread_mutex_unlock(&gate);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(answered, CALLERS);
    return 0;
}

TEST(calls_wait_for_their_turn_and_a_full_pool_refuses_none)
{
    static const char *const drivers[] = {"epoll", "poll"};
    for (int i = 0; i < 2; i++) {
        coir_runtime *runtime;
        coir_config config = COIR_CONFIG;
        config.driver = drivers[i];
        config.workers = config.offload_threads_max = config.offload_queue_max = 1;
        config.file_calls_max = CALLS_MAX;
        CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
        CHECK_EQ(coir_runtime_run(runtime, fill_pool, NULL), 0);
        coir_runtime_free(runtime);
    }
}

static int fill_disk_queue(void *arg)
{
    const struct ci_driver *driver = ci_worker_current->loop.driver;
    size_t before = driver->pending;
    (void)arg;
    answered = 0;
    COIR_SCOPE(scope);
    start_callers(scope);
    CHECK_EQ(driver->pending, before + CALLS_MAX); /* time stands still */
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(answered, CALLERS);
    return 0;
}

static int run_host(coir_sim *sim, void *arg)
{
    coir_config config = COIR_CONFIG;
    config.file_calls_max = CALLS_MAX;
    CHECK_EQ(coir_sim_configure(sim, &config), 0);
    return coir_sim_host_main(sim, "host", fill_disk_queue, arg);
}

TEST(so_many_calls_are_in_flight_on_a_simulated_disk)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        coir_sim_options options = test_sim_options(seed, 1);
        CHECK_EQ(coir_sim_run(&options, run_host, NULL, NULL), 0);
    }
}
