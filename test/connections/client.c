/* A client: one connection after another, batch after batch. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connections/fuzz.h"

/* ---- what happened ---- */

static void note(struct client *client, char kind, long number, const char *bytes, size_t len)
{
    size_t last = client->event_count - 1;
    bool moves = kind == '<' || kind == '>';
    if (moves && client->event_count > 1 && client->events[last % EVENTS_KEPT].kind == kind &&
        client->events[(last - 1) % EVENTS_KEPT].kind == kind) { /* only the first is of interest */
        client->events[last % EVENTS_KEPT].number += number;
        return;
    }
    struct event *event = &client->events[client->event_count++ % EVENTS_KEPT];
    *event = (struct event){.time = time_now(), .kind = kind, .number = number};
    event->len = (uint8_t)(len < EVENT_BYTES ? len : EVENT_BYTES);
    if (event->len)
        memcpy(event->bytes, bytes, event->len);
}

void client_fail(struct client *client, const char *format, ...)
{
    if (*client->failure)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(client->failure, sizeof client->failure, format, args);
    va_end(args);
}

static void print_bytes(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] == '\r')
            printf("\\r");
        else if (bytes[i] == '\n')
            printf("\\n");
        else
            printf(bytes[i] < ' ' || bytes[i] > '~' ? "\\x%02x" : "%c", (unsigned char)bytes[i]);
}

static void print_event(const struct event *event, int64_t start)
{
    static const struct {
        char kind;
        const char *text;
    } texts[] = {
        {'+', "connects from port %ld"},
        {'B', "begins a batch of %ld bytes"},
        {'>', "sends %ld: "},
        {'<', "receives %ld: "},
        {'P', "pauses for %ld ms"},
        {'W', "waits for 100, of request %ld"},
        {'1', "has 100, of request %ld"},
        {'H', "half-closes after %ld bytes"},
        {'X', "resets after %ld bytes"},
        {'C', "closes after %ld bytes"},
        {'A', "has the answer to request %ld"},
        {'E', "sees the end (%ld)"},
        {'O', "is slow in %ld reads; SO_RCVBUF "},
        {'e', "cannot send: errno %ld"},
        {'L', "reads only after %ld ms"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].kind == event->kind) {
            printf("  %9.3f ms  ", (double)(event->time - start) / MILLISECOND);
            printf(texts[i].text, event->number);
        }
    print_bytes(event->bytes, event->len);
    printf("\n");
}

void client_print(const struct client *client)
{
    size_t count = client->event_count, from = count > EVENTS_KEPT ? count - EVENTS_KEPT : 0;
    printf(" client %d: %s\n", client->index, *client->failure ? client->failure : "no failure");
    for (size_t i = from; i < count; i++)
        print_event(&client->events[i % EVENTS_KEPT], client->events[from % EVENTS_KEPT].time);
    if (!client->active)
        return;
    printf("  sent %zu of %zu bytes, received %zu; the batch:\n", client->sent, client->batch.len,
           client->received);
    for (int i = 0; i < client->batch.count; i++) {
        const struct request *request = &client->batch.requests[i];
        size_t shown = request->head_end - request->from;
        printf("  %d%s (bytes %zu, %zu, %zu; to be answered %d): ", i,
               i < client->answering ? ", answered" : "", request->from, request->head_end,
               request->to, request->expect.status);
        print_bytes(client->batch.bytes + request->from, shown < 300 ? shown : 300);
        printf("\n");
    }
}

/* ---- a connection ---- */

void client_init(struct client *client, int index, int port, uint64_t seed)
{
    *client = (struct client){.index = index, .port = port, .fd = -1};
    struct ci_random of_all = {seed};
    client->random.state = ci_random_next(&of_all) + (uint64_t)index * 0x100000001;
    client->events = calloc(EVENTS_KEPT, sizeof *client->events);
    if (!client->events)
        abort();
}

void client_free(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    free(client->batch.bytes);
    free(client->events);
}

