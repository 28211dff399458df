/* A write-ahead log over losses of power: a host appends records to a file and acknowledges each
 * when a sync behind it has succeeded; the disk fails, fills up and is short; the host loses its
 * power and comes back, several times.
 *
 * What must hold, each time that the log is read again:
 * 1. Every record that was acknowledged is there, whole, in its place.
 * 2. Every record that is there was written, and in that place: what a loss of power tore is not
 *    taken for a record.
 * 3. A small file beside it, which is replaced now and then, has the bytes of the last replacement
 *    that succeeded, or of a later one. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"
#include "sim/sync_names.h"

enum { RECORDS_MOST = 200, LEN_MOST = 1500, LIVES = 5, WRITERS = 3 };

struct head {
    uint32_t number, len;
    uint64_t hash;
};

static struct {
    coir_sim *sim;
    coir_host *host;
    uint64_t seeds[RECORDS_MOST]; /* of the record last written in this place */
    uint32_t lens[RECORDS_MOST];
    uint32_t acknowledged;
    uint8_t marked; /* the number in the file that is replaced: one that fits */
    coir_file *file;
    int64_t end; /* of the log, in its file */
    uint32_t count;
    coir_mutex mutex;
    bool broken; /* what lies behind `end` is unknown: begin anew */
    char bytes[LEN_MOST + sizeof(struct head)];
    bool ends;
} w;

static uint64_t hash_of(const struct head *head, const char *bytes)
{
    uint64_t hash = 0xcbf29ce484222325u ^ head->number ^ (uint64_t)head->len << 32;
    for (size_t at = 0, n; at < head->len; at += n) {
        uint64_t word = 0;
        n = head->len - at < sizeof word ? head->len - at : sizeof word;
        memcpy(&word, bytes + at, n);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    return hash;
}

/* ---- whole reads and writes ---- */

static int read_whole(void *to, size_t len, int64_t offset)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = coir_file_read(w.file, (char *)to + at, len - at, offset + (int64_t)at);
        if (n <= 0)
            return n < 0 ? (int)n : -COIR_EEND;
        at += (size_t)n;
    }
    return 0;
}

static int write_whole(const void *from, size_t len, int64_t offset)
{
    for (size_t at = 0; at < len;) {
        ssize_t n =
            coir_file_write(w.file, (const char *)from + at, len - at, offset + (int64_t)at);
        if (n < 0)
            return (int)n;
        at += (size_t)n;
    }
    return 0;
}

/* ---- reading the log ---- */

/* The next record: 1, or 0 at the end of what is whole. */
static int read_record(void)
{
    struct head head;
    int rc = read_whole(&head, sizeof head, w.end);
    if (rc == -COIR_EEND)
        return 0;
    if (rc < 0)
        return rc;
    if (head.number != w.count || head.len > LEN_MOST || !head.len)
        return 0;
    if ((rc = read_whole(w.bytes, head.len, w.end + (int64_t)sizeof head)) < 0)
        return rc == -COIR_EEND ? 0 : rc;
    if (hash_of(&head, w.bytes) != head.hash)
        return 0;
    MUST_BE(head.len, w.lens[head.number]);
    MUST(bytes_are(w.bytes, (unsigned)w.seeds[head.number], 0, head.len));
    w.end += (int64_t)sizeof head + head.len;
    w.count++;
    return 1;
}

/* 3 */
static int read_mark(void)
{
    coir_file *file;
    uint8_t mark = 0;
    int rc = coir_file_open("mark", O_RDONLY, 0, &file);
    if (rc == -ENOENT)
        MUST_BE(w.marked, 0);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    ssize_t n = coir_file_read(file, &mark, sizeof mark, 0);
    coir_file_close(file);
    if (n < 0)
        return (int)n;
    MUST(n == sizeof mark && mark >= w.marked && mark <= w.acknowledged);
    return 0;
}

static int write_mark(void)
{
    uint8_t mark = (uint8_t)w.acknowledged;
    int rc = coir_file_replace(NULL, "mark", &mark, sizeof mark, 0600);
    if (rc == 0 && !coir_task_interrupted())
        w.marked = mark;
    return rc;
}

static int recover(void)
{
    int rc = read_mark();
    if (rc < 0)
        return rc;
    w.end = 0;
    w.count = 0;
    while ((rc = read_record()) > 0)
        continue;
    if (rc < 0)
        return rc;
    MUST(w.count >= w.acknowledged);
    return 0;
}

