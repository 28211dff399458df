/* Watching files and directories, on each driver. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/misuse.h"
#include "work_directory.h"

static coir_watcher *watcher;
static coir_change change = COIR_CHANGE;
static int work_id;

static void next_is(int id, int kind, const char *name)
{
    COIR_DEADLINE(coir_in(5 * COIR_S));
    CHECK_EQ(coir_watcher_next(watcher, &change), 0);
    if (change.id != id || change.kind != kind || strcmp(change.name, name) != 0)
        test_fail(__FILE__, __LINE__, "%d of %d '%s', not %d of %d '%s'", change.kind, change.id,
                  change.name, kind, id, name);
}

static void no_more(void)
{
    COIR_DEADLINE(coir_in(COIR_MS));
    CHECK_EQ(coir_watcher_next(watcher, &change), -ETIME);
}

/* The path of a name in the directory, valid until the fourth call after this one. */
static const char *at(const char *name)
{
    static char paths[4][400];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", work_path, name);
    return path;
}

static void watch_work(int changes)
{
    CHECK_EQ(coir_watcher_open(&watcher), 0);
    work_id = coir_watcher_add(watcher, work_path, changes);
    CHECK(work_id > 0);
}

/* ---- what is reported ---- */

static void report_names(void)
{
    struct stat what;
    watch_work(0);
    coir_file *file = make("a");
    next_is(work_id, COIR_CHANGE_CREATED, "a");
    CHECK(!change.is_dir && change.pair == 0);
    CHECK_EQ(coir_file_write(file, "x", 1, 0), 1);
    next_is(work_id, COIR_CHANGE_MODIFIED, "a");
    coir_file_close(file);
    next_is(work_id, COIR_CHANGE_WRITTEN, "a");
    CHECK_EQ(chmod(at("a"), 0400), 0);
    next_is(work_id, COIR_CHANGE_ATTRIBUTES, "a");
    CHECK_EQ(coir_dir_rename(work, "a", work, "b"), 0);
    next_is(work_id, COIR_CHANGE_MOVED_OUT, "a");
    uint32_t pair = change.pair;
    next_is(work_id, COIR_CHANGE_MOVED_IN, "b");
    CHECK(pair != 0 && change.pair == pair);
    CHECK_EQ(coir_dir_mkdir(work, "d", 0700), 0);
    next_is(work_id, COIR_CHANGE_CREATED, "d");
    CHECK(change.is_dir);
    CHECK_EQ(coir_dir_rename(work, "b", work, "d/b"), 0);
    next_is(work_id, COIR_CHANGE_MOVED_OUT, "b");
    CHECK_EQ(coir_dir_stat(work, "d/b", 0, &what), 0);
    CHECK_EQ(coir_dir_unlink(work, "d/b"), 0); /* not of this directory */
    CHECK_EQ(coir_dir_rmdir(work, "d"), 0);
    next_is(work_id, COIR_CHANGE_REMOVED, "d");
    no_more();
    coir_watcher_close(watcher);
}

static void report_what_was_asked_for(void)
{
    watch_work(COIR_CHANGE_REMOVED | COIR_CHANGE_MODIFIED);
    coir_file *file = make("a");
    CHECK_EQ(coir_file_write(file, "x", 1, 0), 1);
    next_is(work_id, COIR_CHANGE_MODIFIED, "a");
    CHECK_EQ(coir_dir_unlink(work, "a"), 0);
    CHECK_EQ(coir_file_write(file, "x", 1, 0), 1); /* it has no name any more */
    coir_file_close(file);
    next_is(work_id, COIR_CHANGE_REMOVED, "a");
    no_more();
    coir_watcher_close(watcher);
}

/* More than the watcher reads at a time, and names as long as they can be. */
static void report_long_names(void)
{
    char name[256] = "";
    memset(name, 'n', 255);
    watch_work(COIR_CHANGE_CREATED | COIR_CHANGE_REMOVED);
    for (int i = 0; i < 40; i++) {
        name[0] = (char)('A' + i);
        coir_file_close(make(name));
        CHECK_EQ(coir_dir_unlink(work, name), 0);
    }
    for (int i = 0; i < 40; i++) {
        name[0] = (char)('A' + i);
        next_is(work_id, COIR_CHANGE_CREATED, name);
        next_is(work_id, COIR_CHANGE_REMOVED, name);
    }
    no_more();
    coir_watcher_close(watcher);
}

/* ---- what is watched itself ---- */

