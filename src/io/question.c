/* The table of questions, the answers that are kept, and the future of one: see question.h. */
#include "io/question.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/time.h"
#include "io/io.h"

enum { BUCKETS = 256 };
static const coir_time failure_time = 1 * COIR_S;
static const coir_time stamp_interval = 1 * COIR_S;

static const char names_key;

/* ---- the names of a runtime ---- */

static struct ci_names *names_of(struct ci_runtime_extension *extension)
{
    return ci_container_of(extension, struct ci_names, extension);
}

void ci_names_unref(struct ci_names *names)
{
    bool last = --names->refs == 0;
    ci_mutex_unlock(&names->lock);
    if (!last)
        return;
    ci_condition_done(&names->work);
    ci_condition_done(&names->left);
    ci_mutex_done(&names->lock);
    free(names);
}

static void forget_all(struct ci_names *names);

static void close_names(struct ci_runtime_extension *extension)
{
    struct ci_names *names = names_of(extension);
    ci_mutex_lock(&names->lock);
    ci_name_threads_close(names);
    forget_all(names);
    ci_free(names->allocator, names->buckets, BUCKETS * sizeof *names->buckets);
    ci_names_unref(names);
}

static bool is_awaited(struct ci_runtime_extension *extension)
{
    struct ci_names *names = names_of(extension);
    ci_mutex_lock(&names->lock);
    bool awaited = names->awaited > 0;
    ci_mutex_unlock(&names->lock);
    return awaited;
}

/* They are the system allocator's: a thread may use them after the runtime. */
static struct ci_names *make_names(coir_runtime *runtime)
{
    struct ci_names *names = calloc(1, sizeof *names);
    if (!names)
        return NULL;
    names->allocator = &runtime->allocator;
    if (!(names->buckets = ci_alloc(names->allocator, BUCKETS * sizeof *names->buckets))) {
        free(names);
        return NULL;
    }
    for (size_t i = 0; i < BUCKETS; i++)
        ci_list_init(&names->buckets[i]);
    ci_list_init(&names->answers);
    ci_list_init(&names->queue);
    ci_list_init(&names->asking);
    ci_mutex_init(&names->lock);
    ci_condition_init(&names->work);
    ci_condition_init(&names->left);
    names->extension = (struct ci_runtime_extension){NULL, &names_key, close_names, is_awaited};
    names->refs = 1;
    names->kept_max = runtime->config.name_cache_max;
    names->keep_time = runtime->config.name_cache_time;
    names->threads_max = runtime->config.name_threads_max;
    names->by_cares = runtime->config.resolver && strcmp(runtime->config.resolver, "c-ares") == 0;
    names->servers = runtime->config.name_servers;
    return names;
}

static struct ci_names *find_names(coir_runtime *runtime)
{
    struct ci_runtime_extension *there = ci_runtime_find_extension(runtime, &names_key);
    if (ci_likely(there != NULL))
        return names_of(there);
    struct ci_names *names = make_names(runtime);
    if (!names)
        return NULL;
    there = ci_runtime_add_extension(runtime, &names->extension);
    if (there != &names->extension)
        close_names(&names->extension); /* another worker was first */
    return names_of(there);
}

/* ---- questions, under the lock ---- */

void ci_question_drop(struct ci_names *names, struct ci_question *question)
{
    if (--question->holders)
        return;
    if (question->cares)
        ci_cares->free(question->cares, names->allocator);
    ci_free(names->allocator, question, question->size);
}

/* It is not found any more. */
static void unlist(struct ci_names *names, struct ci_question *question)
{
    if (ci_list_empty(&question->link))
        return;
    ci_list_remove(&question->link);
    if (question->answered) {
        ci_list_remove(&question->used);
        names->kept--;
    }
    ci_question_drop(names, question);
}

/* No answer is kept. What is being asked is told to those who wait, and not kept either. */
static void forget_all(struct ci_names *names)
{
    for (size_t i = 0; i < BUCKETS; i++)
        while (!ci_list_empty(&names->buckets[i]))
            unlist(names, ci_container_of(names->buckets[i].next, struct ci_question, link));
}

static size_t bucket_of(const char *host, int family)
{
    uint32_t hash = 2166136261u ^ (uint32_t)family;
    for (; *host; host++)
        hash = (hash ^ (*(const uint8_t *)host | 32)) * 16777619u; /* in either case */
    return (hash ^ hash >> 16) % BUCKETS;
}

