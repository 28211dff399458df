/* Buffered readers: against a model that splits the same bytes at once; what ends, is too long, is
 * cancelled, or loses a select. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static coir_stream *far, *near;

static void open_pair(void)
{
    CHECK_EQ(coir_duplex(0, &far, &near), 0);
}

static void close_pair(void)
{
    coir_close(far);
    coir_close(near);
}

static void put(const char *text)
{
    CHECK_EQ(coir_write_all(far, text, strlen(text)), 0);
}

static void expect_line(coir_reader *reader, const char *text)
{
    char *line;
    size_t len;
    CHECK_EQ(coir_reader_read_line(reader, &line, &len), 1);
    CHECK(len == strlen(text) && memcmp(line, text, len + 1) == 0);
}

static void read_pieces(void)
{
    coir_reader *reader;
    char *piece;
    size_t len;
    char buf[16];
    open_pair();
    CHECK_EQ(coir_reader_new(near, 8, &reader), 0);
    put("one\r\ntwo\n\n\r\n1234567\n");
    expect_line(reader, "one");
    expect_line(reader, "two");
    expect_line(reader, "");
    expect_line(reader, "");
    expect_line(reader, "1234567"); /* 8 bytes with its end: just not too long */
    put("a--b----c");
    CHECK_EQ(coir_reader_read_until(reader, "--", &piece, &len), 1);
    CHECK(len == 1 && piece[0] == 'a');
    CHECK_EQ(coir_reader_read_until(reader, "", &piece, &len), -EINVAL);
    CHECK_EQ(coir_reader_read_until(reader, "---", &piece, &len), 1);
    CHECK(len == 1 && piece[0] == 'b');
    CHECK_EQ(coir_reader_read(reader, buf, 1), 1);
    CHECK(buf[0] == '-');
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_reader_read_line(reader, &piece, &len), -ETIME);
    }
    put("d\n12345678\n"); /* "c" was not lost */
    expect_line(reader, "cd");
    CHECK_EQ(coir_reader_read_line(reader, &piece, &len), -COIR_ETOOLARGE);
    CHECK_EQ(coir_reader_read_line(reader, &piece, &len), -COIR_ETOOLARGE);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), 8);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), 1);
    put("\nrest");
    CHECK_EQ(coir_shutdown_write(far), 0);
    expect_line(reader, "");
    CHECK_EQ(coir_reader_read_line(reader, &piece, &len), -COIR_EEND);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), 4);
    CHECK_EQ(coir_reader_read_line(reader, &piece, &len), 0);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), 0);
    coir_reader_free(reader);
    coir_reader_free(NULL);
    close_pair();
}

TEST_SIM(pieces_end_at_their_delimiter)
{
    read_pieces();
}

/* ---- any bytes, in any portions ---- */

enum { TEXT = 20000 };
static char text[TEXT + 1];

static int write_in_portions(void *arg)
{
    for (size_t at = 0, n; at < TEXT; at += n) {
        n = 1 + (size_t)rand() % 700;
        n = n < TEXT - at ? n : TEXT - at;
        int rc = coir_write_all(arg, text + at, n);
        if (rc < 0)
            return rc;
        if (rand() % 2)
            coir_yield();
    }
    return coir_shutdown_write(arg);
}

static void read_like_the_model(void)
{
    static const char *const delimiters[] = {"ab", "aab", "b"};
    coir_reader *reader;
    char *piece;
    size_t len;
    for (size_t i = 0; i < TEXT; i++)
        text[i] = "ab"[rand() % 100 == 0 || (i > TEXT / 2 && rand() % 3 == 0)];
    open_pair();
    CHECK_EQ(coir_reader_new(near, 4000, &reader), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, write_in_portions, far), 0);
    const char *rest = text, *found;
    for (int i = 0;; i++) {
        const char *delimiter = delimiters[rand() % 3];
        int rc = coir_reader_read_until(reader, delimiter, &piece, &len);
        if (!(found = strstr(rest, delimiter))) {
            CHECK_EQ(rc, *rest ? -COIR_EEND : 0);
            break;
        }
        CHECK_EQ(rc, 1);
        CHECK(len == (size_t)(found - rest) && memcmp(piece, rest, len) == 0);
        rest = found + strlen(delimiter);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_reader_free(reader);
    close_pair();
}

TEST(any_bytes_in_any_portions)
{
    for (unsigned seed = 1; seed <= 50; seed++) {
        srand(seed);
        test_in_sim(read_like_the_model, 1, seed);
    }
}

/* ---- select ---- */

enum { ROUNDS = 100 };

/* Both cases can happen from the same moment on. */
static int offer_both(void *channel)
{
    char number[16];
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(number, sizeof number, "%d\n", i);
        put(number);
        CHECK_EQ(coir_channel_try_send(channel, &i), 0);
        coir_sleep_for(COIR_US);
    }
    return 0;
}