static void move_and_delete_what_is_watched(void)
{
    CHECK_EQ(coir_watcher_open(&watcher), 0);
    CHECK_EQ(coir_dir_mkdir(work, "d", 0700), 0);
    coir_file_close(make("f"));
    int d = coir_watcher_add(watcher, at("d"), COIR_CHANGE_CREATED),
        f = coir_watcher_add(watcher, at("f"), COIR_CHANGE_WRITTEN);
    CHECK(d > 0 && f > 0 && d != f);
    CHECK_EQ(coir_dir_rename(work, "d", work, "e"), 0);
    next_is(d, COIR_CHANGE_MOVED, "");
    coir_file_close(make("e/x")); /* it is still watched */
    next_is(d, COIR_CHANGE_CREATED, "x");
    CHECK_EQ(coir_dir_unlink(work, "e/x"), 0);
    CHECK_EQ(coir_dir_rmdir(work, "e"), 0);
    next_is(d, COIR_CHANGE_GONE, "");
    CHECK_EQ(coir_watcher_remove(watcher, d), -ENOENT);
    coir_file_close(make("f"));
    next_is(f, COIR_CHANGE_WRITTEN, "");
    coir_file_close(make("g"));
    CHECK_EQ(coir_dir_rename(work, "g", work, "f"), 0); /* another file has its name */
    next_is(f, COIR_CHANGE_GONE, "");
    f = coir_watcher_add(watcher, at("f"), COIR_CHANGE_WRITTEN);
    CHECK(f > 0);
    coir_file_close(make("f"));
    CHECK_EQ(coir_watcher_remove(watcher, f), 0);
    CHECK_EQ(coir_watcher_remove(watcher, f), -ENOENT);
    next_is(f, COIR_CHANGE_WRITTEN, ""); /* from before */
    next_is(f, COIR_CHANGE_GONE, "");
    no_more();
    CHECK_EQ(coir_dir_unlink(work, "f"), 0);
    coir_watcher_close(watcher);
}

static void refuse_paths(void)
{
    CHECK_EQ(coir_watcher_open(&watcher), 0);
    CHECK_EQ(coir_watcher_add(watcher, at("none"), 0), -ENOENT);
    coir_file_close(make("f"));
    CHECK_EQ(coir_watcher_add(watcher, at("f/g"), 0), -ENOTDIR);
    int f = coir_watcher_add(watcher, at("f"), COIR_CHANGE_WRITTEN);
    CHECK(f > 0);
    CHECK_EQ(coir_dir_link(work, "f", work, "g"), 0);
    CHECK_EQ(coir_watcher_add(watcher, at("g"), COIR_CHANGE_ATTRIBUTES), -EEXIST);
    CHECK_EQ(coir_dir_unlink(work, "g"), 0);
    no_more(); /* what is reported of it is as before */
    CHECK_EQ(coir_dir_unlink(work, "f"), 0);
    next_is(f, COIR_CHANGE_GONE, "");
    CHECK_EQ(coir_watcher_remove(watcher, 12345), -ENOENT);
    coir_watcher_close(watcher);
    coir_watcher_close(NULL);
}

/* ---- relative to a directory ---- */

static int make_soon(void *name)
{
    coir_file_close(make(name));
    return coir_dir_unlink(work, name);
}

static coir_file *lent;

static int close_lent(void *arg)
{
    (void)arg;
    coir_file_close(lent);
    return 0;
}

static void watch_relative_paths(void)
{
    CHECK_EQ(coir_watcher_open(&watcher), 0);
    CHECK_EQ(coir_dir_mkdir(work, "d", 0700), 0);
    CHECK_EQ(coir_file_open_at(work, "d", O_RDONLY | O_DIRECTORY, 0, &lent), 0);
    coir_file *file = make("d/f");
    CHECK_EQ(coir_dir_rename(work, "d", work, "e"), 0); /* the directory, not its path */
    work_id = coir_watcher_add_at(watcher, work, ".", COIR_CHANGE_CREATED);
    int e = coir_watcher_add_at(watcher, work, "e", COIR_CHANGE_REMOVED);
    int f = coir_watcher_add_at(watcher, lent, "f", COIR_CHANGE_MODIFIED);
    CHECK(work_id > 0 && e > 0 && f > 0 && e != f && f != work_id);
    CHECK_EQ(coir_watcher_add_at(watcher, lent, ".", 0), -EEXIST);
    CHECK_EQ(coir_watcher_add_at(watcher, file, at("e"), 0), -EEXIST); /* absolute */
    CHECK_EQ(coir_watcher_add_at(watcher, NULL, at("e/f"), 0), -EEXIST);
    CHECK_EQ(coir_watcher_add_at(watcher, lent, "none", 0), -ENOENT);
    CHECK_EQ(coir_watcher_add_at(watcher, file, "f", 0), -ENOTDIR);
    CHECK_EQ(coir_file_write(file, "x", 1, 0), 1);
    next_is(f, COIR_CHANGE_MODIFIED, "");
    coir_file_close(file);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, close_lent, NULL), 0); /* while it is in use */
    CHECK_EQ(coir_watcher_add_at(watcher, lent, "..", 0), -EEXIST);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_watcher_remove(watcher, f), 0);
    next_is(f, COIR_CHANGE_GONE, "");
    CHECK_EQ(coir_dir_unlink(work, "e/f"), 0);
    next_is(e, COIR_CHANGE_REMOVED, "f");
    CHECK_EQ(coir_dir_rmdir(work, "e"), 0);
    next_is(e, COIR_CHANGE_GONE, "");
    CHECK_EQ(make_soon("g"), 0);
    next_is(work_id, COIR_CHANGE_CREATED, "g");
    no_more();
    coir_watcher_close(watcher);
}

