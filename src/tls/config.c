/* coir_tls: what all connections of one side share, and its reload. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "coir/offload.h"
#include "tls/tls.h"

/* ---- the configuration ---- */

static int make(const coir_tls_options *options, bool server, coir_tls **ret_tls, const char *call,
                const void *place)
{
    if (!ret_tls)
        return ci_misused(-EINVAL, "ret_tls is NULL", call, place);
    coir_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return -ENOMEM;
    int rc = ci_tls_host_new(NULL, options, server, &tls->hosts);
    if (rc < 0) {
        free(tls);
        return rc;
    }
    tls->refs = 1;
    tls->server = server;
    pthread_mutex_init(&tls->lock, NULL);
    for (int i = 0; i < CI_PACES; i++) {
        tls->paces[i] = (coir_semaphore)COIR_SEMAPHORE_INIT(CI_STEPS_A_ROUND);
        tls->signers[i] = (coir_semaphore)COIR_SEMAPHORE_INIT(CI_SIGNERS);
    }
    *ret_tls = tls;
    return 0;
}

int coir_tls_client_new(const coir_tls_options *options, coir_tls **ret_tls)
{
    return make(options, false, ret_tls, CI_CALL, CI_PLACE);
}

int coir_tls_server_new(const coir_tls_options *options, coir_tls **ret_tls)
{
    return make(options, true, ret_tls, CI_CALL, CI_PLACE);
}

/* Puts a host in front of the others, if the server may still get one. */
static int add_host(coir_tls *server, struct ci_tls_host *host)
{
    int rc = 0;
    pthread_mutex_lock(&server->lock);
    for (const struct ci_tls_host *other = server->hosts; rc == 0 && other->name;
         other = other->next)
        rc = ci_ascii_same(other->name, host->name) ? -EEXIST : 0;
    if (server->used)
        rc = -EBUSY;
    if (rc == 0) {
        host->next = server->hosts;
        server->hosts = host;
    }
    pthread_mutex_unlock(&server->lock);
    return rc;
}

int coir_tls_server_add_host(coir_tls *server, const char *name, const coir_tls_options *options)
{
    if (!server || !server->server || !name || !*name)
        return CI_MISUSE(-EINVAL, "server is NULL or a client's, or host is NULL or empty");
    if (!ci_tls_is_host_name(strncmp(name, "*.", 2) == 0 ? name + 2 : name))
        return -EINVAL; /* no client's name would match it */
    struct ci_tls_host *host;
    int rc = ci_tls_host_new(name, options, true, &host);
    if (rc < 0)
        return rc;
    if ((rc = add_host(server, host)) < 0)
        ci_tls_host_free(host);
    return rc == -EBUSY ? CI_MISUSE(rc, "server is used already: add its hosts first") : rc;
}

coir_tls *coir_tls_ref(coir_tls *tls)
{
    if (CI_REFUSED(!tls, "tls is NULL"))
        return NULL;
    pthread_mutex_lock(&tls->lock);
    tls->refs++;
    pthread_mutex_unlock(&tls->lock);
    return tls;
}

static void free_config(coir_tls *tls)
{
    ci_check(!tls->refs && !tls->connections, "tls.h 1");
    while (tls->hosts) {
        struct ci_tls_host *host = tls->hosts;
        tls->hosts = host->next;
        ci_tls_host_free(host);
    }
    ci_sessions_drop(tls);
    ci_tls_wipe_tickets(tls);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

/* Gives one of `*count` back. False: there was none. */
static bool give_back(coir_tls *tls, int *count)
{
    pthread_mutex_lock(&tls->lock);
    bool had = *count > 0;
    *count -= had;
    bool last = had && !tls->refs && !tls->connections;
    pthread_mutex_unlock(&tls->lock);
    if (last)
        free_config(tls);
    return had;
}

void coir_tls_unref(coir_tls *tls)
{
    if (tls && !give_back(tls, &tls->refs))
        (void)CI_MISUSE(-EINVAL, "it was given back as often as it was taken; connections use it");
}

void ci_tls_hold(coir_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    tls->connections++;
    tls->used = true;
    pthread_mutex_unlock(&tls->lock);
}

void ci_tls_release(coir_tls *tls)
{
    ci_check(give_back(tls, &tls->connections), "tls.h 1");
}

/* ---- reload ---- */

struct reload {
    coir_tls *tls;
    SSL_CTX **contexts; /* one for each host, in their order */
    size_t count;
    unsigned long number;
};

/* On a thread of the pool. */
static int read_files_again(void *arg)
{
    struct reload *reload = arg;
    for (struct ci_tls_host *host = reload->tls->hosts; host; host = host->next) {
        int rc = ci_tls_host_load(host, &reload->contexts[reload->count]);
        if (rc < 0)
            return rc;
        reload->count++;
    }
    return 0;
}

static void use(struct reload *reload)
{
    coir_tls *tls = reload->tls;
    struct ci_session *sessions = NULL;
    size_t i = 0;
    pthread_mutex_lock(&tls->lock);
    if (reload->number > tls->reloaded) { /* else newer files are in use */
        tls->reloaded = reload->number;
        for (struct ci_tls_host *host = tls->hosts; host; host = host->next, i++) {
            SSL_CTX *before = host->context;
            host->context = reload->contexts[i];
            reload->contexts[i] = before;
        }
        sessions = ci_sessions_take_all(tls); /* verified against what was trusted before */
    }
    pthread_mutex_unlock(&tls->lock);
    ci_sessions_free(sessions);
}

/* Its place among the reloads, in the order in which they began to read. */
static unsigned long next_number(coir_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    unsigned long number = ++tls->reloads;
    pthread_mutex_unlock(&tls->lock);
    return number;
}

int coir_tls_reload(coir_tls *tls)
{
    size_t count = 0;
    if (!tls)
        return CI_MISUSE(-EINVAL, "tls is NULL");
    ci_tls_hold(tls); /* from here on its hosts stay as they are */
    for (struct ci_tls_host *host = tls->hosts; host; host = host->next) {
        ci_check(!host->name == !host->next, "tls.h 2");
        count++;
    }
    struct reload reload = {tls, calloc(count, sizeof(SSL_CTX *)), 0, next_number(tls)};
    int rc = reload.contexts ? coir_offload(read_files_again, &reload) : -ENOMEM;
    if (rc == 0)
        use(&reload);
    for (size_t i = 0; i < reload.count; i++)
        SSL_CTX_free(reload.contexts[i]);
    free(reload.contexts);
    ci_tls_release(tls);
    return rc;
}