static void lose_and_win(void)
{
    coir_reader *reader;
    coir_channel *channel;
    char *line;
    int item = 0, lines = 0, items = 0;
    open_pair();
    CHECK_EQ(coir_reader_new(near, 0, &reader), 0);
    CHECK_EQ(coir_channel_new(sizeof item, ROUNDS, &channel), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, offer_both, channel), 0);
    while (lines + items < 2 * ROUNDS) {
        coir_case cases[] = {coir_case_line(reader, &line, NULL), coir_case_recv(channel, &item)};
        switch (coir_select(cases, 2)) {
        case 0:
            CHECK_EQ(cases[0].result, 1);
            CHECK_EQ(atoi(line), lines++);
            break;
        default: CHECK_EQ(item, items++);
        }
    }
    CHECK_EQ(lines, ROUNDS); /* each once, in order, whichever case lost */
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_channel_free(channel);
    coir_reader_free(reader);
    close_pair();
}

TEST(a_line_that_loses_a_select_stays)
{
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(lose_and_win, 1, seed);
}

/* ---- one at a time ---- */

static int interfere(void *reader)
{
    char buf[4];
    char *line;
    CHECK_EQ(coir_reader_read_line(reader, &line, NULL), -EBUSY);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), -EBUSY);
    put(" of a line\n");
    return 0;
}

static void read_beside_another(void)
{
    coir_reader *reader;
    open_pair();
    CHECK_EQ(coir_reader_new(near, 0, &reader), 0);
    put("part");
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, interfere, reader), 0);
    expect_line(reader, "part of a line");
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_reader_free(reader);
    close_pair();
}

TEST_SIM(a_second_task_finds_it_busy)
{
    read_beside_another();
}

/* ---- as futures, and wrong arguments ---- */

static void read_from_two(void)
{
    coir_stream *others[2];
    coir_reader *line_reader, *piece_reader;
    coir_reader_op line_op, piece_op;
    char *line, *piece;
    size_t line_len, piece_len;
    open_pair();
    CHECK_EQ(coir_duplex(0, &others[0], &others[1]), 0);
    CHECK_EQ(coir_reader_new(near, 0, &line_reader), 0);
    CHECK_EQ(coir_reader_new(others[1], 0, &piece_reader), 0);
    put("line\r\n");
    CHECK_EQ(coir_write_all(others[0], "piece\r;", 7), 0);
    coir_branch branches[] = {
        COIR_BRANCH(coir_reader_read_line_op(&line_op, line_reader, &line, &line_len)),
        COIR_BRANCH(coir_reader_read_until_op(&piece_op, piece_reader, ";", &piece, &piece_len)),
    };
    CHECK_EQ(coir_join_all(branches, 2, 0), 0);
    CHECK(line_op.future.result == 1 && line_len == 4 && strcmp(line, "line") == 0);
    /* only a line loses a carriage return */
    CHECK(piece_op.future.result == 1 && piece_len == 6 && strcmp(piece, "piece\r") == 0);
    CHECK_EQ(coir_await(coir_reader_read_until_op(&piece_op, piece_reader, NULL, &piece, NULL)),
             -EINVAL);
    CHECK_EQ(coir_await(coir_reader_read_line_op(&line_op, line_reader, NULL, NULL)), -EINVAL);
    coir_reader_free(line_reader);
    coir_reader_free(piece_reader);
    coir_close(others[0]);
    coir_close(others[1]);
    close_pair();
}

TEST_SIM(two_readers_are_awaited_together)
{
    read_from_two();
}

static void ask_for_nonsense(void)
{
    coir_reader *reader;
    char *line;
    char buf[4];
    open_pair();
    CHECK_EQ(coir_reader_new(NULL, 0, &reader), -EINVAL);
    CHECK_EQ(coir_reader_new(near, 0, NULL), -EINVAL);
    CHECK_EQ(coir_reader_new(near, 0, &reader), 0);
    CHECK_EQ(coir_reader_read_line(NULL, &line, NULL), -EINVAL);
    CHECK_EQ(coir_reader_read_line(reader, NULL, NULL), -EINVAL);
    CHECK_EQ(coir_reader_read_until(reader, NULL, &line, NULL), -EINVAL);
    CHECK_EQ(coir_reader_read(NULL, buf, sizeof buf), -EINVAL);
    CHECK_EQ(coir_reader_read(reader, NULL, sizeof buf), -EINVAL);
    coir_reader_free(reader);
    close_pair();
}

TEST_SIM(wrong_arguments_are_refused)
{
    ask_for_nonsense();
}

static int free_busy(void *reader)
{
    coir_reader_free(reader);
    put("after all\n");
    return 0;
}

