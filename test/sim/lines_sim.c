/* A protocol of lines, of parts with another delimiter, and of blocks with a length, between the
 * ends of a connection over the network or in memory. The hearer reads through a coir_reader whose
 * bound is often too small, gives up and tries again, and leaves early in some seeds.
 *
 * What must hold:
 * 1. Every record comes once, in its place, byte by byte, whatever was given up before.
 * 2. A line or part is refused as too large exactly if it has more bytes, with its delimiter, than
 *    the reader's bound, and nothing of it is lost then.
 * 3. A stream that ends within a record says so, and what there is of the record can be read.
 * 4. A second read beside one that waits is refused, and does not disturb it.
 * 5. Each end has the other's address. */
#include <coir.h>
#include <coir/reader.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { TALKERS = 3, TALKS = 2, RECORDS_MOST = 12, TEXT_MOST = 400, ADDRESS_MOST = 64 };
static const coir_time patience = 100 * COIR_S;
static const char greeting[] = "hello, world";

static coir_sim *sim;

static coir_time some_time(void)
{
    return (coir_time)below((uint64_t)(2 * COIR_MS) >> below(10));
}

/* ---- what is said: both ends know, from the script's number and the record's ---- */

enum kind { LINE, CRLF_LINE, PART, BLOCK, CUT, KINDS };

static const char *const delimiters[KINDS] = {"\n", "\r\n", ";;", "", ""};

struct script {
    uint64_t number;
    int records;
    bool ends_cut; /* in the middle of a line */
};

struct record {
    enum kind kind;
    size_t len; /* without its delimiter */
    char text[TEXT_MOST + 4];
};

static uint64_t mix(uint64_t number)
{
    number = (number ^ number >> 31) * 0x7fb5d329728ea185u;
    number = (number ^ number >> 27) * 0x81dadef4bc2dd44du;
    return number ^ number >> 33;
}

static struct script script_of(uint64_t number)
{
    uint64_t hash = mix(number);
    return (struct script){number, (int)(hash % RECORDS_MOST), hash >> 32 & 1};
}

static void make_record(struct record *record, const struct script *script, int index)
{
    uint64_t hash = mix(script->number + (uint64_t)index + 1);
    record->kind = index == script->records ? CUT : (enum kind)(hash % BLOCK + (hash >> 60 & 1));
    record->len = (size_t)(hash >> 8) % (TEXT_MOST >> (hash >> 32) % 8);
    record->len += record->kind == CUT;
    for (size_t i = 0; i < record->len; i++)
        record->text[i] = (char)('a' + (hash + i) % 26);
    memcpy(record->text + record->len, delimiters[record->kind], strlen(delimiters[record->kind]));
}

static size_t whole_len(const struct record *record)
{
    return record->len + strlen(delimiters[record->kind]);
}

/* ---- saying it ---- */

static int say(coir_stream *stream, char *text, size_t len)
{
    struct iovec pieces[3] = {
        {text, len / 3}, {text + len / 3, len / 2 - len / 3}, {text + len / 2, len - len / 2}};
    coir_io_all_op op;
    switch (below(4)) {
    case 0: return coir_write_all(stream, text, len);
    case 1: return coir_writev_all(stream, pieces, 3);
    case 2: return (int)coir_await(coir_write_all_op(&op, stream, text, len));
    default: return (int)coir_await(coir_writev_all_op(&op, stream, pieces, 3));
    }
}

static int say_record(coir_stream *stream, struct record *record)
{
    char count[24];
    int len = snprintf(count, sizeof count, "%zu\n", record->len);
    int rc = record->kind == BLOCK ? say(stream, count, (size_t)len) : 0;
    return rc < 0 ? rc : say(stream, record->text, whole_len(record));
}

/* The hearer may leave early. */
static int say_all(coir_stream *stream, uint64_t number)
{
    struct script script = script_of(number);
    char hello[sizeof greeting + sizeof number];
    memcpy(hello, greeting, sizeof greeting);
    memcpy(hello + sizeof greeting, &number, sizeof number);
    int rc = say(stream, hello, sizeof hello);
    char address[ADDRESS_MOST + 1] = "none";
    int len = coir_stream_local(stream, address, ADDRESS_MOST);
    MUST(len == -EOPNOTSUPP || len == (int)strlen(address));
    strcat(address, "\n");
    rc = rc < 0 ? rc : say(stream, address, strlen(address));
    for (int i = 0; rc == 0 && i < script.records + script.ends_cut; i++) {
        struct record record;
        make_record(&record, &script, i);
        rc = say_record(stream, &record);
        if (rc == 0 && below(4) == 0)
            rc = coir_sleep_for(some_time());
    }
    rc = rc < 0 ? rc : coir_shutdown_write(stream);
    MUST(rc == 0 || rc == -EPIPE || rc == -ECONNRESET || rc == -ENOTCONN);
    return rc;
}

