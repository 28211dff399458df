/* Looking up the addresses of a host: a task joins the question, and either waits for its answer
 * or, as the leader, asks it. */
#include "io/name_lookup.h"

#include <errno.h>

#include "base/check.h"
#include "base/time.h"
#include "io/io.h"
#include "io/name_cares.h"
#include "io/name_threads.h"

static const coir_time stamp_interval = 1 * COIR_S;

static const char names_key;

/* ---- the names of a runtime ---- */

static struct ci_names *names_of(struct ci_runtime_extension *extension)
{
    return ci_container_of(extension, struct ci_names, extension);
}

static void close_names(struct ci_runtime_extension *extension)
{
    struct ci_names *names = names_of(extension);
    ci_names_lock(names);
    ci_name_threads_close(names);
    ci_names_end(names);
}

static bool is_awaited(struct ci_runtime_extension *extension)
{
    struct ci_names *names = names_of(extension);
    ci_names_lock(names);
    bool awaited = names->awaited > 0;
    ci_names_unlock(names);
    return awaited;
}

static struct ci_names *find_names(coir_runtime *runtime)
{
    struct ci_runtime_extension *there = ci_runtime_find_extension(runtime, &names_key);
    if (ci_likely(there != NULL))
        return names_of(there);
    struct ci_names *names = ci_names_new(runtime);
    if (!names)
        return NULL;
    names->extension = (struct ci_runtime_extension){NULL, &names_key, close_names, is_awaited};
    there = ci_runtime_add_extension(runtime, &names->extension);
    if (there != &names->extension)
        close_names(&names->extension); /* another worker was first */
    return names_of(there);
}

/* ---- joining and leaving a question, under the lock ---- */

/* Checks once a second, while names are looked up, whether /etc/hosts or /etc/resolv.conf have
 * changed; if so, forgets all answers. */
static void look_at_files(struct ci_names *names, coir_time now)
{
    if (names->stamp_time && now < ci_time_after(names->stamp_time, stamp_interval))
        return;
    uint64_t stamp = ci_sys_lookup_stamp();
    if (names->stamp_time && stamp != names->stamp)
        ci_names_forget(names);
    names->stamp = stamp;
    names->stamp_time = now;
}

/* A new question cannot be asked: that is its answer. */
static void fail(struct ci_names *names, struct ci_lookup *lookup, int error)
{
    lookup->leads = false;
    lookup->question->leader = NULL;
    lookup->told = true;
    ci_question_answer(names, lookup->question, error, NULL, ci_worker_current->loop.now, 0);
}

/* Begins a new question: decides what will answer it. `known` is the answer of the simulated
 * world. */
static void begin_asking(struct ci_names *names, struct ci_lookup *lookup,
                         const struct ci_question *known)
{
    struct ci_question *question = lookup->question;
    int rc = 0;
    lookup->leads = known || names->by_cares;
    question->leader = lookup->leads ? lookup : NULL;
    if (known) {
        question->error = known->error;
        question->ips = known->ips;
        question->due = known->due;
    } else if (names->by_cares) {
        question->asker = CI_ASKED_OF_CARES; /* start_asking */
    } else {
        question->asker = CI_ASKED_OF_THREADS;
        rc = ci_name_threads_ask(names, question);
    }
    if (rc < 0)
        fail(names, lookup, rc);
}

/* Finds or adds the question, and holds it. */
static int join(struct ci_names *names, struct ci_lookup *lookup, const struct ci_question *known)
{
    struct ci_worker *worker = ci_worker_current;
    coir_time now = ci_loop_update_now(&worker->loop);
    if (!worker->runtime->simulated)
        look_at_files(names, now);
    struct ci_question *question = ci_question_find(names, lookup->host, lookup->family, now);
    bool fresh = !question;
    if (fresh && !(question = ci_question_add(names, lookup->host, lookup->family)))
        return -ENOMEM;
    lookup->question = question;
    question->holders++;
    if (question->answered) {
        ci_question_touch(names, question);
        lookup->told = true;
        return 0;
    }
    if (fresh) {
        begin_asking(names, lookup, known);
        if (lookup->leads || lookup->told)
            return 0;
    }
    ci_list_push(&question->waiting, &lookup->link);
    ci_question_check(question);
    return 0;
}

/* Leaves the question: the task has the answer, or was cancelled. */
static void leave(struct ci_names *names, struct ci_lookup *lookup)
{
    struct ci_question *question = lookup->question;
    if (!lookup->told)
        ci_list_remove(&lookup->link);
    if (!question->answered) {
        if (lookup->leads)
            ci_question_pass(names, question);
        bool is_queued = !ci_list_empty(&question->queued);
        bool is_wanted = question->leader || !ci_list_empty(&question->waiting);
        if (!is_wanted && (lookup->leads || is_queued)) {
            ci_question_unlist(names, question);
            ci_name_threads_withdraw(names, question);
        }
    }
    ci_check(question->answered || question->leader != lookup, "name_cache.h 3");
    ci_question_check(question);
    ci_question_drop(names, question);
}

/* ---- waiting for an answer that another task or a thread gets ---- */