/* ---- overflow ---- */

static unsigned queue_max(void)
{
    unsigned max = 0;
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    CHECK(file && fscanf(file, "%u", &max) == 1);
    fclose(file);
    return max;
}

/* Each of the changes is there, or an overflow is in its place. */
static void overflow(void)
{
    unsigned max = queue_max();
    char from[64], to[64];
    watch_work(COIR_CHANGE_MOVED_OUT | COIR_CHANGE_MOVED_IN);
    coir_file_close(make("a"));
    strcpy(from, at("a"));
    strcpy(to, at("b"));
    for (unsigned i = 0; i < max / 4 + 4; i++)
        CHECK(rename(from, to) == 0 && rename(to, from) == 0);
    for (unsigned i = 0; i < max; i++)
        next_is(work_id, i % 2 ? COIR_CHANGE_MOVED_IN : COIR_CHANGE_MOVED_OUT,
                (i + 1) / 2 % 2 ? "b" : "a");
    next_is(-1, COIR_CHANGE_OVERFLOW, "");
    no_more();
    CHECK_EQ(rename(from, to), 0); /* it goes on */
    next_is(work_id, COIR_CHANGE_MOVED_OUT, "a");
    next_is(work_id, COIR_CHANGE_MOVED_IN, "b");
    CHECK_EQ(coir_dir_unlink(work, "b"), 0);
    coir_watcher_close(watcher);
}

/* ---- waiting ---- */

static coir_event rival;

static void set_rival(void *arg)
{
    coir_event_set(arg);
}

/* A posted call is made after the driver was asked, and before what the driver has woken runs. */
static int make_and_post(void *name)
{
    int fd = open(at(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
    return coir_runtime_post(coir_runtime_current(), 0, set_rival, &rival);
}

static int wait_too(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_watcher_next(watcher, &(coir_change)COIR_CHANGE), -EBUSY);
    coir_watcher_close(watcher); /* it is in use: not closed */
    return 0;
}

static void wait_for_changes(void)
{
    coir_watcher_op op;
    coir_change short_one = {.size = 1};
    watch_work(COIR_CHANGE_CREATED);
    no_more();
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, make_soon, "a"), 0); /* when this task has suspended */
    next_is(work_id, COIR_CHANGE_CREATED, "a");
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(make_soon("b"), 0);
    CHECK_EQ(coir_await(coir_watcher_next_op(&op, watcher, &change)), 0);
    CHECK(strcmp(change.name, "b") == 0);
    CHECK_EQ(coir_watcher_next(watcher, &short_one), -COIR_EUNSIZED);
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i)};
        CHECK_EQ(make_soon(name), 0);
    }
    {
        COIR_DEADLINE(1);
        CHECK_EQ(coir_watcher_next(watcher, &change), -ETIME); /* takes none */
    }
    next_is(work_id, COIR_CHANGE_CREATED, "a");
    coir_case waits[] = {coir_case_change(watcher, &change), coir_case_after(10 * COIR_S)};
    CHECK_EQ(coir_select(waits, 2), 0);
    CHECK(strcmp(change.name, "b") == 0);
    {
        COIR_DEADLINE(1);
        CHECK_EQ(coir_watcher_next(watcher, &change), -ETIME); /* of those read before */
    }
    next_is(work_id, COIR_CHANGE_CREATED, "c");
    coir_watcher_close(watcher);
}

static void refuse_a_second_waiter(void)
{
    watch_work(COIR_CHANGE_CREATED);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, wait_too, NULL), 0);
        CHECK_EQ(coir_go(scope, make_soon, "a"), 0);
        next_is(work_id, COIR_CHANGE_CREATED, "a");
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_watcher_close(watcher);
}

struct frame {
    coir_future future;
    coir_sleep_op sleep;
    coir_watcher_op next;
};

