/* See partial.h. */
#include "web/partial.h"

#include <string.h>

#include "base/check.h"

/* Behind it lie the parser's state, with the fields that it has found, and the bytes. */
struct ci_http_partial {
    coir_time deadline; /* for the end of the head */
    size_t head_size, len;
    char memory[];
};

/* What follows the last field that was found is not initialised, and is not kept. */
_Static_assert(sizeof(struct ci_http1_head) - offsetof(struct ci_http1_head, fields) -
                       CI_HTTP1_FIELDS * sizeof(struct ci_http1_field) <
                   _Alignof(struct ci_http1_head),
               "the fields are last");

static const coir_allocator *allocator_of(const struct ci_http_connection *connection)
{
    return &connection->server->http->worker->runtime->allocator;
}

size_t ci_http_partial_size(size_t head_max)
{
    return sizeof(struct ci_http_partial) + sizeof(struct ci_http1_head) + head_max;
}

/* Memory of that size; in fixed memory there is one size, for few connections. */
static struct ci_http_partial *take(const struct ci_http_connection *connection, size_t size)
{
    struct ci_http_fixed *fixed = &connection->server->fixed;
    if (!fixed->on)
        return ci_alloc(allocator_of(connection), size);
    return size <= fixed->partials.object_size ? ci_pool_take(&fixed->partials) : NULL;
}

/* The order in memory: the head without the fields that were not found, then the bytes. */
bool ci_http_partial_save(struct ci_exchange *exchange, coir_time deadline)
{
    struct ci_http_connection *connection = exchange->connection;
    const struct ci_http1_head *head = &exchange->head;
    ci_check(!connection->partial, "partial.h 1");
    size_t head_size =
        offsetof(struct ci_http1_head, fields) + head->field_count * sizeof head->fields[0];
    size_t len = exchange->in.end - exchange->in.start;
    struct ci_http_partial *partial = take(connection, sizeof *partial + head_size + len);
    if (!partial)
        return false;
    *partial = (struct ci_http_partial){deadline, head_size, len};
    memcpy(partial->memory, head, head_size);
    memcpy(partial->memory + head_size, ci_http_input_request(&exchange->in), len);
    connection->partial = partial;
    return true;
}

coir_time ci_http_partial_restore(struct ci_exchange *exchange)
{
    struct ci_http_partial *partial = exchange->connection->partial;
    coir_time deadline = partial->deadline;
    memcpy(&exchange->head, partial->memory, partial->head_size);
    memcpy(exchange->in.bytes, partial->memory + partial->head_size, partial->len);
    exchange->in.start = 0;
    exchange->in.end = partial->len;
    ci_http_partial_drop(exchange->connection);
    return deadline;
}

coir_time ci_http_partial_deadline(const struct ci_http_connection *connection)
{
    return connection->partial->deadline;
}

void ci_http_partial_drop(struct ci_http_connection *connection)
{
    struct ci_http_partial *partial = connection->partial;
    connection->partial = NULL;
    if (partial && connection->server->fixed.on)
        ci_pool_give(&connection->server->fixed.partials, partial);
    else
        ci_free(allocator_of(connection), partial,
                partial ? sizeof *partial + partial->head_size + partial->len : 0);
}