static void set(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

/* How it reads, and what its socket can hold. */
static void choose_reading(struct client *client)
{
    static const int buffers[] = {4096, 8192, 32768}, segments[] = {536, 1448, 8192};
    static const size_t reads[] = {100, 997, 4096, 16384};
    struct ci_random *random = &client->random;
    client->read_max = 65536;
    client->read_pause = 0;
    client->reads_slowly = 0;
    int buffer = one_in(random, 3) ? buffers[below(random, 3)] : 0;
    int segment = one_in(random, 6) ? segments[below(random, 3)] : 0;
    if (buffer)
        set(client->fd, SOL_SOCKET, SO_RCVBUF, buffer);
    if (segment)
        set(client->fd, IPPROTO_TCP, TCP_MAXSEG, segment);
    client->small = buffer || segment;
    if (one_in(random, 3))
        client->read_max = reads[below(random, 4)];
    if (one_in(random, 4)) {
        client->read_pause = (int64_t)(1 + below(random, 8)) * MILLISECOND;
        client->reads_slowly = (int)(1 + below(random, 20));
    }
    char text[EVENT_BYTES];
    int len = snprintf(text, sizeof text, "%d, TCP_MAXSEG %d, reads %zu", buffer, segment,
                       client->read_max);
    note(client, 'O', client->reads_slowly, text, (size_t)len);
}

static void connect_it(struct client *client)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)client->port)};
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    choose_reading(client);
    set(client->fd, IPPROTO_TCP, TCP_NODELAY, 1);
    client->may_end = client->half_closed = false;
    if (connect(client->fd, (struct sockaddr *)&address, len) < 0)
        client_fail(client, "cannot connect: %s", strerror(errno));
    getsockname(client->fd, (struct sockaddr *)&address, &len);
    client->connections++;
    note(client, '+', ntohs(address.sin_port), NULL, 0);
}

static void disconnect(struct client *client)
{
    close(client->fd);
    client->fd = -1;
    client->active = false;
}

static void reset(struct client *client)
{
    struct linger linger = {1, 0};
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    note(client, 'X', (long)client->sent, NULL, 0);
    disconnect(client);
}

void client_leave(struct client *client)
{
    if (client->fd < 0)
        return;
    if (one_in(&client->random, 3))
        reset(client);
    else
        disconnect(client);
}

/* ---- a batch ---- */

void client_begin(struct client *client)
{
    if (client->fd < 0)
        connect_it(client);
    batch_make(&client->batch, &client->random);
    note(client, 'B', (long)client->batch.len, NULL, 0);
    client->active = true;
    client->sent = client->received = 0;
    client->action = client->answering = 0;
    client->send_time = client->read_time = 0;
    client->waiting = -1;
    client->send_over = client->end_due = false;
    client->answer = (struct answer){0};
    client->progress = time_now();
    if (one_in(&client->random, 4)) {
        long late = (long)(1 + below(&client->random, 30));
        client->read_time = client->progress + late * MILLISECOND;
        note(client, 'L', late, NULL, 0);
    }
}

static bool all_sent(const struct client *client)
{
    return client->send_over ||
           (client->sent == client->batch.len && client->action == client->batch.action_count);
}

static bool can_send(const struct client *client)
{
    return client->active && client->waiting < 0 && !all_sent(client);
}

/* All answers have come: is that all? */
static void look_for_end(struct client *client)
{
    if (!client->active || client->answering < client->batch.count)
        return;
    if (client->batch.closed)
        client->end_due = true;
    if (!client->end_due && all_sent(client))
        client->active = false;
}

const char *client_due(const struct client *client)
{
    if (!client->active)
        return NULL;
    if (client->end_due)
        return "the end of the connection is due";
    if (client->waiting >= 0)
        return "100 Continue, or an answer, is due";
    if (client->answering < client->batch.count &&
        (client->half_closed || client->sent >= client->batch.requests[client->answering].to))
        return "an answer is due";
    if (can_send(client))
        return "the server does not take what is sent";
    return client->send_over ? "the rest of what was refused is due"
                             : "nothing is due (a defect of the fuzzer)";
}

short client_wants(const struct client *client, int64_t now)
{
    short events = 0;
    if (client->fd < 0)
        return 0;
    if (client->read_time <= now)
        events |= POLLIN;
    if (can_send(client) && client->send_time <= now)
        events |= POLLOUT;
    return events;
}

int64_t client_next(const struct client *client, int64_t now)
{
    int64_t next = INT64_MAX;
    if (can_send(client) && client->send_time > now)
        next = client->send_time;
    if (client->read_time > now && client->read_time < next)
        next = client->read_time;
    return next;
}

/* ---- sending ---- */

static void act(struct client *client, const struct action *action, int64_t now)
{
    client->action++;
    switch (action->kind) {
    case PAUSE:
        note(client, 'P', action->ms, NULL, 0);
        client->send_time = now + (int64_t)action->ms * MILLISECOND;
        return;
    case WAIT_CONTINUE:
        if (client->answering > action->request || client->answer.said_continue)
            return;
        note(client, 'W', action->request, NULL, 0);
        client->waiting = action->request;
        return;
    case HALF_CLOSE:
        note(client, 'H', (long)client->sent, NULL, 0);
        shutdown(client->fd, SHUT_WR);
        client->send_over = client->half_closed = true;
        return;
    case CLOSE:
        note(client, 'C', (long)client->sent, NULL, 0);
        disconnect(client);
        return;
    case RESET: reset(client); return;
    }
}

