/* Tasks that change the names in a directory, and one that keeps a copy of the names by a watcher,
 * while the disk fails and descriptors run out. Only over the simulated kernel, which has watches.
 *
 * What must hold:
 * 1. What the changes say is so: in the end, the copy has the names that a listing has. Where
 *    changes were lost, an overflow stands in their place, and the copy is listed anew.
 * 2. Both names of a rename have the same number, and the old one comes first.
 * 3. A change that a select or a deadline did not take comes later: none is lost for that.
 * 4. What is watched no longer is told last to be gone. */
#include <coir.h>
#include <coir/event.h>
#include <coir/sim.h>
#include <coir/watcher.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { NAMES = 6, KEEPERS = 3, STEPS = 25 };
static const char *const names[NAMES] = {"a", "b", "c", "d", "e", "f"}, *const sentinel = "z";

static struct {
    coir_sim *sim;
    coir_host *host;
    coir_file *dir;
    coir_watcher *watcher;
    coir_event rival;  /* is set when there may be a change too */
    bool there[NAMES]; /* the copy */
    uint32_t pair;     /* of the old name of a rename that came last */
    int dir_id, file_id;
    bool file_gone, calm, ended;
} w;

static int passing_since(bool calm, int rc) /* calm when the call began */
{
    if (rc < 0)
        MUST(!calm &&
             (rc == -EIO || rc == -ENOSPC || rc == -EDQUOT || rc == -EMFILE || rc == -ENFILE ||
              rc == -ENOENT || rc == -EEXIST || rc == -ENOTDIR || rc == -EISDIR));
    return rc;
}

static int passing(int rc)
{
    return passing_since(w.calm, rc);
}

static int number_of(const char *name)
{
    int i = 0;
    while (i < NAMES && strcmp(names[i], name) != 0)
        i++;
    return i;
}

/* ---- who changes names ---- */

static const char *some_name(void)
{
    return names[below(NAMES)];
}

static void make(const char *name)
{
    coir_file *file;
    if (passing(coir_file_open_at(w.dir, name, O_RDWR | O_CREAT, 0600, &file)) < 0)
        return;
    if (below(2))
        passing((int)coir_file_write(file, "x", 1, 0));
    coir_file_close(file);
}

static int change_names(void *arg)
{
    (void)arg;
    for (int i = 0; i < STEPS; i++) {
        switch (below(6)) {
        case 0: passing(coir_dir_unlink(w.dir, some_name())); break;
        case 1: passing(coir_dir_rename(w.dir, some_name(), w.dir, some_name())); break;
        case 2: passing(coir_dir_link(w.dir, some_name(), w.dir, some_name())); break;
        case 3: coir_sleep_for((coir_time)below(COIR_MS)); break;
        default: make(some_name());
        }
        if (below(2))
            coir_event_set(&w.rival);
    }
    return 0;
}

/* ---- who keeps the copy ---- */

static void list_anew(void)
{
    coir_listing *listing;
    coir_dir_entry entry = COIR_DIR_ENTRY;
    bool calm;
    int rc;
    do {
        calm = w.calm;
        memset(w.there, 0, sizeof w.there);
        if ((rc = coir_listing_open(w.dir, ".", &listing)) < 0)
            continue;
        while ((rc = coir_listing_next(listing, &entry)) > 0)
            if (number_of(entry.name) < NAMES)
                w.there[number_of(entry.name)] = true;
        coir_listing_close(listing);
    } while (passing_since(calm, rc) < 0);
}

static void take_name(const coir_change *change)
{
    int number = number_of(change->name);
    MUST(number < NAMES || strcmp(change->name, sentinel) == 0);
    if (change->kind == COIR_CHANGE_MOVED_OUT)
        w.pair = change->pair;
    if (change->kind == COIR_CHANGE_MOVED_IN)
        MUST(change->pair && (!w.pair || change->pair == w.pair));
    if (change->kind != COIR_CHANGE_MOVED_OUT)
        w.pair = 0;
    if (number == NAMES)
        return;
    if (change->kind == COIR_CHANGE_CREATED || change->kind == COIR_CHANGE_MOVED_IN)
        w.there[number] = true;
    if (change->kind == COIR_CHANGE_REMOVED || change->kind == COIR_CHANGE_MOVED_OUT)
        w.there[number] = false;
}