static struct ci_question *find(struct ci_names *names, const char *host, int family, coir_time now)
{
    ci_list_for_each (node, &names->buckets[bucket_of(host, family)]) {
        struct ci_question *question = ci_container_of(node, struct ci_question, link);
        if (question->family != family || strcasecmp(question->host, host) != 0)
            continue;
        if (!question->answered || now < question->expires)
            return question;
        unlist(names, question);
        return NULL;
    }
    return NULL;
}

static struct ci_question *add(struct ci_names *names, const char *host, int family)
{
    size_t len = strlen(host), size = sizeof(struct ci_question) + len + 1;
    struct ci_question *question = ci_alloc_zero(names->allocator, size);
    if (!question)
        return NULL;
    question->size = size;
    question->family = family;
    question->holders = 1;
    memcpy(question->host, host, len + 1);
    ci_list_init(&question->used);
    ci_list_init(&question->queued);
    ci_list_init(&question->waiting);
    ci_list_push(&names->buckets[bucket_of(host, family)], &question->link);
    return question;
}

static void keep(struct ci_names *names, struct ci_question *question)
{
    ci_list_push(&names->answers, &question->used);
    if (++names->kept > names->kept_max)
        unlist(names, ci_container_of(names->answers.next, struct ci_question, used));
}

/* ---- those who wait, under the lock ---- */

static void on_told(struct ci_message *message)
{
    struct ci_lookup *lookup = ci_container_of(message, struct ci_lookup, message);
    lookup->wait.result = 0;
    ci_wake(lookup->worker, lookup->runnable, &lookup->wait);
}

static void tell(struct ci_names *names, struct ci_lookup *lookup)
{
    ci_list_remove(&lookup->link);
    lookup->told = true;
    if (!lookup->runnable)
        return; /* it has not begun to wait */
    lookup->message.deliver = on_told;
    /* it ends under the lock, so not before this has returned */
    ci_loop_send(&lookup->worker->loop, &lookup->message);
    /* after it was sent: deadlock.c 4 */
    names->awaited -= lookup->question->asker == CI_ASKED_OF_THREADS;
}

void ci_question_answer(struct ci_names *names, struct ci_question *question, int error,
                        const struct ci_ips *ips, coir_time now, coir_time ttl)
{
    /* other errors tell nothing about the name */
    bool lasting = error == 0 || error == -COIR_ENAME;
    if (!lasting && ttl > failure_time)
        ttl = failure_time;
    question->error = error;
    if (error == 0)
        question->ips = *ips;
    question->expires = ci_time_after(now, ttl);
    if (!ci_list_empty(&question->link) && ttl > 0)
        keep(names, question);
    else
        unlist(names, question);
    question->answered = true;
    while (!ci_list_empty(&question->waiting))
        tell(names, ci_container_of(question->waiting.next, struct ci_lookup, link));
}

/* Somebody who waited, or led, has left. */
static void leave(struct ci_names *names, struct ci_lookup *lookup)
{
    struct ci_question *question = lookup->question;
    bool alone = ci_list_empty(&question->waiting);
    if (question->answered) {
        /* nobody is left to be told */
    } else if (lookup->leads && !alone) {
        struct ci_lookup *next = ci_container_of(question->waiting.next, struct ci_lookup, link);
        next->leads = true;
        tell(names, next);
    } else if (lookup->leads || (alone && !ci_list_empty(&question->queued))) {
        unlist(names, question);
        ci_name_threads_withdraw(names, question);
    }
    ci_question_drop(names, question);
}

/* ---- the future ---- */

static coir_future *wait_poll(coir_future *future)
{
    struct ci_lookup *lookup = ci_container_of(future, struct ci_lookup, wait);
    struct ci_names *names = lookup->names;
    struct ci_worker *worker = ci_worker_current;
    if (ci_leaf_refused(worker, future))
        return future->caller;
    ci_mutex_lock(&names->lock);
    bool told = lookup->told;
    if (!told) {
        lookup->worker = worker;
        lookup->runnable = ci_leaf_suspend(worker, future);
        names->awaited += lookup->question->asker == CI_ASKED_OF_THREADS;
    }
    ci_mutex_unlock(&names->lock);
    return told ? ci_leaf_complete(worker, future) : NULL;
}

static int wait_cancel(coir_future *future, int reason)
{
    struct ci_lookup *lookup = ci_container_of(future, struct ci_lookup, wait);
    struct ci_names *names = lookup->names;
    ci_mutex_lock(&names->lock);
    bool withdrawn = !lookup->told;
    if (withdrawn) {
        lookup->runnable = NULL;
        names->awaited -= lookup->question->asker == CI_ASKED_OF_THREADS;
    }
    ci_mutex_unlock(&names->lock);
    if (withdrawn)
        future->result = reason;
    return withdrawn;
}

