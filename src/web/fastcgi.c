/* The client of a FastCGI application: its limits, its turns, and its kept connections. */
#include "web/fastcgi.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/time.h"
#include "coir/deadline.h"
#include "coir/fiber.h"
#include "coir/scope.h"
#include "io/io.h"
#include "task/current.h"
#include "task/runtime.h"
#include "web/worker.h"

enum { CONNECTIONS_MOST = 65536 };

/* ---- making and freeing ---- */

static bool are_variables(const char *const *variables)
{
    for (; variables && *variables; variables++)
        if (**variables == '=' || !strchr(*variables, '='))
            return false;
    return true;
}

static int read_options(coir_fastcgi_options *options, const coir_fastcgi_options *given)
{
    int rc = ci_options_read(options, sizeof *options, given);
    if (rc < 0)
        return rc;
    if (!options->address || options->connect_timeout < 0 || options->answer_timeout < 0 ||
        options->idle_timeout < 0 || options->connections_max > CONNECTIONS_MOST ||
        !are_variables(options->variables))
        return -EINVAL;
#define DEFAULT(field, value) options->field = options->field ? options->field : (value)
    DEFAULT(connections_max, 64);
    DEFAULT(connect_timeout, 10 * COIR_S);
    DEFAULT(answer_timeout, 60 * COIR_S);
    DEFAULT(idle_timeout, 10 * COIR_S);
    DEFAULT(chunked_max, 128 * 1024);
    DEFAULT(index, "index.php");
    DEFAULT(suffix, ".php");
#undef DEFAULT
    return 0;
}

static size_t size_of(const coir_fastcgi *client)
{
    return sizeof *client + client->options.connections_max * sizeof client->kept[0];
}

/* Drops the owner's reference, or the keeper's; the last one frees the memory. */
static void unref(coir_fastcgi *client)
{
    ci_lock_take(&client->lock);
    bool last = --client->references == 0;
    ci_lock_give(&client->lock);
    if (!last)
        return;
    coir_allocator allocator = client->allocator;
    for (struct ci_fcgi_site *site = client->sites, *next; site; site = next) {
        next = site->next;
        ci_free(&allocator, site, site->size);
    }
    ci_free(&allocator, client, size_of(client));
}

/* ---- kept connections ---- */

/* Takes the newest, which is the least likely to be closed; NULL: there is none. */
static coir_stream *pop_kept(coir_fastcgi *client)
{
    ci_lock_take(&client->lock);
    coir_stream *stream = client->kept_count ? client->kept[--client->kept_count].stream : NULL;
    ci_lock_give(&client->lock);
    ci_check(!stream || !client->shared || !stream->worker, "web/fastcgi.h 3");
    return stream;
}

/* Takes the oldest, if its time is over; otherwise *ret_until is when that is. */
static coir_stream *pop_old(coir_fastcgi *client, coir_time now, coir_time *ret_until)
{
    coir_stream *stream = NULL;
    *ret_until = COIR_NEVER;
    ci_lock_take(&client->lock);
    if (client->kept_count && (client->freed || client->kept[0].until <= now)) {
        stream = client->kept[0].stream;
        memmove(client->kept, client->kept + 1, --client->kept_count * sizeof client->kept[0]);
    } else if (client->kept_count) {
        *ret_until = client->kept[0].until;
    }
    ci_lock_give(&client->lock);
    return stream;
}

static coir_time close_old(coir_fastcgi *client)
{
    coir_time until, now = coir_now();
    for (coir_stream *stream; (stream = pop_old(client, now, &until));)
        coir_close(stream);
    return until;
}

static bool is_freed(coir_fastcgi *client)
{
    ci_lock_take(&client->lock);
    bool freed = client->freed;
    ci_lock_give(&client->lock);
    return freed;
}

/* The keeper: a task that closes connections which were kept for too long. */
static int keep(void *arg)
{
    coir_fastcgi *client = arg;
    int rc = 0;
    while (rc >= 0 && !is_freed(client)) {
        coir_event_reset(&client->changed); /* before the look at what is kept */
        coir_time until = close_old(client);
        coir_case waits[] = {coir_case_event(&client->changed), coir_case_at(until)};
        rc = is_freed(client) ? 0 : coir_select(waits, until == COIR_NEVER ? 1 : 2);
    }
    unref(client);
    return 0;
}

/* False: it is the caller's to close. */
static bool push_kept(coir_fastcgi *client, coir_stream *stream)
{
    if (client->options.one_request || (client->shared && coir_stream_detach(stream) < 0))
        return false;
    coir_time until = ci_time_after(coir_now(), client->options.idle_timeout);
    ci_lock_take(&client->lock);
    bool room = !client->freed && client->unheard == 0, first = room && client->kept_count == 0;
    ci_check(client->kept_count < client->options.connections_max, "web/fastcgi.h 1");
    if (room) {
        ci_check(client->unheard == 0, "web/fastcgi.h 2");
        client->kept[client->kept_count++] = (struct ci_fcgi_kept){stream, until};
    }
    ci_lock_give(&client->lock);
    if (first) /* the keeper waits for the oldest */
        coir_event_set(&client->changed);
    return room;
}

/* Whether a kept connection is still there: an application sends nothing of its own accord. */
static bool is_quiet(coir_stream *stream)
{
    char byte;
    return coir_try_read(stream, &byte, 1) == -EAGAIN;
}

/* ---- connections in use ---- */

