/* A head of which only a part has come: what it holds, and no stack and no buffers. The parser goes on where it was. */
#include <string.h>

#include "web/http.h"

/* Behind it lie the parser's state, with the fields that it has found, and the bytes. */
struct ci_http_partial {
    coir_time deadline; /* for the end of the head */
    size_t head_size, len;
    char memory[];
};

enum { FIELDS_AT = offsetof(struct ci_http1_head, fields), BEHIND_FIELDS = offsetof(struct ci_http1_head, line) };
static const size_t behind_size = sizeof(struct ci_http1_head) - BEHIND_FIELDS;

static const coir_allocator *allocator_of(const struct ci_http_connection *connection)
{
    return &connection->server->http->worker->runtime->allocator;
}

bool ci_http_partial_save(struct ci_exchange *exchange, coir_time deadline)
{
    struct ci_http_connection *connection = exchange->connection;
    const char *head = (const char *)&exchange->head;
    size_t front = FIELDS_AT + exchange->head.field_count * sizeof(struct ci_http1_field), head_size = front + behind_size;
    size_t len = exchange->in_len - exchange->in_start;
    struct ci_http_partial *partial = ci_alloc(allocator_of(connection), sizeof *partial + head_size + len);
    if (!partial)
        return false;
    *partial = (struct ci_http_partial){deadline, head_size, len};
    memcpy(partial->memory, head, front);
    memcpy(partial->memory + front, head + BEHIND_FIELDS, behind_size);
    memcpy(partial->memory + head_size, exchange->in + exchange->in_start, len);
    connection->partial = partial;
    return true;
}

coir_time ci_http_partial_restore(struct ci_exchange *exchange)
{
    struct ci_http_partial *partial = exchange->connection->partial;
    char *head = (char *)&exchange->head;
    coir_time deadline = partial->deadline;
    size_t front = partial->head_size - behind_size;
    memcpy(head, partial->memory, front);
    memcpy(head + BEHIND_FIELDS, partial->memory + front, behind_size);
    memcpy(exchange->in, partial->memory + partial->head_size, partial->len);
    exchange->in_start = 0;
    exchange->in_len = partial->len;
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
    if (partial)
        ci_free(allocator_of(connection), partial, sizeof *partial + partial->head_size + partial->len);
}