static const coir_future_kind wait_kind =
    COIR_FUTURE_KIND("the addresses of a name", wait_poll, wait_cancel);

/* Files that say what names mean are looked at once a second, while somebody asks. */
static void look_at_files(struct ci_names *names, coir_time now)
{
    if (names->stamp_time && now < ci_time_after(names->stamp_time, stamp_interval))
        return;
    uint64_t stamp = ci_sys_lookup_stamp();
    if (names->stamp_time && stamp != names->stamp)
        forget_all(names);
    names->stamp = stamp;
    names->stamp_time = now;
}

/* A question that is new: who asks it? */
static void begin_asking(struct ci_names *names, struct ci_lookup *lookup,
                         const struct ci_question *known)
{
    struct ci_question *question = lookup->question;
    int rc = 0;
    lookup->leads = known || names->by_cares;
    if (known) {
        question->error = known->error;
        question->ips = known->ips;
        question->due = known->due;
    } else if (names->by_cares) {
        question->asker = CI_ASKED_OF_CARES;
        rc = ci_cares->start(names->allocator, names->servers, question->host, question->family,
                             &question->cares);
    } else {
        question->asker = CI_ASKED_OF_THREADS;
        rc = ci_name_threads_ask(names, question);
    }
    if (rc == 0)
        return;
    lookup->leads = false;
    lookup->told = true;
    ci_question_answer(names, question, rc, NULL, ci_worker_current->loop.now, 0);
}

/* With the lock held: finds or begins the question, and takes part in it. */
static int join(struct ci_names *names, struct ci_lookup *lookup, const struct ci_question *known)
{
    struct ci_worker *worker = ci_worker_current;
    coir_time now = ci_loop_update_now(&worker->loop);
    if (!worker->runtime->simulated)
        look_at_files(names, now);
    struct ci_question *question = find(names, lookup->host, lookup->family, now);
    bool fresh = !question;
    if (fresh && !(question = add(names, lookup->host, lookup->family)))
        return -ENOMEM;
    lookup->question = question;
    question->holders++;
    if (question->answered) {
        ci_list_remove(&question->used);
        ci_list_push(&names->answers, &question->used);
        lookup->told = true;
        return 0;
    }
    if (fresh) {
        begin_asking(names, lookup, known);
        if (lookup->leads || lookup->told)
            return 0;
    }
    ci_list_push(&question->waiting, &lookup->link);
    return 0;
}

/* True: the answer is in `lookup` without any waiting. */
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
    ci_mutex_lock(&names->lock);
    lookup->result = join(names, lookup, is_known ? &known : NULL);
    ci_mutex_unlock(&names->lock);
    return lookup->result < 0;
}

/* The question has been answered, or this one gives up. */
static int end(struct ci_lookup *lookup, int interrupted)
{
    struct ci_names *names = lookup->names;
    struct ci_question *question = lookup->question;
    ci_mutex_lock(&names->lock);
    if (!lookup->told)
        ci_list_remove(&lookup->link);
    lookup->result = interrupted ? interrupted : question->error;
    if (lookup->result == 0)
        lookup->ips = question->ips;
    leave(names, lookup);
    ci_mutex_unlock(&names->lock);
    return lookup->result;
}

/* What a leader waits for. */
static coir_future *ask(struct ci_lookup *lookup)
{
    struct ci_question *question = lookup->question;
    if (question->asker == CI_ASKED_OF_CARES)
        return ci_cares->ask(question->cares);
    return coir_sleep_until_op((coir_sleep_op *)(void *)&lookup->pause, question->due);
}

/* The world, or a name server, has answered. */
static void pass_on(struct ci_lookup *lookup)
{
    struct ci_names *names = lookup->names;
    struct ci_question *question = lookup->question;
    struct ci_cares_answer answer = {question->error, question->ips, COIR_NEVER};
    if (question->asker == CI_ASKED_OF_CARES)
        answer = *ci_cares->answer(question->cares);
    coir_time ttl = answer.ttl == COIR_NEVER ? names->keep_time : answer.ttl;
    ci_mutex_lock(&names->lock);
    ci_question_answer(names, question, answer.error, &answer.ips,
                       ci_loop_update_now(&ci_worker_current->loop), ttl);
    ci_mutex_unlock(&names->lock);
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
    if (self->leads) {
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