static int take_turn(coir_fastcgi *client)
{
    int rc = coir_task_interrupted();
    if (rc < 0 || coir_semaphore_try_acquire(&client->turns, 1) == 0)
        return rc;
    COIR_DEADLINE_AS(turn, coir_in(client->options.connect_timeout));
    rc = coir_semaphore_acquire(&client->turns, 1);
    return rc == -ETIME && coir_deadline_passed(turn) ? -EAGAIN : rc;
}

static void count_unheard(coir_fastcgi *client, struct ci_fcgi_connection *connection, bool unheard)
{
    if (connection->unheard == unheard)
        return;
    connection->unheard = unheard;
    ci_lock_take(&client->lock);
    client->unheard += unheard ? 1 : (size_t)-1;
    ci_lock_give(&client->lock);
}

void ci_fcgi_heard(coir_fastcgi *client, struct ci_fcgi_connection *connection)
{
    count_unheard(client, connection, false);
}

static int connect_anew(coir_fastcgi *client, struct ci_fcgi_connection *connection)
{
    connection->reused = false;
    count_unheard(client, connection, true);
    COIR_DEADLINE(coir_in(client->options.connect_timeout));
    int rc = coir_tcp_connect(client->options.address, &connection->stream);
    if (rc < 0)
        count_unheard(client, connection, false);
    return rc;
}

static int connect_any(coir_fastcgi *client, struct ci_fcgi_connection *connection)
{
    for (coir_stream *kept; (kept = pop_kept(client));) {
        if (is_quiet(kept)) {
            *connection = (struct ci_fcgi_connection){kept, true, false};
            return 0;
        }
        coir_close(kept);
    }
    return connect_anew(client, connection);
}

int ci_fcgi_connect(coir_fastcgi *client, struct ci_fcgi_connection *connection)
{
    *connection = (struct ci_fcgi_connection){NULL, false, false};
    int rc = take_turn(client);
    if (rc < 0)
        return rc;
    if ((rc = connect_any(client, connection)) < 0)
        coir_semaphore_release(&client->turns, 1);
    return rc;
}

int ci_fcgi_reconnect(coir_fastcgi *client, struct ci_fcgi_connection *connection)
{
    coir_close(connection->stream);
    connection->stream = NULL;
    int rc = connect_anew(client, connection);
    if (rc < 0)
        coir_semaphore_release(&client->turns, 1);
    return rc;
}

void ci_fcgi_disconnect(coir_fastcgi *client, struct ci_fcgi_connection *connection, bool keeps)
{
    if (!connection->stream)
        return;
    count_unheard(client, connection, false);
    if (!keeps || !push_kept(client, connection->stream))
        coir_close(connection->stream);
    connection->stream = NULL;
    coir_semaphore_release(&client->turns, 1);
}

/* ---- the public calls ---- */

static int make(const coir_fastcgi_options *given, coir_fastcgi **ret_client)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ci_worker_current)
        return ci_no_worker();
    coir_fastcgi_options options = COIR_FASTCGI_OPTIONS;
    coir_allocator allocator = ci_worker_current->runtime->allocator;
    int rc = read_options(&options, given);
    if (rc == 0 && options.allocator)
        rc = ci_allocator_read(&allocator, options.allocator);
    if (rc < 0)
        return rc;
    size_t size = sizeof(coir_fastcgi) + options.connections_max * sizeof(struct ci_fcgi_kept);
    struct ci_http_worker *http = ci_http_worker_of(ci_worker_current);
    coir_fastcgi *client = http ? ci_alloc_zero(&allocator, size) : NULL;
    if (!client)
        return -ENOMEM;
    client->options = options;
    client->allocator = allocator;
    client->turns = (coir_semaphore)COIR_SEMAPHORE_INIT(options.connections_max);
    client->changed = (coir_event)COIR_EVENT_INIT;
    client->shared = ci_worker_current->runtime->worker_count > 1;
    client->references = 1;
    if (!options.one_request) {
        client->references++;
        if ((rc = coir_go(NULL, keep, client)) < 0) {
            ci_free(&allocator, client, size);
            return rc;
        }
    }
    client->counted_in = &http->fastcgi_max;
    ci_fetch_add(client->counted_in, options.connections_max);
    *ret_client = client;
    return 0;
}

int coir_fastcgi_new(const char *address, coir_fastcgi **ret_client)
{
    if (!address || !ret_client)
        return CI_MISUSE(-EINVAL, "address or ret_client is NULL");
    coir_fastcgi_options options = COIR_FASTCGI_OPTIONS;
    options.address = address;
    return make(&options, ret_client);
}

int coir_fastcgi_new_with(const coir_fastcgi_options *options, coir_fastcgi **ret_client)
{
    return options && ret_client ? make(options, ret_client)
                                 : CI_MISUSE(-EINVAL, "options or ret_client is NULL");
}

void coir_fastcgi_free(coir_fastcgi *client)
{
    if (!client || ci_forked())
        return;
    if (CI_REFUSED_AS(-ESRCH, !ci_worker_current, "it is freed on a worker") ||
        CI_REFUSED_AS(-EBUSY,
                      coir_semaphore_units(&client->turns) != client->options.connections_max,
                      "requests use it; end the server first"))
        return;
    ci_lock_take(&client->lock);
    client->freed = true;
    ci_lock_give(&client->lock);
    ci_fetch_sub(client->counted_in, client->options.connections_max);
    close_old(client);
    coir_event_set(&client->changed);
    unref(client);
}
