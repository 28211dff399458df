/* The flight recorder. Its thread and the handler of fatal signals read the traces while the
 * workers go on (ci_trace_peek). Each has memory of its own for that, which is there before it is
 * needed. A recorder outlives the traces that point at it: they end, worker by worker, before it is
 * freed. */
#include "task/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/options.h"
#include "base/time.h"
#include "coir/deadline.h"
#include "coir/offload.h"
#include "sys/call.h"
#include "sys/clock.h"
#include "sys/crash.h"
#include "sys/file_call.h"
#include "sys/thread.h"
#include "task/log.h"
#include "task/overflow.h"
#include "task/runtime.h"
#include "task/waiter.h"

enum {
    EVENTS = 1 << 16,
    EVENTS_MOST = 1 << 20,
    EVENTS_LEAST = 64, /* the oldest are not written: ci_trace_peek */
    FILES = 10,
    PATH_MOST = 200,
    REASON = 64,
    NAME_TRIES = 10 * 1000
};
static const coir_time interval = 10 * COIR_S;

/* What writing a file takes: room for the events of a worker, and for making them text. */
struct room {
    struct ci_trace_event *events;
    struct ci_trace_space *space;
};

struct ci_recorder {
    coir_runtime *runtime;
    coir_recorder_options options; /* defaults filled in */
    size_t size;                   /* events of a worker */
    unsigned number;               /* in the process */
    uint32_t files;                /* the number of the next one */
    double ticks_per_us;
    struct room of_thread, of_crash;
    struct ci_crash_watch crash; /* used if options.crash */

    struct ci_mutex lock; /* guards what follows */
    struct ci_condition asked;
    bool stopping, wanted;
    size_t written;
    coir_time next; /* when the next file may be asked for */
    char reason[REASON];
    struct ci_thread thread;

    char path[PATH_MOST + 1];
};

/* ---- a file ---- */

