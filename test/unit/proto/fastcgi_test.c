/* FastCGI: what is written is what the specification says, byte by byte; answers are read whole and
 * in pieces, and what breaks the protocol is refused. */
#include <stdlib.h>

#include "fastcgi_compare.h"
#include "harness.h"

TEST(records_are_written_as_the_specification_says)
{
    unsigned char at[100];
    static const unsigned char header[] = {1, 5, 0, 1, 0xff, 0xff, 0, 0},
                               begin[] = {1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0};
    CHECK(ci_fcgi_put_header(at, CI_FCGI_STDIN, 65535) == at + sizeof header);
    CHECK(memcmp(at, header, sizeof header) == 0);
    CHECK(ci_fcgi_put_begin(at, true) == at + CI_FCGI_BEGIN);
    CHECK(memcmp(at, begin, sizeof begin) == 0);
    ci_fcgi_put_begin(at, false);
    CHECK_EQ(at[10], 0);
}

TEST(lengths_of_pairs_are_read_back)
{
    static const size_t lengths[] = {0, 1, 127, 128, 129, 255, 256, 65535, 65536, 0x7fffffff};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            unsigned char bytes[CI_FCGI_LENGTHS_MAX];
            size_t want = lengths[i], other = lengths[j], got, at = 0;
            size_t len = (size_t)(ci_fcgi_put_lengths(bytes, want, other) - bytes);
            CHECK_EQ(len, (want < 128 ? 1u : 4u) + (other < 128 ? 1u : 4u));
            CHECK(fcgi_length(bytes, len, &at, &got) && got == want);
            CHECK(fcgi_length(bytes, len, &at, &got) && got == other && at == len);
        }
}

static unsigned char text[400000];
static size_t text_len;

static void add(int type, int id, const char *content, size_t padding)
{
    text_len += fcgi_record(text + text_len, type, id, content, strlen(content), padding);
}

static void add_end(uint32_t app_status, int status)
{
    text_len += fcgi_end(text + text_len, app_status, status);
}

static void compare(size_t step, size_t most)
{
    const char *wrong = compare_answers(text, text_len, step, most);
    if (wrong)
        test_fail(__FILE__, __LINE__, "%s (%zu bytes in steps of %zu, taken by %zu)", wrong,
                  text_len, step, most);
}

static void compare_everywhere(void)
{
    for (size_t step = 1; step <= text_len; step++)
        for (size_t most = 1; most < 9; most += 3)
            compare(step, most);
}

TEST(an_answer_is_read_however_it_is_cut)
{
    struct fcgi_told told;
    text_len = 0;
    add(6, 1, "Content-type: a/b\r\n\r\nhello", 7);
    add(7, 1, "a warning", 0);
    add(10, 0, "management", 3); /* of no request */
    add(6, 1, " world", 1);
    add(7, 1, "", 0);
    add(6, 1, "", 255);
    add(7, 1, "the last words", 0);
    add_end(0x01020304, CI_FCGI_COMPLETE);
    size_t whole = text_len;
    add(6, 1, "of the next answer", 0);
    compare_everywhere();
    told = read_in_pieces(text, text_len, 5, 3);
    CHECK(told.done && told.out == 32 && told.err == 23 && told.used == whole);
    CHECK(told.app_status == 0x01020304 && told.status == 0);
    for (text_len = 0; text_len < whole; text_len++) { /* one that ends too early is not done */
        told = read_in_pieces(text, text_len, 9, 9);
        CHECK(!told.done && !told.wrong);
    }
}

TEST(what_breaks_the_protocol_is_refused)
{
    static const struct {
        int version, type, id;
        size_t len;
        bool refused;
    } cases[] = {
        {1, 6, 1, 4, false},  {0, 6, 1, 4, true},   {2, 6, 1, 4, true},      {1, 6, 2, 4, true},
        {1, 6, 256, 4, true}, {1, 5, 1, 4, true},   {1, 0, 1, 4, true},      {1, 11, 1, 4, true},
        {1, 11, 0, 4, false}, {1, 77, 0, 4, false}, {1, 3, 1, 7, true},      {1, 3, 1, 8, false},
        {1, 3, 1, 20, false}, {1, 1, 1, 8, true},   {1, 7, 1, 65535, false}, {1, 8, 1, 1, true},
    };
    static unsigned char content[65535];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_len = fcgi_record(text, cases[i].type, cases[i].id, content, cases[i].len, 2);
        text[0] = (unsigned char)cases[i].version;
        struct fcgi_told told = read_in_pieces(text, text_len, 1000, 1000);
        if (told.wrong != cases[i].refused)
            test_fail(__FILE__, __LINE__, "type %d, id %d", cases[i].type, cases[i].id);
        compare(1, 1);
    }
    text_len = 0;
    add(6, 1, "a", 0);
    add(6, 1, "", 0);
    add(6, 1, "b", 0); /* behind the end of the stream */
    CHECK(read_in_pieces(text, text_len, 100, 100).wrong);
    for (int status = 0; status < 256; status++) {
        text_len = 0;
        add_end(0, status);
        struct fcgi_told told = read_in_pieces(text, text_len, 100, 100);
        CHECK(told.wrong == (status > 3) && (told.wrong || told.status == status));
    }
}

TEST(records_without_content_are_bounded)
{
    text_len = 0;
    for (int i = 0; i < CI_FCGI_EMPTY_MAX; i++)
        add(i % 2 ? 7 : 10, i % 2, "", 0);
    CHECK(!read_in_pieces(text, text_len, 100, 100).wrong);
    add(7, 1, "a", 0);
    CHECK(read_in_pieces(text, text_len, 100, 100).wrong);
    text_len -= 9;
    text_len -= 8;
    add(7, 1, "a", 0); /* begins a new count */
    for (int i = 0; i < CI_FCGI_EMPTY_MAX; i++)
        add(7, 1, "", 0);
    CHECK(!read_in_pieces(text, text_len, 100, 100).wrong);
}

TEST(random_answers_are_read_as_by_the_oracle)
{
    uint64_t random = 1;
    for (int round = 0; round < 3000; round++) {
        static const int types[] = {6, 6, 6, 7, 7, 10, 3, 5};
        char content[300];
        text_len = 0;
        for (int i = 0; i < 6; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            unsigned draw = (unsigned)(random >> 33);
            memset(content, 'a' + i, sizeof content);
            content[draw / 8 % 4 ? draw / 32 % 20 : draw / 32 % 299] = '\0';
            int type = types[draw % 8];
            if (type == 3)
                add_end(draw, (int)(draw >> 20 & 3));
            else
                add(type, type == 10 ? 0 : 1, content, draw >> 16 & 7);
        }
        compare(1 + (size_t)round % 23, 1 + (size_t)round % 11);
    }
}