static void free_beside_another(void)
{
    coir_reader *reader;
    open_pair();
    CHECK_EQ(coir_reader_new(near, 0, &reader), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, free_busy, reader), 0);
    expect_line(reader, "after all");
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_reader_free(reader);
    close_pair();
}

TEST_SIM(a_busy_reader_is_not_freed)
{
    free_beside_another();
}

/* ---- fairness ---- */

enum { LINES = 2000 };

static int count_turns(void *turns)
{
    while (coir_yield() == 0)
        ++*(int *)turns;
    return 0;
}

/* Lines that lie in the reader cost no operation of the stream, but let others run all the same. */
static void read_many_lines(void)
{
    static char lines[LINES];
    int turns = 0;
    coir_reader *reader;
    open_pair();
    CHECK_EQ(coir_reader_new(near, sizeof lines, &reader), 0);
    memset(lines, '\n', sizeof lines);
    CHECK_EQ(coir_write_all(far, lines, sizeof lines), 0);
    expect_line(reader, "");
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, count_turns, &turns), 0);
    for (int i = 1; i < LINES; i++)
        expect_line(reader, "");
    CHECK(turns >= 5);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    coir_reader_free(reader);
    close_pair();
}

TEST_SIM(many_lines_let_others_run)
{
    read_many_lines();
}

/* ---- while a call lets others run ---- */

static void (*with_budget)(void);

static int run_with_budget(void *arg)
{
    (void)arg;
    with_budget();
    return 0;
}

/* With a budget of one, every second line lets others run before it is taken. */
static void in_small_turns(void (*body)(void))
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.budget = 1;
    with_budget = body;
    CHECK_EQ(test_run(&config, run_with_budget, NULL), 0);
}

static int second_rc; /* of the call that let others run */

static int read_two(void *reader)
{
    char *line;
    expect_line(reader, "b");
    second_rc = 2;
    COIR_DEADLINE(coir_in(20 * COIR_MS));
    second_rc = coir_reader_read_line(reader, &line, NULL);
    CHECK(second_rc != 1 || strcmp(line, "part of it") == 0);
    return 0;
}

/* Returns while the second call of read_two waits for its turn. */
static void begin_turn(coir_scope *scope, const char *text_there, coir_reader **ret_reader)
{
    open_pair();
    CHECK_EQ(coir_reader_new(near, 0, ret_reader), 0);
    put(text_there);
    expect_line(*ret_reader, "a");
    CHECK_EQ(coir_go(scope, read_two, *ret_reader), 0);
    second_rc = 0;
    while (!second_rc)
        coir_yield();
    CHECK_EQ(second_rc, 2);
}

static void use_in_the_turn(void)
{
    coir_reader *reader;
    char *line, buf[8];
    COIR_SCOPE(scope);
    begin_turn(scope, "a\nb\npart", &reader);
    CHECK_EQ(coir_reader_read_line(reader, &line, NULL), -EBUSY);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), -EBUSY);
    CHECK_EQ(coir_read(near, buf, sizeof buf), -EBUSY);
    coir_reader_free(reader); /* refused, too */
    put(" of it\n");
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(second_rc, 1);
    coir_reader_free(reader);
    close_pair();
}

static void close_in_the_turn(void)
{
    coir_reader *reader;
    COIR_SCOPE(scope);
    begin_turn(scope, "a\nb\npart", &reader);
    coir_close(near);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(second_rc, -ECANCELED);
    coir_reader_free(reader);
    coir_close(far);
}

static void cancel_in_the_turn(void)
{
    coir_reader *reader;
    COIR_SCOPE(scope);
    begin_turn(scope, "a\nb\npart of it\n", &reader);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    CHECK_EQ(second_rc, -ECANCELED);
    expect_line(reader, "part of it"); /* nothing was taken */
    coir_reader_free(reader);
    close_pair();
}

static void time_out_in_the_turn(void)
{
    coir_reader *reader;
    COIR_SCOPE(scope);
    begin_turn(scope, "a\nb\npart", &reader);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(second_rc, -ETIME);
    put(" of it\n");
    expect_line(reader, "part of it");
    coir_reader_free(reader);
    close_pair();
}

TEST(a_reader_is_in_use_while_its_call_lets_others_run)
{
    in_small_turns(use_in_the_turn);
}

TEST(a_stream_may_be_closed_while_a_reader_lets_others_run)
{
    in_small_turns(close_in_the_turn);
}

TEST(a_line_that_is_given_up_in_its_turn_stays)
{
    in_small_turns(cancel_in_the_turn);
    in_small_turns(time_out_in_the_turn);
}

TEST(selects_of_lines_in_small_turns)
{
    in_small_turns(lose_and_win);
}