/* Without snprintf: for a signal handler, too. */
static size_t put_number(char *text, uint64_t number)
{
    char digits[24];
    size_t len = 0, at = 0;
    do
        digits[len++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (len > 0)
        text[at++] = digits[--len];
    return at;
}

enum { NAME_SIZE = PATH_MOST + 80 };

static void make_name(const struct ci_recorder *recorder, uint32_t file, char *name)
{
    const uint64_t numbers[] = {(uint64_t)ci_sys_process_id(), recorder->number, file};
    size_t len = strlen(recorder->path);
    memcpy(name, recorder->path, len);
    for (size_t i = 0; i < ci_countof(numbers); i++) {
        name[len++] = '.';
        len += put_number(name + len, numbers[i]);
    }
    memcpy(name + len, ".json", sizeof ".json");
}

/* A new file: its descriptor. One that is there, of an earlier process with this number, stays; in
 * a container all have the same. */
static int open_file(struct ci_recorder *recorder, char *name)
{
    int rc = -EEXIST;
    for (int tries = 0; rc == -EEXIST && tries < NAME_TRIES; tries++) {
        make_name(recorder, ci_fetch_add(&recorder->files, 1), name);
        rc = ci_sys_file(&(struct ci_file_call){.kind = CI_FILE_OPEN,
                                                .fd = AT_FDCWD,
                                                .path = name,
                                                .flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                                .mode = 0600});
    }
    return rc;
}

/* `by`: the worker whose thread writes, or NULL. Closes the descriptor. */
static CI_UNINSTRUMENTED int write_file(struct ci_recorder *recorder, const struct room *room,
                                        const char *reason, const struct ci_worker *by, int fd)
{
    coir_runtime *runtime = recorder->runtime;
    struct ci_trace_time time = {ci_clock_ticks(), ci_clock_now(), recorder->ticks_per_us};
    ci_trace_text_begin(room->space, recorder->size, fd, time);
    const struct ci_runnable *runs = by && by->runtime == runtime ? by->runnable : NULL;
    ci_trace_text_note(room->space, runs ? by->index : 0, reason, runs ? runs->task->name : NULL);
    for (int i = 0; i < runtime->worker_count; i++) {
        const struct ci_trace *trace = ci_load_acquire(&runtime->workers[i].kept_trace);
        struct ci_trace_copy copy = {room->events, 0, i};
        if (trace && trace->size == recorder->size)
            copy.count = ci_trace_peek(trace, room->events);
        ci_trace_text_worker(room->space, &copy);
    }
    int rc = ci_trace_text_end(room->space);
    ci_sys_close(fd);
    return rc;
}

/* In the handler of a fatal signal. */
static void on_crash(struct ci_crash_watch *watch, const char *what)
{
    struct ci_recorder *recorder = ci_container_of(watch, struct ci_recorder, crash);
    char name[NAME_SIZE];
    int fd = open_file(recorder, name);
    if (fd >= 0)
        write_file(recorder, &recorder->of_crash, what, ci_worker_current, fd);
}

/* ---- the thread ---- */

/* What is not complete, for want of room, goes. */
static int write_new_file(struct ci_recorder *recorder, const char *reason, char *name)
{
    int fd = open_file(recorder, name);
    int rc = fd < 0 ? fd : write_file(recorder, &recorder->of_thread, reason, NULL, fd);
    if (fd >= 0 && rc < 0)
        ci_sys_file(&(struct ci_file_call){.kind = CI_FILE_UNLINK, .fd = AT_FDCWD, .path = name});
    return rc;
}

/* With the lock held, which is given back meanwhile. */
static void write_wanted(struct ci_recorder *recorder)
{
    char name[NAME_SIZE], reason[REASON];
    memcpy(reason, recorder->reason, sizeof reason);
    ci_mutex_unlock(&recorder->lock);
    int rc = write_new_file(recorder, reason, name);
    if (rc < 0)
        ci_log(recorder->runtime, COIR_LOG_WARNING, "the flight recorder cannot write %s (%s): %s",
               name, reason, coir_strerror(rc));
    else
        ci_log(recorder->runtime, COIR_LOG_WARNING, "the flight recorder has written %s: %s", name,
               reason);
    ci_mutex_lock(&recorder->lock);
    recorder->wanted = false;
    recorder->written -= rc < 0;
    recorder->next = ci_time_after(ci_clock_now(), recorder->options.interval_min);
}

static void *thread_main(void *arg)
{
    struct ci_recorder *recorder = arg;
    ci_mutex_lock(&recorder->lock);
    while (!recorder->stopping || recorder->wanted) {
        if (recorder->wanted)
            write_wanted(recorder);
        else
            ci_condition_wait(&recorder->asked, &recorder->lock, COIR_NEVER);
    }
    ci_mutex_unlock(&recorder->lock);
    return NULL;
}

static int ask(struct ci_recorder *recorder, const char *reason)
{
    if (recorder->written >= recorder->options.files_max)
        return -ENOSPC;
    if (recorder->wanted || ci_clock_now() < recorder->next)
        return -EAGAIN;
    recorder->wanted = true;
    recorder->written++;
    strncpy(recorder->reason, reason, REASON - 1);
    ci_condition_signal(&recorder->asked);
    return 0;
}

int ci_recorder_tell(struct ci_recorder *recorder, const char *reason)
{
    if (!recorder)
        return -ENOENT;
    ci_mutex_lock(&recorder->lock);
    int rc = ask(recorder, reason);
    ci_mutex_unlock(&recorder->lock);
    return rc;
}

/* ---- making and freeing ---- */

static void free_room(struct ci_recorder *recorder, struct room *room)
{
    const coir_allocator *allocator = &recorder->runtime->allocator;
    ci_free(allocator, room->events, recorder->size * sizeof *room->events);
    ci_free(allocator, room->space, ci_trace_space_size(recorder->size));
}

static int make_room(struct ci_recorder *recorder, struct room *room)
{
    const coir_allocator *allocator = &recorder->runtime->allocator;
    room->events = ci_alloc(allocator, recorder->size * sizeof *room->events);
    room->space = ci_alloc(allocator, ci_trace_space_size(recorder->size));
    return room->events && room->space ? 0 : -ENOMEM;
}

static void free_recorder(struct ci_recorder *recorder)
{
    coir_runtime *runtime = recorder->runtime;
    free_room(recorder, &recorder->of_thread);
    free_room(recorder, &recorder->of_crash);
    ci_condition_done(&recorder->asked);
    ci_mutex_done(&recorder->lock);
    ci_free(&runtime->allocator, recorder, sizeof *recorder);
}

static int read_options(coir_recorder_options *options, const coir_recorder_options *given)
{
    int rc = ci_options_read(options, sizeof *options, given);
    if (rc < 0)
        return rc;
    if (options->events_max > EVENTS_MOST || options->slow_turn < 0 || options->slow_request < 0 ||
        options->interval_min < 0)
        return -EINVAL;
    options->path = options->path ? options->path : "coir-flight";
    options->files_max = options->files_max ? options->files_max : FILES;
    options->interval_min = options->interval_min ? options->interval_min : interval;
    return strlen(options->path) > PATH_MOST ? -EINVAL : 0;
}

static int make_recorder(const coir_recorder_options *options, struct ci_recorder **ret_recorder)
{
    static uint32_t count;
    coir_runtime *runtime = ci_worker_current->runtime;
    struct ci_recorder *recorder = ci_alloc_zero(&runtime->allocator, sizeof *recorder);
    if (!recorder)
        return -ENOMEM;
    recorder->runtime = runtime;
    recorder->options = *options;
    recorder->number = ci_fetch_add(&count, 1);
    recorder->ticks_per_us = (double)ci_clock_ticks_in(COIR_S) / 1e6;
    for (recorder->size = EVENTS_LEAST;
         recorder->size < (options->events_max ? options->events_max : EVENTS);)
        recorder->size *= 2;
    memcpy(recorder->path, options->path, strlen(options->path));
    recorder->options.path = recorder->path;
    recorder->crash.fn = on_crash;
    ci_mutex_init(&recorder->lock);
    ci_condition_init(&recorder->asked);
    int rc = make_room(recorder, &recorder->of_thread);
    if (rc == 0 && options->crash)
        rc = make_room(recorder, &recorder->of_crash);
    if (rc == 0)
        rc = ci_thread_start(&recorder->thread, thread_main, recorder);
    if (rc < 0) {
        free_recorder(recorder);
        return rc;
    }
    *ret_recorder = recorder;
    return 0;
}

/* When no trace points at it any more. */
static void stop_recorder(struct ci_recorder *recorder)
{
    if (recorder->options.crash)
        ci_crash_watch_remove(&recorder->crash);
    ci_mutex_lock(&recorder->lock);
    recorder->stopping = true;
    ci_condition_signal(&recorder->asked);
    ci_mutex_unlock(&recorder->lock);
    ci_thread_join(&recorder->thread);
    free_recorder(recorder);
}

void ci_recorder_free(coir_runtime *runtime)
{
    if (runtime->recorder)
        stop_recorder(runtime->recorder);
    runtime->recorder = NULL;
}

/* ---- the calls ---- */

static uint64_t ticks_of(coir_time time)
{
    return time && time != COIR_NEVER ? ci_clock_ticks_in(time) : 0;
}

static int point_at(void *arg)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_recorder *recorder = arg;
    worker->trace->slow_turn = ticks_of(recorder->options.slow_turn);
    worker->trace->slow_request = ticks_of(recorder->options.slow_request);
    worker->trace->recorder = recorder;
    worker->trace->tell = ci_recorder_tell;
    bool needs_stack = recorder->options.crash && !worker->signal_stack;
    return needs_stack ? ci_overflow_watch(worker) : 0;
}

