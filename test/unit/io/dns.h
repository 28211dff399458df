/* A name server that lies, in a thread of its own: UDP and TCP on one port of this machine. The
 * first word of a name says what it does with a question:
 *
 *   plain      answers
 *   here       answers 127.0.0.1 or ::1
 *   second     answers the second time, twice
 *   slow       answers after 300 ms
 *   stale      answers, and again after 30 ms, wrongly
 *   held       answers when dns_release is called
 *   wrongid    answers wrongly under another id first
 *   wrongname  answers wrongly for another name first
 *   cut        truncates, over UDP
 *   large      answers with 60 addresses in one datagram
 *   chain      answers with a chain of CNAMEs
 *   loop       answers with a loop of CNAMEs
 *   nx, fail   answers NXDOMAIN, SERVFAIL
 *   other      answers with an address of the other family
 *   garbage    sends bytes that are no answer
 *   brief      answers with a TTL of 0
 *   drop       never answers
 *   black      never answers for AAAA
 *
 * The right address is 192.0.2.1 or 2001:db8::1, the wrong one 192.0.2.66 or 2001:db8::66. */
#ifndef TEST_DNS_H
#define TEST_DNS_H

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "plain.h"

enum { DNS_A = 1, DNS_CNAME = 5, DNS_AAAA = 28, DNS_LATER_MAX = 256 };

struct dns_message {
    uint8_t bytes[2048];
    size_t len;
};

/* An answer that is sent later, over UDP. */
struct dns_later {
    struct dns_message message;
    struct sockaddr_in to;
    int64_t due; /* in ms; INT64_MAX: when it is released */
};

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    int udp, tcp, told[2]; /* told: a byte is 's' stop, 'r' release */
    char address[32];
    int asked[2], over_tcp; /* asked: A, AAAA; under the lock */
    int held;               /* under the lock */
    int seconds;            /* that "second" has heard of */
    bool released;
    struct dns_later later[DNS_LATER_MAX];
    size_t later_count;
} dns = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void dns_put16(struct dns_message *m, unsigned value)
{
    m->bytes[m->len++] = (uint8_t)(value >> 8);
    m->bytes[m->len++] = (uint8_t)value;
}

static void dns_put_name(struct dns_message *m, const char *name)
{
    while (*name) {
        size_t len = strcspn(name, ".");
        m->bytes[m->len++] = (uint8_t)len;
        memcpy(m->bytes + m->len, name, len);
        m->len += len;
        name += len + (name[len] == '.');
    }
    m->bytes[m->len++] = 0;
}

/* The question as text; its type; where it ends. */
static size_t dns_read_question(const struct dns_message *m, char *name, int *type)
{
    size_t at = 12, to = 0;
    while (m->bytes[at]) {
        memcpy(name + to, m->bytes + at + 1, m->bytes[at]);
        to += m->bytes[at];
        name[to++] = '.';
        at += 1u + m->bytes[at];
    }
    name[to ? to - 1 : 0] = '\0';
    *type = m->bytes[at + 1] << 8 | m->bytes[at + 2];
    return at + 5;
}

static void dns_count_answer(struct dns_message *m)
{
    m->bytes[7]++;
}

static void dns_add_address(struct dns_message *m, const char *owner, int type, int ttl,
                            uint8_t last)
{
    dns_put_name(m, owner);
    dns_put16(m, (unsigned)type);
    dns_put16(m, 1);
    dns_put16(m, 0);
    dns_put16(m, (unsigned)ttl);
    dns_put16(m, type == DNS_A ? 4 : 16);
    static const uint8_t four[4] = {192, 0, 2}, six[16] = {0x20, 1, 0xd, 0xb8};
    memcpy(m->bytes + m->len, type == DNS_A ? four : six, type == DNS_A ? 4 : 16);
    m->len += type == DNS_A ? 4 : 16;
    m->bytes[m->len - 1] = last;
    dns_count_answer(m);
}

/* The address that was added last. */
static void dns_make_loopback(struct dns_message *m, int type)
{
    static const uint8_t four[4] = {127, 0, 0, 1}, six[16] = {[15] = 1};
    size_t len = type == DNS_A ? 4 : 16;
    memcpy(m->bytes + m->len - len, type == DNS_A ? four : six, len);
}