static void send_some(struct client *client, int64_t now)
{
    const struct batch *batch = &client->batch;
    client->send_time = 0;
    const struct action *action =
        client->action < batch->action_count ? &batch->actions[client->action] : NULL;
    client->progress = now;
    if (action && action->at <= client->sent) {
        act(client, action, now);
        look_for_end(client);
        return;
    }
    size_t len = (action ? action->at : batch->len) - client->sent;
    if (len > batch->piece_max)
        len = batch->piece_max;
    ssize_t n = send(client->fd, batch->bytes + client->sent, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n < 0) { /* what the server has said before that is still to be read */
        note(client, 'e', errno, NULL, 0);
        client->send_over = true;
        client->waiting = -1;
        return;
    }
    note(client, '>', n, batch->bytes + client->sent, (size_t)n);
    client->sent += (size_t)n;
    look_for_end(client);
}

/* ---- receiving ---- */

/* The final answer came instead of the 100: the body is not sent. */
static void give_up_body(struct client *client)
{
    client->waiting = -1;
    client->send_over = true;
    client->batch.count = client->answering;
    if (!client->answer.close)
        shutdown(client->fd, SHUT_WR);
    client->end_due = true;
}

static void answered(struct client *client)
{
    const struct expect *expect = &client->batch.requests[client->answering].expect;
    note(client, 'A', client->answering, NULL, 0);
    client->answered++;
    client->answering++;
    client->may_end |= expect->may_end;
    if (client->waiting == client->answering - 1)
        give_up_body(client);
    if (client->answer.close) {
        client->batch.count = client->answering;
        client->end_due = true;
        client->send_over |= one_in(&client->random, 2);
    }
    client->answer = (struct answer){0};
    look_for_end(client);
}

static void take(struct client *client, const char *bytes, size_t len)
{
    while (len && !*client->failure) {
        size_t used;
        const char *error;
        if (!client->active || client->answering >= client->batch.count) {
            client_fail(client, "%zu bytes that were not asked for", len);
            return;
        }
        const struct expect *expect = &client->batch.requests[client->answering].expect;
        enum took took = answer_take(&client->answer, expect, bytes, len, &used, &error);
        bytes += used;
        len -= used;
        if (took == TOOK_WRONG) {
            client_fail(client,
                        "the answer to request %d (status %d, not %d?) is wrong at byte %zu of its "
                        "body: %s",
                        client->answering, client->answer.status, expect->status,
                        client->answer.body_len, error);
        } else if (took == TOOK_CONTINUE) {
            note(client, '1', client->answering, NULL, 0);
            if (client->waiting == client->answering)
                client->waiting = -1;
        } else if (took == TOOK_ALL) {
            answered(client);
        }
    }
}

/* The connection has ended. */
static void end(struct client *client, int error)
{
    note(client, 'E', error, NULL, 0);
    bool between = !client->answer.state && !client->answer.head_len;
    bool due = client->active ? client->end_due : false;
    if (client->active && !due && client->answering < client->batch.count) {
        const struct expect *expect = &client->batch.requests[client->answering].expect;
        const char *wrong = answer_end(&client->answer, expect);
        if (wrong && !(between && client->may_end))
            client_fail(client, "%s, request %d", wrong, client->answering);
        else if (error && !expect->loose)
            client_fail(client, "reset instead of the end, in the answer to request %d",
                        client->answering);
        else if (!wrong && !expect->loose)
            client->answered++;
    } else if (!due && !client->may_end) {
        client_fail(client, "the connection ended without a reason");
    } else if (error) {
        client_fail(client, "reset instead of the end");
    }
    disconnect(client);
}

static void receive_some(struct client *client, int64_t now)
{
    static char bytes[65536];
    ssize_t n = recv(client->fd, bytes, client->read_max, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    client->progress = now;
    client->read_time = 0;
    if (n <= 0) {
        end(client, n < 0 ? errno : 0);
        return;
    }
    note(client, '<', n, bytes, (size_t)n);
    client->received += (size_t)n;
    take(client, bytes, (size_t)n);
    if (client->reads_slowly && client->fd >= 0) {
        client->reads_slowly--;
        client->read_time = now + client->read_pause;
    }
    size_t limit = client->batch.reset_after;
    if (limit && client->active && client->received >= limit)
        reset(client);
}

void client_ready(struct client *client, short events, int64_t now)
{
    if (events & (POLLIN | POLLHUP | POLLERR) && client->read_time <= now)
        receive_some(client, now);
    if (client->fd >= 0 && events & POLLOUT && can_send(client) && client->send_time <= now)
        send_some(client, now);
}