/* ---- writing ---- */

/* One record behind the last; the lock is held. What could not be written or synced may be there or
 * not. */
static int append(void)
{
    struct head head = {w.count, 1 + (uint32_t)below(LEN_MOST), 0};
    uint64_t seed = coir_sim_random(w.sim);
    w.seeds[w.count] = seed;
    w.lens[w.count] = head.len;
    bytes_make(w.bytes + sizeof head, (unsigned)seed, 0, head.len);
    head.hash = hash_of(&head, w.bytes + sizeof head);
    memcpy(w.bytes, &head, sizeof head);
    int rc = write_whole(w.bytes, sizeof head + head.len, w.end);
    if (rc == 0)
        rc = coir_file_sync(w.file);
    if (rc < 0) {
        w.broken = true;
        return rc;
    }
    w.end += (int64_t)sizeof head + head.len;
    w.count++;
    if (!coir_task_interrupted()) /* a host without power acknowledges nothing */
        w.acknowledged = w.count;
    return 0;
}

static int write_records(void *arg)
{
    (void)arg;
    int rc = 0;
    while (rc == 0 && !w.broken && !w.ends) {
        if ((rc = coir_mutex_lock(&w.mutex)) < 0)
            break;
        if (!w.broken && w.count < RECORDS_MOST)
            rc = append();
        if (rc == 0 && below(40) == 0)
            rc = write_mark();
        coir_mutex_unlock(&w.mutex);
        if (rc == 0)
            rc = coir_sleep_for((coir_time)below(20) * COIR_MS);
    }
    return chaos_explains(rc);
}

/* Until an error leaves the end of the log unknown. */
static int use_log(void)
{
    int rc = coir_file_open("log", O_RDWR | O_CREAT, 0600, &w.file);
    if (rc < 0)
        return rc;
    if ((rc = sync_names()) < 0) {
        coir_file_close(w.file);
        return rc;
    }
    w.broken = false;
    w.mutex = (coir_mutex)COIR_MUTEX_INIT;
    if ((rc = recover()) == 0) {
        COIR_SERVING_SCOPE(scope);
        for (uint64_t writers = 1 + below(WRITERS); rc == 0 && writers; writers--)
            rc = coir_go(scope, write_records, NULL);
        if (rc == 0)
            rc = coir_scope_wait(scope);
    }
    coir_file_close(w.file);
    return rc;
}

static int keep_log(void *arg)
{
    (void)arg;
    int rc;
    do
        rc = chaos_explains(use_log());
    while (rc != -ECANCELED && !w.ends && coir_sleep_for(10 * COIR_MS) == 0);
    return 0;
}

/* ---- fate ---- */

static int befall(void *arg)
{
    (void)arg;
    for (uint64_t lives = 1 + below(LIVES); lives; lives--) {
        coir_sim_faults(w.sim, w.host,
                        (coir_faults){.disk_error = some(0.1),
                                      .disk_full = some(0.1),
                                      .disk_short = some(0.7),
                                      .late = some(0.5),
                                      .no_descriptor = some(0.2)});
        coir_sleep_for((coir_time)below(1000) * COIR_MS);
        coir_sim_crash(w.sim, w.host);
        coir_sleep_for((coir_time)below(200) * COIR_MS); /* its tasks end meanwhile, unseen */
        for (coir_time pause = 0; !coir_host_is_down(w.host);)
            chaos_pause(&pause);
        if (!(w.host = coir_sim_host(w.sim, "keeper", keep_log, NULL)))
            return -ENOMEM;
    }
    coir_sim_faults(w.sim, NULL, (coir_faults){0});
    uint32_t before = w.acknowledged;
    if (coir_sleep_for(2 * COIR_S) < 0)
        return -ECANCELED; /* the simulation has given up, and says why */
    MUST(w.acknowledged > before || w.count == RECORDS_MOST); /* it goes on */
    w.ends = true;
    while (!coir_host_is_down(w.host))
        coir_sleep_for(100 * COIR_MS);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    MUST_BE(chaos_configure(sim), 0);
    if (!(w.host = coir_sim_host(sim, "keeper", keep_log, NULL)))
        return -ENOMEM;
    return coir_sim_host_main(sim, "fate", befall, NULL);
}