static int point_all(struct ci_recorder *recorder)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < recorder->runtime->worker_count; i++)
        rc = coir_call_on(i, point_at, recorder);
    return rc;
}

static int stop_there(void *recorder)
{
    stop_recorder(recorder);
    return 0;
}

/* After ci_trace_end_all. The worker goes on while a file is being written; a trace does not begin
 * before, as it would free the rings that are read. */
static void stop_and_wait(struct ci_recorder *recorder)
{
    COIR_SHIELD;
    coir_runtime *runtime = recorder->runtime;
    ci_mutex_lock(&recorder->lock);
    bool writes = recorder->wanted;
    ci_mutex_unlock(&recorder->lock);
    if (!writes || coir_offload(stop_there, recorder) < 0)
        stop_recorder(recorder);
    ci_store(&runtime->traced, CI_TRACING_NONE);
}

static int start(const coir_recorder_options *options)
{
    coir_runtime *runtime = ci_worker_current->runtime;
    struct ci_recorder *recorder;
    int rc;
    if (runtime->simulated)
        return -EOPNOTSUPP;
    if (ci_load(&runtime->traced) > CI_TRACING_LEFT)
        return -EBUSY;
    if ((rc = make_recorder(options, &recorder)) < 0)
        return rc;
    bool begun = (rc = ci_trace_begin_all(recorder->size, CI_TRACING_RECORDER)) == 0;
    bool ended = begun && (rc = point_all(recorder)) < 0 &&
                 ci_trace_end_all(CI_TRACING_RECORDER, CI_TRACING_CHANGES) == 0;
    if (options->crash)
        ci_crash_watch_add(&recorder->crash);
    if (ended)
        stop_and_wait(recorder);
    else if (!begun)
        stop_recorder(recorder);
    else /* also where its traces could not be ended: they point at it */
        ci_store(&runtime->recorder, recorder);
    return rc;
}

int coir_recorder_start_with(const coir_recorder_options *given)
{
    int rc = 0;
    coir_recorder_options options = COIR_RECORDER_OPTIONS;
    if (!ci_fiber_enter(&rc) || (rc = read_options(&options, given)) < 0)
        return CI_MISUSE_IF(-EINVAL, rc, "events_max, a time, or the length of path");
    return start(&options);
}

int coir_recorder_start(void)
{
    int rc = 0;
    coir_recorder_options options = COIR_RECORDER_OPTIONS;
    if (!ci_fiber_enter(&rc) || (rc = read_options(&options, NULL)) < 0)
        return rc;
    return start(&options);
}

int coir_recorder_write(const char *reason)
{
    const struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!reason)
        return CI_MISUSE(-EINVAL, "reason is NULL");
    return worker->trace ? ci_recorder_tell(worker->trace->recorder, reason) : -ENOENT;
}

int coir_recorder_stop(void)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    coir_runtime *runtime = ci_worker_current->runtime;
    struct ci_recorder *recorder = ci_exchange(&runtime->recorder, NULL);
    if (!recorder)
        return 0;
    if ((rc = ci_trace_end_all(CI_TRACING_RECORDER, CI_TRACING_CHANGES)) < 0)
        ci_store(&runtime->recorder, recorder); /* traces still point at it */
    else
        stop_and_wait(recorder);
    return rc;
}
