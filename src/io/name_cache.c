/* The table of questions, with the answers that are kept: see name_cache.h. */
#include "io/name_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/check.h"
#include "base/time.h"
#include "io/io.h"
#include "io/name_cares.h"
#include "io/name_lookup.h"

enum { BUCKETS = 256 };
static const coir_time failure_time = 1 * COIR_S;

/* ---- the names of a runtime ---- */

void ci_names_lock(struct ci_names *names)
{
    ci_mutex_lock(&names->lock);
    names->locked = true;
}

void ci_names_unlock(struct ci_names *names)
{
    ci_check(names->locked, "name_cache.h 2");
    names->locked = false;
    ci_mutex_unlock(&names->lock);
}

int ci_names_wait(struct ci_names *names, struct ci_condition *condition, coir_time deadline)
{
    ci_check(names->locked, "name_cache.h 2");
    names->locked = false;
    int rc = ci_condition_wait(condition, &names->lock, deadline);
    names->locked = true;
    return rc;
}

void ci_names_unref(struct ci_names *names)
{
    bool last = --names->refs == 0;
    ci_check(!last || (names->closed && names->threads == 0), "name_cache.h 5");
    ci_names_unlock(names);
    if (!last)
        return;
    ci_condition_done(&names->work);
    ci_condition_done(&names->left);
    ci_mutex_done(&names->lock);
    free(names);
}

/* Allocated by the system's allocator: a thread may still use the names when the runtime, and with
 * it the program's allocator, is gone. */
struct ci_names *ci_names_new(coir_runtime *runtime)
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
    names->refs = 1;
    names->kept_max = runtime->config.name_cache_max;
    names->keep_time = runtime->config.name_cache_time;
    names->threads_max = runtime->config.name_threads_max;
    names->by_cares = runtime->config.resolver && strcmp(runtime->config.resolver, "c-ares") == 0;
    names->servers = runtime->config.name_servers;
    return names;
}

void ci_names_forget(struct ci_names *names)
{
    for (size_t i = 0; i < BUCKETS; i++)
        while (!ci_list_empty(&names->buckets[i]))
            ci_question_unlist(names,
                               ci_container_of(names->buckets[i].next, struct ci_question, link));
}

void ci_names_end(struct ci_names *names)
{
    ci_names_forget(names);
    ci_free(names->allocator, names->buckets, BUCKETS * sizeof *names->buckets);
    ci_names_unref(names);
}

/* ---- the table ---- */

void ci_question_drop(struct ci_names *names, struct ci_question *question)
{
    ci_check(names->locked, "name_cache.h 2");
    ci_check(question->holders > 0, "name_cache.h 4");
    if (--question->holders)
        return;
    ci_check(ci_list_empty(&question->link) && ci_list_empty(&question->queued) &&
                 ci_list_empty(&question->waiting),
             "name_cache.h 4");
    if (question->cares)
        ci_cares->free(question->cares, names->allocator);
    ci_free(names->allocator, question, question->size);
}

void ci_question_unlist(struct ci_names *names, struct ci_question *question)
{
    if (ci_list_empty(&question->link))
        return;
    ci_list_remove(&question->link);
    if (!ci_list_empty(&question->used)) {
        ci_list_remove(&question->used);
        names->kept--;
    }
    ci_question_drop(names, question);
}

/* FNV-1a, in lower case. */
static size_t bucket_of(const char *host, int family)
{
    uint32_t hash = 2166136261u ^ (uint32_t)family;
    for (; *host; host++)
        hash = (hash ^ (*(const uint8_t *)host | 32)) * 16777619u;
    return (hash ^ hash >> 16) % BUCKETS;
}

struct ci_question *ci_question_find(struct ci_names *names, const char *host, int family,
                                     coir_time now)
{
    ci_check(names->locked, "name_cache.h 2");
    ci_list_for_each (node, &names->buckets[bucket_of(host, family)]) {
        struct ci_question *question = ci_container_of(node, struct ci_question, link);
        if (question->family != family || !ci_ascii_same(question->host, host))
            continue;
        if (!question->answered || now < question->expires)
            return question;
        ci_question_unlist(names, question);
        return NULL;
    }
    return NULL;
}

struct ci_question *ci_question_add(struct ci_names *names, const char *host, int family)
{
    /* at time 0 no answer is too old */
    ci_debug_check(!ci_question_find(names, host, family, 0), "name_cache.h 1");
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

void ci_question_touch(struct ci_names *names, struct ci_question *question)
{
    ci_list_remove(&question->used);
    ci_list_push(&names->answers, &question->used);
}

/* ---- answers ---- */

static void keep(struct ci_names *names, struct ci_question *question)
{
    ci_list_push(&names->answers, &question->used);
    if (++names->kept > names->kept_max)
        ci_question_unlist(names, ci_container_of(names->answers.next, struct ci_question, used));
}

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
        return; /* not suspended yet: it looks at `told` before it suspends */
    lookup->message.deliver = on_told;
    /* The task ends its lookup under the lock, so the record lives until this returns. */
    ci_loop_send(&lookup->worker->loop, &lookup->message);
    /* After the message was sent: deadlock.c looks at possible senders before it looks at
     * inboxes. */
    names->awaited -= lookup->question->asker == CI_ASKED_OF_THREADS;
}

void ci_question_answer(struct ci_names *names, struct ci_question *question, int error,
                        const struct ci_ips *ips, coir_time now, coir_time ttl)
{
    ci_check(names->locked, "name_cache.h 2");
    ci_check(!question->answered, "name_cache.h 4");
    /* Of the errors only COIR_ENAME says something about the name. A name server that has failed is
     * left alone for `failure_time`; the others, as shortages, are of this moment. */
    if (error == -COIR_ENAMESERVER && ttl > failure_time)
        ttl = failure_time;
    else if (error < 0 && error != -COIR_ENAMESERVER && error != -COIR_ENAME)
        ttl = 0;
    question->error = error;
    if (error == 0)
        question->ips = *ips;
    question->expires = ci_time_after(now, ttl);
    question->answered = true;
    if (!ci_list_empty(&question->link) && ttl > 0)
        keep(names, question);
    else
        ci_question_unlist(names, question);
    while (!ci_list_empty(&question->waiting))
        tell(names, ci_container_of(question->waiting.next, struct ci_lookup, link));
}

void ci_question_pass(struct ci_names *names, struct ci_question *question)
{
    question->leader = NULL;
    if (ci_list_empty(&question->waiting))
        return;
    struct ci_lookup *next = ci_container_of(question->waiting.next, struct ci_lookup, link);
    question->leader = next;
    next->leads = true;
    tell(names, next);
}

void ci_question_check(const struct ci_question *question)
{
    bool is_asked = question->leader || question->asker == CI_ASKED_OF_THREADS;
    bool is_found = !ci_list_empty(&question->link) || !ci_list_empty(&question->waiting);
    ci_check(question->answered || is_asked || !is_found, "name_cache.h 3");
}