/* Whether it was the last one: that of the sentinel, or an overflow after it. */
static bool take(const coir_change *change)
{
    if (change->kind == COIR_CHANGE_OVERFLOW) {
        bool ended = w.ended;
        MUST_BE(change->id, -1);
        w.pair = 0;
        list_anew();
        return ended;
    }
    if (change->id == w.dir_id) {
        take_name(change);
        return change->kind == COIR_CHANGE_CREATED && strcmp(change->name, sentinel) == 0;
    }
    MUST_BE(change->id, w.file_id);
    MUST(!change->name[0] && !w.file_gone);
    w.file_gone = change->kind == COIR_CHANGE_GONE;
    return false;
}

static int next_change(coir_change *ret_change)
{
    if (below(8) == 0)
        coir_sleep_for((coir_time)below(2 * COIR_MS)); /* several changes come at once */
    if (below(2))
        return coir_watcher_next(w.watcher, ret_change);
    if (below(3) == 0) {
        COIR_DEADLINE(coir_in((coir_time)below(COIR_MS)));
        return coir_watcher_next(w.watcher, ret_change);
    }
    coir_case waits[] = {coir_case_change(w.watcher, ret_change), coir_case_event(&w.rival),
                         coir_case_after((coir_time)below(COIR_MS))};
    int which = coir_select(waits, 3);
    if (which == 1)
        coir_event_reset(&w.rival);
    return which == 0 ? (int)waits[0].result : -ETIME;
}

static int keep_copy(void *arg)
{
    coir_change change = COIR_CHANGE;
    (void)arg;
    for (;;) {
        int rc = next_change(&change);
        MUST(rc == 0 || rc == -ETIME);
        if (rc == 0 && take(&change))
            return 0;
    }
}

/* When all is well again: a name that is changed last. */
static void end_well(void)
{
    w.calm = true;
    coir_sim_faults(w.sim, w.host, (coir_faults){0});
    w.ended = true;
    make(sentinel);
}

static void watch_file(void)
{
    int rc;
    make("a");
    rc = coir_watcher_add_at(w.watcher, w.dir, "a", 0);
    if (passing(rc) > 0)
        w.file_id = rc;
    if (rc > 0 && below(3) == 0) {
        MUST_BE(coir_watcher_remove(w.watcher, rc), 0);
        MUST_BE(coir_watcher_remove(w.watcher, rc), -ENOENT);
    }
}

static void compare(void)
{
    bool kept[NAMES];
    memcpy(kept, w.there, sizeof kept);
    list_anew();
    MUST(memcmp(kept, w.there, sizeof kept) == 0);
}

static int play(void *arg)
{
    (void)arg;
    MUST_BE(coir_dir_mkdir(NULL, "/tmp/d", 0700), 0);
    MUST_BE(coir_file_open("/tmp/d", O_RDONLY | O_DIRECTORY, 0, &w.dir), 0);
    MUST_BE(coir_watcher_open(&w.watcher), 0);
    w.dir_id = below(2) ? coir_watcher_add(w.watcher, "/tmp/d", 0)
                        : coir_watcher_add_at(w.watcher, w.dir, ".", 0);
    MUST(w.dir_id > 0);
    if (below(4))
        coir_sim_faults(w.sim, w.host,
                        (coir_faults){.disk_error = some(0.1),
                                      .disk_full = some(0.1),
                                      .no_descriptor = some(0.1)});
    if (below(2))
        watch_file();
    COIR_SCOPE(keepers);
    COIR_SCOPE(copy);
    MUST_BE(coir_go(copy, keep_copy, NULL), 0); /* here: the watcher is this worker's */
    int workers = (int)coir_worker_count(coir_runtime_current());
    for (int i = 0; i < KEEPERS; i++)
        MUST_BE(coir_go_on(keepers, (int)below((uint64_t)workers), change_names, NULL), 0);
    MUST_BE(coir_scope_wait(keepers), 0);
    end_well();
    MUST_BE(coir_scope_wait(copy), 0);
    compare();
    coir_watcher_close(w.watcher);
    coir_file_close(w.dir);
    return 0;
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.rival = (coir_event)COIR_EVENT_INIT;
    return chaos_run_alone(sim, play, &w.host);
}
