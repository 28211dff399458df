/* Threads that look up names by getaddrinfo(3). A thread is started when a question is queued, none
 * is idle and fewer than name_threads_max exist; it ends after some idle time (`idle_most`).
 *
 * 1. getaddrinfo(3) cannot be cancelled, and nothing waits for a thread that is in it. So the name
 *    lies on the thread's own stack. `question` is set until the runtime ends, and NULL afterwards:
 *    the answer is dropped then.
 */
#include "io/name_threads.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/time.h"
#include "io/io.h"
#include "sys/clock.h"

static const coir_time idle_most = 10 * COIR_S;

/* A lookup in progress, on the thread's stack. */
struct asking {
    struct ci_list link;
    struct ci_question *question; /* NULL: the runtime has ended */
    int family;
    char host[CI_HOST_SIZE];
};

static void ask(struct ci_names *names, struct ci_question *question)
{
    struct asking asking = {.question = question, .family = question->family};
    struct ci_ips ips;
    memcpy(asking.host, question->host, strlen(question->host) + 1);
    ci_list_push(&names->asking, &asking.link);
    ci_names_unlock(names);
    int rc = ci_sys_lookup(asking.host, asking.family, &ips);
    ci_names_lock(names);
    ci_check(names->closed == !asking.question, "name_threads.c 1");
    if (!asking.question)
        return;
    ci_list_remove(&asking.link);
    ci_question_answer(names, question, rc, &ips, ci_clock_now(), names->keep_time);
    ci_question_drop(names, question);
}

/* Waits until a question is queued. False: the thread must end, because none came within
 * `idle_most` or because the runtime has ended. */
static bool wait_for_question(struct ci_names *names)
{
    coir_time until = ci_time_after(ci_clock_now(), idle_most);
    int rc = 0;
    names->idle++;
    while (ci_list_empty(&names->queue) && !names->closed && rc != -ETIMEDOUT)
        rc = ci_names_wait(names, &names->work, until);
    names->idle--;
    return !ci_list_empty(&names->queue) && !names->closed;
}

static void *thread_main(void *arg)
{
    struct ci_names *names = arg;
    ci_names_lock(names);
    while (!names->closed) {
        struct ci_list *node = ci_list_pop(&names->queue);
        names->queued -= node != NULL;
        if (node)
            ask(names, ci_container_of(node, struct ci_question, queued));
        else if (!wait_for_question(names))
            break;
    }
    names->threads--;
    ci_condition_broadcast(&names->left);
    ci_names_unref(names);
    return NULL;
}

static int add_thread(struct ci_names *names)
{
    struct ci_thread thread;
    int rc = ci_thread_start(&thread, thread_main, names);
    if (rc < 0)
        return rc;
    ci_thread_detach(&thread);
    names->threads++;
    names->refs++;
    return 0;
}

int ci_name_threads_ask(struct ci_names *names, struct ci_question *question)
{
    int rc =
        names->queued >= names->idle && names->threads < names->threads_max ? add_thread(names) : 0;
    if (!names->threads)
        return rc; /* without a thread the question would never be asked */
    question->holders++;
    ci_list_push(&names->queue, &question->queued);
    names->queued++;
    if (names->idle)
        ci_condition_signal(&names->work);
    return 0;
}

void ci_name_threads_withdraw(struct ci_names *names, struct ci_question *question)
{
    if (ci_list_empty(&question->queued))
        return;
    ci_list_remove(&question->queued);
    names->queued--;
    ci_question_drop(names, question);
}

void ci_name_threads_close(struct ci_names *names)
{
    struct ci_list *node;
    size_t busy = 0;
    while (!ci_list_empty(&names->queue))
        ci_name_threads_withdraw(names,
                                 ci_container_of(names->queue.next, struct ci_question, queued));
    names->closed = true;
    while ((node = ci_list_pop(&names->asking))) {
        struct asking *asking = ci_container_of(node, struct asking, link);
        ci_question_drop(names, asking->question);
        asking->question = NULL;
        busy++;
    }
    ci_condition_broadcast(&names->work);
    while (names->threads > busy) /* the others are idle: they end at once */
        ci_names_wait(names, &names->left, COIR_NEVER);
}
