/* The records of a request, read back by the oracle, whatever the sizes are. */
#include "web/fastcgi_output.h"

#include "fastcgi.h"

enum { PIECES = 60 };

static size_t sizes[PIECES];
static uint64_t state = 1;

struct half {
    coir_stream *stream;
    int variables;
};

static char value_byte(int variable, size_t at)
{
    return (char)('a' + ((size_t)variable + at) % 26);
}

static void flush(struct ci_fcgi_output *output)
{
    int rc;
    while ((rc = ci_fcgi_output_try_flush(output)) == -EAGAIN)
        CHECK(coir_stream_wait(output->stream, COIR_WRITE) > 0);
    CHECK_EQ(rc, 0);
}

static int send_request(void *arg)
{
    struct half *half = arg;
    struct ci_fcgi_output output;
    static unsigned char bytes[CI_HTTP_BUFFER];
    static char value[40000];
    ci_fcgi_output_init(&output, half->stream, COIR_S, bytes);
    ci_fcgi_output_begin(&output, true);
    for (int i = 0; i < half->variables; i++) {
        for (size_t at = 0; at < sizes[i]; at++)
            value[at] = value_byte(i, at);
        CHECK_EQ(ci_fcgi_output_variable(&output, "NAME", value, sizes[i]), 0);
    }
    CHECK_EQ(ci_fcgi_output_end_params(&output), 0);
    flush(&output);
    size_t room;
    memset(ci_fcgi_output_room(&output, &room), 'b', 1000);
    CHECK_EQ(room, CI_HTTP_BUFFER - 8);
    ci_fcgi_output_claim(&output, 1000);
    CHECK(!ci_fcgi_output_empty(&output));
    flush(&output);
    CHECK(output.sent && ci_fcgi_output_empty(&output));
    ci_fcgi_output_claim(&output, 0);
    flush(&output);
    return coir_shutdown_write(half->stream);
}

static void read_back(struct half *half, coir_stream *peer)
{
    static struct fcgi_request request;
    struct fcgi_pair pair;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, send_request, half), 0);
    CHECK_EQ(fcgi_accept(&request, peer), 0);
    CHECK(request.keeps);
    size_t at = 0;
    for (int i = 0; i < half->variables; i++) {
        CHECK(fcgi_pair(request.params, request.params_len, &at, &pair));
        CHECK(pair.value_len == sizes[i] && memcmp(pair.name, "NAME", 4) == 0);
        for (size_t j = 0; j < sizes[i]; j++)
            CHECK(pair.value[j] == (unsigned char)value_byte(i, j));
    }
    CHECK_EQ(at, request.params_len);
    CHECK(fcgi_read_body(&request) == 1000 && request.content[999] == 'b');
    CHECK(fcgi_read_body(&request) == 0 && request.ended);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST_SIM(requests_are_read_back)
{
    for (int round = 0; round < 400; round++) {
        coir_stream *a, *b;
        size_t total = 0;
        struct half half = {.variables = (int)(test_random(&state) % PIECES)};
        for (int i = 0; i < half.variables; i++) {
            sizes[i] = test_random(&state) % (round % 2 ? 300 : 9000);
            if (round % 7 == 0 && i == 0) /* around the end of the buffer */
                sizes[i] = CI_HTTP_BUFFER - 60 + test_random(&state) % 60;
            if ((total += sizes[i] + 13) > 49000)
                half.variables = i;
        }
        CHECK_EQ(coir_duplex(1 + test_random(&state) % 30000, &a, &b), 0);
        half.stream = a;
        read_back(&half, b);
        coir_close(a);
        coir_close(b);
    }
}

TEST_SIM(an_application_that_takes_nothing_is_not_waited_for_too_long)
{
    coir_stream *a, *b;
    struct ci_fcgi_output output;
    static unsigned char bytes[CI_HTTP_BUFFER];
    static char value[40000];
    CHECK_EQ(coir_duplex(100, &a, &b), 0);
    ci_fcgi_output_init(&output, a, COIR_S, bytes);
    ci_fcgi_output_begin(&output, false);
    coir_time start = coir_now();
    CHECK_EQ(ci_fcgi_output_variable(&output, "N", value, sizeof value), -ETIME);
    CHECK(coir_now() - start >= COIR_S && coir_now() - start < 2 * COIR_S);
    coir_close(b);
    CHECK(ci_fcgi_output_try_flush(&output) < 0);
    coir_close(a);
}
