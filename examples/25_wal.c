/* A write-ahead log, and its proof: under each seed, six losses of power at any operation, on a
 * disk that fails, and tears what was not synced. Usage: 25_wal [--seeds FROM-TO] */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { WORDS = 80, SIZE = 8 * WORDS }; /* longer than a sector: it may be kept in part */
static uint64_t acknowledged, lost;    /* records that were promised to last; that did not */

/* What a record contains follows from its number; elsewhere a checksum tells if it is whole. */
static void fill(uint64_t *record, uint64_t number)
{
    for (uint64_t i = 0; i < WORDS; i++)
        record[i] = (number + 1) * 0x9e3779b97f4a7c15 + i;
}

/* How many whole records the log has. What is behind them was never acknowledged. */
static int64_t recover(coir_file *log)
{
    for (int64_t count = 0;; count++) {
        uint64_t found[WORDS], expected[WORDS];
        ssize_t n = coir_file_read_full(log, found, SIZE, count * SIZE, NULL);
        fill(expected, (uint64_t)count);
        if (n < 0 && n != -COIR_EEND)
            return n;
        if (n < 0 || memcmp(found, expected, SIZE) != 0)
            return count;
    }
}

static int append(coir_file *log, int64_t number)
{
    uint64_t record[WORDS];
    fill(record, (uint64_t)number);
    int rc = coir_file_write_all(log, record, SIZE, number * SIZE);
    if (rc == 0 && (rc = coir_file_sync_data(log)) == 0)
        acknowledged = (uint64_t)number + 1;
    return rc; /* after an error nobody knows what is on the disk: recover again */
}

static int keep_log(void *dir_path)
{
    while (!coir_task_interrupted()) {
        coir_file *dir = NULL, *log = NULL;
        int rc = coir_file_open("log", O_RDWR | O_CREAT, 0600, &log);
        if (rc == 0 && (rc = coir_file_open(dir_path, O_RDONLY, 0, &dir)) == 0)
            rc = coir_file_sync(dir); /* so that the log is found again */
        int64_t count = rc == 0 ? recover(log) : rc;
        lost |= count >= 0 && (uint64_t)count < acknowledged;
        while (count >= 0 && append(log, count) == 0)
            count++;
        coir_file_close(log);
        coir_file_close(dir);
    }
    return 0;
}

static int lose_power(void *sim)
{
    for (int life = 0; life < 6 && !lost; life++) {
        coir_host *host = coir_sim_host(sim, "keeper", keep_log, ".");
        coir_sim_faults(sim, host, (coir_faults){.disk_error = 0.01, .disk_short = 0.3});
        coir_sleep_for((coir_time)(coir_sim_random(sim) % (50 * COIR_MS)));
        coir_sim_crash(sim, host);
    }
    return lost ? -EIO : 0;
}

static int scenario(coir_sim *sim, void *arg)
{
    acknowledged = lost = 0;
    return coir_sim_host_main(sim, "fate", lose_power, arg ? arg : sim);
}

int main(int argc, char **argv)
{
    return coir_sim_main(argc, argv, scenario, NULL);
}