static coir_future *wait_poll(coir_future *future)
{
    struct ci_lookup *lookup = ci_container_of(future, struct ci_lookup, wait);
    struct ci_names *names = lookup->names;
    struct ci_worker *worker = ci_worker_current;
    if (ci_leaf_refused(worker, future))
        return future->caller;
    ci_names_lock(names);
    bool told = lookup->told;
    if (!told) {
        lookup->worker = worker;
        lookup->runnable = ci_leaf_suspend(worker, future);
        names->awaited += lookup->question->asker == CI_ASKED_OF_THREADS;
    }
    ci_names_unlock(names);
    return told ? ci_leaf_complete(worker, future) : NULL;
}

static int wait_cancel(coir_future *future, int reason)
{
    struct ci_lookup *lookup = ci_container_of(future, struct ci_lookup, wait);
    struct ci_names *names = lookup->names;
    ci_names_lock(names);
    bool withdrawn = !lookup->told;
    if (withdrawn) {
        lookup->runnable = NULL;
        names->awaited -= lookup->question->asker == CI_ASKED_OF_THREADS;
    }
    ci_names_unlock(names);
    if (withdrawn)
        future->result = reason;
    return withdrawn;
}

static const coir_future_kind wait_kind =
    COIR_FUTURE_KIND("the addresses of a name", wait_poll, wait_cancel);

/* ---- the future ---- */

/* Begins the lookup. True: the result is in `lookup` at once (localhost, the simulated world, an
 * error), and there is no question to leave. */
static bool begin(struct ci_lookup *lookup)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_driver *driver = worker->loop.driver;
    struct ci_question known = {0};
    lookup->result =
        driver->kind->resolve(driver, lookup->host, lookup->family, &lookup->ips, &known.due);
    bool is_known = lookup->result != -EAGAIN;
    if (is_known && known.due == 0)
        return true;
    if (is_known) {
        known.error = lookup->result;
        known.ips = lookup->ips;
        known.due = ci_time_after(ci_loop_update_now(&worker->loop), known.due);
    }
    struct ci_names *names = lookup->names = find_names(worker->runtime);
    if (!names)
        return lookup->result = -ENOMEM, true;
    ci_names_lock(names);
    lookup->result = join(names, lookup, is_known ? &known : NULL);
    ci_names_unlock(names);
    return lookup->result < 0;
}

/* Ends the lookup: the question has been answered, or `interrupted` is the interrupt that ended the
 * wait. */
static int end(struct ci_lookup *lookup, int interrupted)
{
    struct ci_names *names = lookup->names;
    struct ci_question *question = lookup->question;
    ci_names_lock(names);
    lookup->result = interrupted ? interrupted : question->error;
    if (lookup->result == 0)
        lookup->ips = question->ips;
    leave(names, lookup);
    ci_names_unlock(names);
    return lookup->result;
}

/* The first leader begins to ask c-ares, which reads files for that: without the lock. False: it
 * cannot be asked. */
static bool start_asking(struct ci_lookup *lookup)
{
    struct ci_names *names = lookup->names;
    struct ci_question *question = lookup->question;
    if (question->asker != CI_ASKED_OF_CARES || question->cares)
        return true;
    int rc = ci_cares->start(names->allocator, names->servers, question->host, question->family,
                             &question->cares);
    if (rc == 0)
        return true;
    ci_names_lock(names);
    fail(names, lookup, rc);
    ci_names_unlock(names);
    return false;
}

/* The future that the leader awaits. */
static coir_future *ask(struct ci_lookup *lookup)
{
    struct ci_question *question = lookup->question;
    if (question->asker == CI_ASKED_OF_CARES)
        return ci_cares->ask(question->cares);
    return coir_sleep_until_op((coir_sleep_op *)(void *)&lookup->pause, question->due);
}

/* The leader has the answer: passes it to the question. */
static void pass_on(struct ci_lookup *lookup)
{
    struct ci_names *names = lookup->names;
    struct ci_question *question = lookup->question;
    struct ci_cares_answer answer = {question->error, question->ips, COIR_NEVER};
    if (question->asker == CI_ASKED_OF_CARES)
        answer = *ci_cares->answer(question->cares);
    coir_time ttl = answer.ttl == COIR_NEVER ? names->keep_time : answer.ttl;
    ci_names_lock(names);
    ci_question_answer(names, question, answer.error, &answer.ips,
                       ci_loop_update_now(&ci_worker_current->loop), ttl);
    ci_names_unlock(names);
}

static coir_future *lookup_poll(coir_future *future)
{
    struct ci_lookup *self = ci_container_of(future, struct ci_lookup, future);
    COIR_BEGIN(future);
    if (ci_leaf_refused(ci_worker_current, future))
        return future->caller;
    if (begin(self))
        COIR_RETURN(future, self->result);
    if (!self->leads) {
        COIR_AWAIT(future, coir_future_init(&self->wait, &wait_kind));
        if (self->wait.result < 0)
            COIR_RETURN(future, end(self, (int)self->wait.result));
    }
    if (self->leads && start_asking(self)) {
        self->asking = ask(self);
        COIR_AWAIT(future, self->asking);
        if (self->asking->result < 0)
            COIR_RETURN(future, end(self, (int)self->asking->result));
        pass_on(self);
    }
    COIR_RETURN(future, end(self, 0));
}

static const coir_future_kind lookup_kind =
    COIR_FUTURE_KIND("the addresses of a name", lookup_poll, NULL);

coir_future *ci_lookup_init(struct ci_lookup *lookup, const char *host, int family)
{
    *lookup = (struct ci_lookup){.host = host, .family = family};
    ci_list_init(&lookup->link);
    return coir_future_init(&lookup->future, &lookup_kind);
}
