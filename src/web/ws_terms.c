/* The terms of connections: what was agreed on with most clients of a server is the same, and an
 * idle connection holds a pointer to it.
 *
 * 1. The newest terms stay while no connection has them; others do not.
 */
#include <string.h>

#include "web/ws.h"

/* How many are compared with what a new connection needs: more would cost more than they save. */
enum { LOOKED_AT = 8 };

static const coir_allocator *allocator_of(const struct ci_http_worker *http)
{
    return &http->messages.allocator;
}

static size_t size_of(size_t protocol_len)
{
    return sizeof(struct ci_ws_terms) + protocol_len + 1;
}

/* Zeroed; from the pool, unless the protocol's name is long. */
static struct ci_ws_terms *take_memory(struct ci_http_worker *http, size_t size)
{
    if (size > CI_WS_TERMS_SIZE)
        return ci_alloc_zero(allocator_of(http), size);
    struct ci_ws_terms *terms = ci_pool_take(&http->agreed);
    if (terms)
        memset(terms, 0, CI_WS_TERMS_SIZE);
    return terms;
}

static void give_memory(struct ci_http_worker *http, struct ci_ws_terms *terms, size_t size)
{
    if (size > CI_WS_TERMS_SIZE)
        ci_free(allocator_of(http), terms, size);
    else
        ci_pool_give(&http->agreed, terms);
}

static bool drops_frames(enum coir_overflow overflow)
{
    return overflow != COIR_OVERFLOW_WAIT && overflow != COIR_OVERFLOW_CLOSE;
}

static bool deflate_is_equal(const struct ci_ws_deflate *one, const struct ci_ws_deflate *other)
{
    return one->on == other->on && one->server_resets == other->server_resets &&
           one->client_resets == other->client_resets &&
           one->client_bits_known == other->client_bits_known &&
           one->server_bits == other->server_bits && one->client_bits == other->client_bits;
}

static bool limits_are_equal(const struct ci_ws_terms *terms, const coir_ws_options *options)
{
    return terms->items_max == options->items_max && terms->bytes_max == options->bytes_max &&
           terms->message_max == options->message_max && terms->overflow == options->overflow &&
           terms->ping_interval == options->ping_interval &&
           terms->ping_timeout == options->ping_timeout &&
           terms->close_timeout == options->close_timeout;
}

static bool are_for(const struct ci_ws_terms *terms, const struct ci_ws_agreed *agreed)
{
    return terms->client == agreed->client && terms->fn == agreed->fn &&
           terms->scope == agreed->scope && terms->places == agreed->places &&
           limits_are_equal(terms, agreed->options) &&
           deflate_is_equal(&terms->deflate, &agreed->deflate) &&
           terms->protocol_len == agreed->protocol_len &&
           memcmp(terms->protocol, agreed->protocol, agreed->protocol_len) == 0;
}

static struct ci_ws_terms *find(const struct ci_ws_agreed *agreed)
{
    int looks = 0;
    ci_list_for_each (node, &agreed->http->terms) {
        struct ci_ws_terms *terms = ci_container_of(node, struct ci_ws_terms, link);
        if (are_for(terms, agreed))
            return terms;
        if (++looks == LOOKED_AT)
            break;
    }
    return NULL;
}

static void drop(struct ci_ws_terms *terms)
{
    ci_list_remove(&terms->link);
    give_memory(terms->http, terms, size_of(terms->protocol_len));
}

static bool is_newest(const struct ci_ws_terms *terms)
{
    return terms->http->terms.next == &terms->link;
}

static void drop_newest_if_unused(struct ci_http_worker *http)
{
    struct ci_list *newest = http->terms.next;
    if (newest != &http->terms && !ci_container_of(newest, struct ci_ws_terms, link)->users)
        drop(ci_container_of(newest, struct ci_ws_terms, link));
}

static struct ci_ws_terms *make(const struct ci_ws_agreed *agreed)
{
    const coir_ws_options *options = agreed->options;
    struct ci_http_worker *http = agreed->http;
    struct ci_ws_terms *terms = take_memory(http, size_of(agreed->protocol_len));
    if (!terms)
        return NULL;
    terms->http = http;
    terms->scope = agreed->scope;
    terms->fn = agreed->fn;
    terms->places = agreed->places;
    terms->items_max = options->items_max;
    terms->bytes_max = options->bytes_max;
    terms->message_max = options->message_max;
    terms->ping_interval = options->ping_interval;
    terms->ping_timeout = options->ping_timeout;
    terms->close_timeout = options->close_timeout;
    terms->deflate = agreed->deflate;
    terms->overflow = (uint8_t)options->overflow;
    terms->drops_frames = drops_frames(options->overflow);
    terms->client = agreed->client;
    terms->protocol_len = agreed->protocol_len;
    if (agreed->protocol_len)
        memcpy(terms->protocol, agreed->protocol, agreed->protocol_len);
    drop_newest_if_unused(http);
    ci_list_insert_before(http->terms.next, &terms->link);
    return terms;
}

struct ci_ws_terms *ci_ws_terms_take(const struct ci_ws_agreed *agreed)
{
    struct ci_ws_terms *terms = find(agreed);
    if (!terms)
        terms = make(agreed);
    if (terms)
        terms->users++;
    return terms;
}

void ci_ws_terms_give(struct ci_ws_terms *terms)
{
    ci_check(terms->users > 0, "ws_terms.c 1");
    if (--terms->users == 0 && !is_newest(terms))
        drop(terms);
}

void ci_ws_terms_done(struct ci_http_worker *http)
{
    drop_newest_if_unused(http);
}
