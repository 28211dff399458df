/* A client: one connection after another, batch after batch. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
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

static void on_note(struct dialog *dialog, char kind, long number)
{
    struct client *client = (struct client *)((char *)dialog - offsetof(struct client, dialog));
    note(client, kind, number, NULL, 0);
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
    printf(" client %d: %s\n", client->index,
           *client->dialog.failure ? client->dialog.failure : "no failure");
    for (size_t i = from; i < count; i++)
        print_event(&client->events[i % EVENTS_KEPT], client->events[from % EVENTS_KEPT].time);
    if (!client->dialog.active)
        return;
    printf("  sent %zu of %zu bytes, received %zu; the batch:\n", client->dialog.sent,
           client->dialog.batch.len, client->dialog.received);
    for (int i = 0; i < client->dialog.batch.count; i++) {
        const struct request *request = &client->dialog.batch.requests[i];
        size_t shown = request->head_end - request->from;
        printf("  %d%s (bytes %zu, %zu, %zu; to be answered %d): ", i,
               i < client->dialog.answering ? ", answered" : "", request->from, request->head_end,
               request->to, request->expect.status);
        print_bytes(client->dialog.batch.bytes + request->from, shown < 300 ? shown : 300);
        printf("\n");
    }
}

/* ---- a connection ---- */

void client_init(struct client *client, int index, int port, uint64_t seed)
{
    *client = (struct client){.index = index, .port = port, .fd = -1};
    struct ci_random of_all = {seed};
    client->random.state = ci_random_next(&of_all) + (uint64_t)index * 0x100000001;
    client->dialog.random = &client->random;
    client->dialog.on = on_note;
    client->events = calloc(EVENTS_KEPT, sizeof *client->events);
    if (!client->events)
        abort();
}

void client_free(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    free(client->dialog.batch.bytes);
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
    dialog_connected(&client->dialog);
    if (connect(client->fd, (struct sockaddr *)&address, len) < 0)
        dialog_fail(&client->dialog, "cannot connect: %s", strerror(errno));
    getsockname(client->fd, (struct sockaddr *)&address, &len);
    client->connections++;
    note(client, '+', ntohs(address.sin_port), NULL, 0);
}

static void disconnect(struct client *client)
{
    close(client->fd);
    client->fd = -1;
    client->dialog.active = false;
}

static void reset(struct client *client)
{
    struct linger linger = {1, 0};
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    note(client, 'X', (long)client->dialog.sent, NULL, 0);
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
    dialog_begin(&client->dialog);
    client->send_time = client->read_time = 0;
    client->progress = time_now();
    if (one_in(&client->random, 4)) {
        long late = (long)(1 + below(&client->random, 30));
        client->read_time = client->progress + late * MILLISECOND;
        note(client, 'L', late, NULL, 0);
    }
}

short client_wants(const struct client *client, int64_t now)
{
    short events = 0;
    if (client->fd < 0)
        return 0;
    if (client->read_time <= now)
        events |= POLLIN;
    if (dialog_can_send(&client->dialog) && client->send_time <= now)
        events |= POLLOUT;
    return events;
}

int64_t client_next(const struct client *client, int64_t now)
{
    int64_t next = INT64_MAX;
    if (dialog_can_send(&client->dialog) && client->send_time > now)
        next = client->send_time;
    if (client->read_time > now && client->read_time < next)
        next = client->read_time;
    return next;
}

/* ---- sending ---- */

static void act(struct client *client, const struct action *action, int64_t now)
{
    switch (action->kind) {
    case PAUSE:
        note(client, 'P', action->ms, NULL, 0);
        client->send_time = now + (int64_t)action->ms * MILLISECOND;
        return;
    case WAIT_CONTINUE: return;
    case HALF_CLOSE:
        note(client, 'H', (long)client->dialog.sent, NULL, 0);
        shutdown(client->fd, SHUT_WR);
        return;
    case CLOSE:
        note(client, 'C', (long)client->dialog.sent, NULL, 0);
        disconnect(client);
        return;
    case RESET: reset(client); return;
    }
}

static void send_some(struct client *client, int64_t now)
{
    struct dialog *dialog = &client->dialog;
    const char *bytes;
    size_t len;
    client->send_time = 0;
    client->progress = now;
    const struct action *action = dialog_next(dialog, &bytes, &len);
    if (action) {
        act(client, action, now);
        return;
    }
    ssize_t n = send(client->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n < 0) {
        note(client, 'e', errno, NULL, 0);
        dialog_cannot_send(dialog);
        return;
    }
    note(client, '>', n, bytes, (size_t)n);
    dialog_sent(dialog, (size_t)n);
}

/* ---- receiving ---- */

/* The connection has ended. */
static void end(struct client *client, int error)
{
    note(client, 'E', error, NULL, 0);
    dialog_end(&client->dialog, error != 0);
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
    dialog_take(&client->dialog, bytes, (size_t)n);
    if (client->dialog.half_close_due)
        shutdown(client->fd, SHUT_WR);
    client->dialog.half_close_due = false;
    if (client->reads_slowly && client->fd >= 0) {
        client->reads_slowly--;
        client->read_time = now + client->read_pause;
    }
    size_t limit = client->dialog.batch.reset_after;
    if (limit && client->dialog.active && client->dialog.received >= limit)
        reset(client);
}

void client_ready(struct client *client, short events, int64_t now)
{
    if (events & (POLLIN | POLLHUP | POLLERR) && client->read_time <= now)
        receive_some(client, now);
    if (client->fd >= 0 && events & POLLOUT && dialog_can_send(&client->dialog) &&
        client->send_time <= now)
        send_some(client, now);
}