/* ---- hearing it ---- */

struct hearer {
    coir_stream *stream;
    coir_reader *reader;
    size_t piece_max;
};

static int ask_once(struct hearer *hearer, enum kind kind, char **ret_text, size_t *ret_len)
{
    coir_reader *reader = hearer->reader;
    coir_reader_op op;
    COIR_DEADLINE(below(3) ? COIR_NEVER : coir_in(some_time()));
    if (kind == PART)
        return below(2) ? coir_reader_read_until(reader, ";;", ret_text, ret_len)
                        : (int)coir_await(
                              coir_reader_read_until_op(&op, reader, ";;", ret_text, ret_len));
    if (below(2))
        return coir_reader_read_line(reader, ret_text, ret_len);
    coir_case cases[] = {coir_case_line(reader, ret_text, ret_len), coir_case_after(some_time())};
    int won = coir_select(cases, 2);
    return won < 0 ? won : won ? -ETIME : (int)cases[0].result;
}

static int ask(struct hearer *hearer, enum kind kind, char **ret_text, size_t *ret_len)
{
    int rc;
    do
        rc = ask_once(hearer, kind, ret_text, ret_len);
    while (rc == -ETIME);
    return rc;
}

static void read_exactly(struct hearer *hearer, const char *want, size_t len)
{
    char bytes[TEXT_MOST];
    for (size_t at = 0; at < len;) {
        size_t most = 1 + below(len - at);
        ssize_t n = coir_reader_read(hearer->reader, bytes, most);
        MUST(n > 0 && (size_t)n <= most);
        MUST(memcmp(bytes, want + at, (size_t)n) == 0);
        at += (size_t)n;
    }
}

static void hear_block(struct hearer *hearer, const struct record *record)
{
    char *text;
    MUST_BE(ask(hearer, LINE, &text, NULL), 1);
    MUST_BE(strtoul(text, NULL, 10), record->len);
    read_exactly(hearer, record->text, record->len);
}

static void hear_piece(struct hearer *hearer, const struct record *record)
{
    char *text = NULL;
    size_t len;
    int rc = ask(hearer, record->kind, &text, &len);
    if (record->kind == CUT) {
        MUST_BE(rc, record->len >= hearer->piece_max ? -COIR_ETOOLARGE : -COIR_EEND);
        read_exactly(hearer, record->text, record->len);
        return;
    }
    if (whole_len(record) > hearer->piece_max) {
        MUST_BE(rc, -COIR_ETOOLARGE);
        read_exactly(hearer, record->text, whole_len(record));
        return;
    }
    MUST_BE(rc, 1);
    MUST(len == record->len && memcmp(text, record->text, len) == 0 && !text[len]);
}

static void hear_records(struct hearer *hearer, const struct script *script)
{
    char byte, *text;
    for (int i = 0; i < script->records + script->ends_cut; i++) {
        struct record record;
        make_record(&record, script, i);
        if (record.kind == BLOCK)
            hear_block(hearer, &record);
        else
            hear_piece(hearer, &record);
        if (below(6) == 0)
            coir_sleep_for(some_time());
    }
    MUST_BE(ask(hearer, LINE, &text, NULL), 0);
    MUST_BE(coir_reader_read(hearer->reader, &byte, 1), 0);
}

/* While this waits for the first line, a second task asks too. */
static void hear_address(struct hearer *hearer)
{
    char address[ADDRESS_MOST] = "none", *text;
    int rc = coir_stream_peer(hearer->stream, address, sizeof address);
    MUST(rc == -EOPNOTSUPP || rc == (int)strlen(address));
    char *line;
    coir_reader_op first;
    coir_branch branch = COIR_BRANCH(coir_reader_read_line_op(&first, hearer->reader, &text, NULL));
    coir_set set;
    coir_set_init(&set);
    MUST_BE(coir_set_add(&set, &branch), 0);
    if (coir_sleep_for(COIR_US) == 0 && !coir_branch_is_complete(&branch)) {
        rc = coir_reader_read_line(hearer->reader, &line, NULL);
        MUST_BE(rc, -EBUSY);
    }
    coir_branch *done;
    MUST_BE(coir_set_next(&set, &done), 1);
    MUST_BE(first.future.result, 1);
    MUST(strcmp(text, address) == 0);
    coir_set_done(&set);
}