static void dns_add_cname(struct dns_message *m, const char *owner, const char *target)
{
    dns_put_name(m, owner);
    dns_put16(m, DNS_CNAME);
    dns_put16(m, 1);
    dns_put16(m, 0);
    dns_put16(m, 60);
    dns_put16(m, (unsigned)strlen(target) + 2);
    dns_put_name(m, target);
    dns_count_answer(m);
}

/* An answer with nothing in it yet. */
static struct dns_message dns_begin(const struct dns_message *query, size_t end, int rcode)
{
    struct dns_message m;
    memset(&m, 0, sizeof m);
    memcpy(m.bytes, query->bytes, end);
    m.bytes[2] |= 0x80;
    m.bytes[3] = (uint8_t)(0x80 | rcode);
    memset(m.bytes + 6, 0, 6);
    m.len = end;
    return m;
}

static void dns_send(const struct dns_message *m, const struct sockaddr_in *to, int tcp)
{
    if (tcp < 0) {
        sendto(dns.udp, m->bytes, m->len, 0, (const struct sockaddr *)to, sizeof *to);
        return;
    }
    uint8_t head[2] = {(uint8_t)(m->len >> 8), (uint8_t)m->len};
    CHECK_EQ(send(tcp, head, 2, MSG_NOSIGNAL), 2);
    CHECK_EQ(send(tcp, m->bytes, m->len, MSG_NOSIGNAL), m->len);
}

/* ---- answers that come later ---- */

static int64_t dns_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void dns_send_later(const struct dns_message *m, const struct sockaddr_in *to, int64_t due)
{
    CHECK(to && dns.later_count < DNS_LATER_MAX);
    dns.later[dns.later_count++] = (struct dns_later){*m, *to, due};
    pthread_mutex_lock(&dns.lock);
    dns.held += due == INT64_MAX;
    pthread_mutex_unlock(&dns.lock);
}

/* Sends what is due. How long until the next, for poll(2). */
static int dns_send_due(void)
{
    int64_t now = dns_now(), next = INT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < dns.later_count; i++) {
        const struct dns_later *later = &dns.later[i];
        if (later->due <= now || (later->due == INT64_MAX && dns.released)) {
            dns_send(&later->message, &later->to, -1);
            continue;
        }
        next = later->due < next ? later->due : next;
        dns.later[kept++] = *later;
    }
    dns.later_count = kept;
    return next == INT64_MAX ? -1 : (int)(next - now);
}

/* ---- answering ---- */

static void dns_lie(const struct dns_message *query, size_t end, const char *how, const char *name,
                    int type, const struct sockaddr_in *to, int tcp)
{
    struct dns_message lie = dns_begin(query, end, 0);
    dns_add_address(&lie, name, type, 60, 0x66);
    if (strcmp(how, "stale") == 0) {
        dns_send_later(&lie, to, dns_now() + 30);
        return;
    }
    if (strcmp(how, "wrongid") == 0)
        lie.bytes[1] ^= 1;
    else
        lie.bytes[13] ^= 1; /* a letter of the question */
    dns_send(&lie, to, tcp);
}

static void dns_answer(const struct dns_message *query, const struct sockaddr_in *to, int tcp)
{
    char name[300], how[64];
    int type;
    size_t end = dns_read_question(query, name, &type);
    CHECK_EQ(sscanf(name, "%63[a-z]", how), 1);
    pthread_mutex_lock(&dns.lock);
    dns.asked[type == DNS_AAAA]++;
    dns.over_tcp += tcp >= 0;
    pthread_mutex_unlock(&dns.lock);
#define IS(word) (strcmp(how, word) == 0)
    if (IS("drop") || (IS("black") && type == DNS_AAAA) || (IS("second") && ++dns.seconds % 2 == 1))
        return;
    if (IS("wrongid") || IS("wrongname") || IS("stale"))
        dns_lie(query, end, how, name, type, to, tcp);
    struct dns_message m = dns_begin(query, end, IS("nx") ? 3 : IS("fail") ? 2 : 0);
    if (IS("garbage"))
        memset(m.bytes + 2, 0xff, m.len - 2);
    else if (IS("cut") && tcp < 0)
        m.bytes[2] |= 2;
    else if (IS("chain") || IS("loop")) {
        dns_add_cname(&m, name, "one.test");
        dns_add_cname(&m, "one.test", "two.test");
        dns_add_cname(&m, "two.test", IS("loop") ? name : "end.test");
        if (IS("chain"))
            dns_add_address(&m, "end.test", type, 60, 1);
    } else if (!IS("nx") && !IS("fail")) {
        int count = IS("large") ? 60 : IS("cut") ? 20 : 1;
        for (int i = 1; i <= count && m.len < sizeof m.bytes - 64; i++)
            dns_add_address(&m, name, IS("other") ? DNS_A + DNS_AAAA - type : type,
                            IS("brief") ? 0 : 60, (uint8_t)i);
        if (IS("here"))
            dns_make_loopback(&m, type);
    }
    if (IS("slow") || (IS("held") && !dns.released))
        dns_send_later(&m, to, IS("slow") ? dns_now() + 300 : INT64_MAX);
    else
        dns_send(&m, to, tcp);
    if (IS("second"))
        dns_send(&m, to, tcp);
#undef IS
}