static coir_future *wait_and_next(coir_future *future)
{
    struct frame *self = coir_frame(future, struct frame);
    COIR_BEGIN(future);
    COIR_AWAIT(future, coir_sleep_until_op(&self->sleep, COIR_NEVER));
    COIR_AWAIT(future, coir_watcher_next_op(&self->next, watcher, &change));
    COIR_RETURN(future, self->next.future.result);
}

static const coir_future_kind frame_kind = COIR_FUTURE_KIND("frame", wait_and_next, NULL);

/* A task without a stack that is cancelled takes no change either. */
static void cancel_a_frame(void)
{
    struct frame frame;
    watch_work(COIR_CHANGE_CREATED);
    CHECK_EQ(make_soon("a"), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_await(coir_future_init(&frame.future, &frame_kind)), -ETIME);
    }
    next_is(work_id, COIR_CHANGE_CREATED, "a");
    coir_watcher_close(watcher);
}

/* The select is decided by the event after the queue was found readable: the change was not taken,
 * and is there for the next. */
static void lose_selects(void)
{
    int lost = 0;
    for (int i = 0; i < 50; i++) {
        watch_work(COIR_CHANGE_CREATED);
        rival = (coir_event)COIR_EVENT_INIT;
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, make_and_post, "a"), 0);
        coir_case waits[] = {coir_case_change(watcher, &change), coir_case_event(&rival)};
        int which = coir_select_in_order(waits, 2);
        CHECK_EQ(coir_scope_wait(scope), 0);
        CHECK_EQ(waits[which].result, 0);
        if (which == 1) {
            lost++;
            next_is(work_id, COIR_CHANGE_CREATED, "a");
        }
        no_more();
        CHECK_EQ(coir_dir_unlink(work, "a"), 0);
        coir_watcher_close(watcher);
    }
    CHECK(lost > 0);
}

static void without_descriptors(void)
{
    struct rlimit all, none;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    none = all;
    none.rlim_cur = 3;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_EQ(coir_watcher_open(&watcher), -EMFILE);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
    watch_work(0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_EQ(coir_watcher_add_at(watcher, work, "..", 0), -EMFILE);
    coir_watcher_close(watcher);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
}

static int count_turns(void *turns)
{
    while (coir_yield() == 0)
        ++*(int *)turns;
    return 0;
}

/* As lines that lie in a reader: they are there at once, and let others run all the same. */
static void take_many_changes(void)
{
    enum { TIMES = 1000 };
    int turns = 0;
    watch_work(COIR_CHANGE_CREATED | COIR_CHANGE_REMOVED);
    for (int i = 0; i < TIMES; i++) {
        int fd = open(at("a"), O_CREAT | O_WRONLY, 0600);
        CHECK(fd >= 0 && close(fd) == 0 && unlink(at("a")) == 0);
    }
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, count_turns, &turns), 0);
    for (int i = 0; i < 2 * TIMES; i++)
        CHECK_EQ(coir_watcher_next(watcher, &change), 0);
    CHECK(turns >= 5);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    coir_watcher_close(watcher);
}

TEST(changes_are_reported)
{
    in_a_directory_on_every_driver(report_names);
}

TEST(only_changes_that_were_asked_for_are_reported)
{
    in_a_directory_on_every_driver(report_what_was_asked_for);
}

TEST(long_names_are_whole)
{
    in_a_directory_on_every_driver(report_long_names);
}

TEST(what_is_watched_moves_and_goes)
{
    in_a_directory_on_every_driver(move_and_delete_what_is_watched);
}

TEST(a_path_that_cannot_be_watched_is_refused)
{
    in_a_directory_on_every_driver(refuse_paths);
}

TEST(paths_begin_at_a_directory)
{
    in_a_directory_on_every_driver(watch_relative_paths);
}

TEST(lost_changes_are_reported)
{
    in_a_directory_on_every_driver(overflow);
}

TEST(changes_are_awaited)
{
    in_a_directory_on_every_driver(wait_for_changes);
}

TEST(a_cancelled_frame_takes_no_change)
{
    in_a_directory_on_every_driver(cancel_a_frame);
}

TEST(one_task_waits)
{
    ci_misuse_aborts = false;
    in_a_directory_on_every_driver(refuse_a_second_waiter);
}

TEST(many_changes_let_others_run)
{
    in_a_directory_on_every_driver(take_many_changes);
}

TEST(a_change_that_loses_a_select_is_kept)
{
    in_a_directory_on_every_driver(lose_selects);
}

TEST(without_descriptors_none_is_opened)
{
    in_a_directory_on_every_driver(without_descriptors);
}

TEST_SIM(the_simulator_has_none)
{
    CHECK_EQ(coir_watcher_open(&watcher), -ENOTSUP);
}