static uint64_t hear_greeting(coir_stream *stream)
{
    char hello[sizeof greeting + sizeof(uint64_t)];
    uint64_t number;
    for (size_t at = 0, done = 0; at < sizeof hello; at += done) {
        coir_io_all_op op;
        COIR_DEADLINE(below(2) ? COIR_NEVER : coir_in(some_time()));
        int64_t rc =
            below(2)
                ? coir_read_full(stream, hello + at, sizeof hello - at, &done)
                : coir_await(coir_read_full_op(&op, stream, hello + at, sizeof hello - at, &done));
        MUST(rc == (int64_t)(sizeof hello - at) || rc == -ETIME);
    }
    MUST(memcmp(hello, greeting, sizeof greeting) == 0);
    memcpy(&number, hello + sizeof greeting, sizeof number);
    return number;
}

static int hear_all(coir_stream *stream)
{
    static const size_t bounds[] = {8, 64, 100, TEXT_MOST, 0};
    struct hearer hearer = {.stream = stream, .piece_max = bounds[below(5)]};
    struct script script = script_of(hear_greeting(stream));
    if (hearer.piece_max < ADDRESS_MOST && below(2) == 0)
        return 0; /* leaves */
    if (hearer.piece_max < ADDRESS_MOST)
        hearer.piece_max = ADDRESS_MOST;
    MUST_BE(coir_reader_new(stream, hearer.piece_max, &hearer.reader), 0);
    if (!hearer.piece_max)
        hearer.piece_max = 8192;
    hear_address(&hearer);
    hear_records(&hearer, &script);
    coir_reader_free(hearer.reader);
    return 0;
}

/* ---- over the network, and in memory ---- */

static int serve_one(coir_stream *stream, void *arg)
{
    (void)arg;
    return hear_all(stream);
}

static int serve(void *arg)
{
    return coir_serve_tcp("0.0.0.0:7", serve_one, arg);
}

struct end {
    coir_stream *stream;
    uint64_t number;
};

static int say_to_end(void *arg)
{
    const struct end *end = arg;
    say_all(end->stream, end->number);
    coir_close(end->stream);
    return 0;
}

static int talk_in_memory(uint64_t number)
{
    static const size_t capacities[] = {1, 16, 300, 0};
    struct end end = {.number = number};
    coir_stream *other;
    COIR_SCOPE(scope);
    MUST_BE(coir_duplex(capacities[below(4)], &end.stream, &other), 0);
    MUST_BE(coir_go(scope, say_to_end, &end), 0);
    int rc = hear_all(other);
    coir_close(other);
    return rc < 0 ? rc : coir_scope_wait(scope);
}

static int talk_over_network(uint64_t number)
{
    coir_stream *stream;
    char byte;
    int rc;
    while ((rc = coir_tcp_connect("server:7", &stream)) == -ECONNREFUSED)
        coir_sleep_for(COIR_MS);
    MUST_BE(rc, 0);
    rc = say_all(stream, number);
    if (rc == 0)
        rc = (int)coir_read(stream, &byte, 1);
    MUST(rc == 0 || rc == -EPIPE || rc == -ECONNRESET || rc == -ENOTCONN);
    coir_close(stream);
    return 0;
}

static int be_a_talker(void *arg)
{
    int rc = 0;
    (void)arg;
    for (int i = 0; rc == 0 && i < TALKS; i++) {
        uint64_t number = below(1 << 30);
        rc = below(3) ? talk_over_network(number) : talk_in_memory(number);
    }
    return rc;
}

static int be_everybody(void *arg)
{
    COIR_DEADLINE(coir_in(patience));
    COIR_SCOPE(scope);
    for (int i = 0; i < TALKERS; i++)
        MUST_BE(coir_go_anywhere(scope, be_a_talker, arg), 0);
    MUST_BE(coir_scope_wait(scope), 0);
    return 0;
}

static int stop_server(void *arg)
{
    coir_host *server = arg;
    COIR_DEADLINE(coir_in(patience));
    coir_sim_stop(sim, server);
    while (!coir_host_is_down(server))
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    return 0;
}

int scenario(coir_sim *of)
{
    sim = of;
    MUST_BE(chaos_configure(sim), 0);
    coir_host *server = coir_sim_host(sim, "server", serve, NULL);
    if (!server)
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = some_time(),
                              .jitter = some_time(),
                              .loss = below(3) ? 0 : 0.05,
                              .short_io = below(2) ? 0 : 0.5});
    int rc = coir_sim_host_main(sim, "talkers", be_everybody, NULL);
    return rc < 0 ? rc : coir_sim_host_main(sim, "fate", stop_server, server);
}