static void dns_serve_tcp(void)
{
    struct dns_message query;
    uint8_t head[2];
    int fd = accept(dns.tcp, NULL, NULL);
    if (recv(fd, head, 2, MSG_WAITALL) == 2) {
        query.len = (size_t)head[0] << 8 | head[1];
        if (recv(fd, query.bytes, query.len, MSG_WAITALL) == (ssize_t)query.len)
            dns_answer(&query, NULL, fd);
    }
    close(fd);
}

/* Whether to go on. */
static bool dns_do_as_told(void)
{
    char what;
    CHECK_EQ(read(dns.told[0], &what, 1), 1);
    dns.released |= what == 'r';
    return what != 's';
}

static void *dns_main(void *arg)
{
    struct pollfd fds[] = {{dns.udp, POLLIN, 0}, {dns.tcp, POLLIN, 0}, {dns.told[0], POLLIN, 0}};
    (void)arg;
    while (poll(fds, 3, dns_send_due()) >= 0 && (!fds[2].revents || dns_do_as_told())) {
        struct dns_message query;
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        ssize_t n = fds[0].revents ? recvfrom(dns.udp, query.bytes, sizeof query.bytes, 0,
                                              (struct sockaddr *)&from, &len)
                                   : 0;
        query.len = (size_t)n;
        if (n > 12)
            dns_answer(&query, &from, -1);
        if (fds[1].revents)
            dns_serve_tcp();
    }
    return NULL;
}

/* At a port, or at one that is free in both protocols (0). */
static inline void dns_start_at(in_port_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int rc;
    do {
        at.sin_port = htons(port);
        dns.udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        dns.tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_EQ(bind(dns.udp, (struct sockaddr *)&at, sizeof at), 0);
        CHECK_EQ(getsockname(dns.udp, (struct sockaddr *)&at, &len), 0);
        if ((rc = bind(dns.tcp, (struct sockaddr *)&at, sizeof at)) < 0) {
            CHECK_EQ(port, 0);
            close(dns.udp);
            close(dns.tcp);
        }
    } while (rc < 0);
    CHECK_EQ(listen(dns.tcp, 64), 0);
    CHECK_EQ(pipe(dns.told), 0);
    snprintf(dns.address, sizeof dns.address, "127.0.0.1:%d", ntohs(at.sin_port));
    CHECK_EQ(pthread_create(&dns.thread, NULL, dns_main, NULL), 0);
}

static inline void dns_start(void)
{
    dns_start_at(0);
}

/* What is held is answered from now on. */
static inline void dns_release(void)
{
    CHECK_EQ(write(dns.told[1], "r", 1), 1);
}

static inline void dns_stop(void)
{
    CHECK_EQ(write(dns.told[1], "s", 1), 1);
    CHECK_EQ(pthread_join(dns.thread, NULL), 0);
    int fds[] = {dns.udp, dns.tcp, dns.told[0], dns.told[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
}

/* How many questions are being held. */
static inline int dns_held(void)
{
    pthread_mutex_lock(&dns.lock);
    int count = dns.held;
    pthread_mutex_unlock(&dns.lock);
    return count;
}

static inline int dns_asked(bool six)
{
    pthread_mutex_lock(&dns.lock);
    int count = dns.asked[six];
    pthread_mutex_unlock(&dns.lock);
    return count;
}

static inline int dns_asked_over_tcp(void)
{
    pthread_mutex_lock(&dns.lock);
    int count = dns.over_tcp;
    pthread_mutex_unlock(&dns.lock);
    return count;
}

#endif
