/* Buffered readers over files: on each driver, and simulated. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "sys/misuse.h"
#include "work_directory.h"

static coir_reader *reader;
static coir_file *file;
static int64_t end;

static void append(const char *text)
{
    CHECK_EQ(coir_file_write_all(file, text, strlen(text), end), 0);
    end += (int64_t)strlen(text);
}

static void open_reader(const char *text, int64_t offset, size_t piece_max)
{
    CHECK_EQ(coir_file_open_temporary(work, 0600, &file), 0);
    end = 0;
    append(text);
    CHECK_EQ(coir_reader_new_file(file, offset, piece_max, &reader), 0);
}

static void close_reader(void)
{
    coir_reader_free(reader);
    coir_file_close(file);
}

static void expect_line(const char *text)
{
    char *line;
    size_t len;
    CHECK_EQ(coir_reader_read_line(reader, &line, &len), 1);
    CHECK(len == strlen(text) && memcmp(line, text, len + 1) == 0);
}

static void read_to_the_end(void)
{
    char *piece, buf[16];
    size_t len;
    open_reader("passed over\none\r\n\ntwo;three\nrest", 12, 0);
    expect_line("one");
    expect_line("");
    CHECK_EQ(coir_reader_read_until(reader, ";", &piece, &len), 1);
    CHECK(len == 3 && strcmp(piece, "two") == 0);
    expect_line("three");
    CHECK_EQ(coir_reader_read_line(reader, &piece, &len), -COIR_EEND);
    append(" of it\nmore\n"); /* it can be read on */
    expect_line("rest of it");
    expect_line("more");
    CHECK_EQ(coir_reader_read_line(reader, &piece, &len), 0);
    append("abcdefg\nlast\n");
    CHECK_EQ(coir_reader_read(reader, buf, 3), 3); /* nothing lies in the reader */
    CHECK_EQ(coir_reader_read(reader, buf + 3, 2), 2);
    CHECK(memcmp(buf, "abcde", 5) == 0);
    expect_line("fg");
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), 5);
    CHECK(memcmp(buf, "last\n", 5) == 0);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), 0);
    close_reader();
}

static void read_from_the_position(void)
{
    char buf[4];
    open_reader("one\ntwo\n", COIR_POSITION, 0);
    CHECK_EQ(coir_file_seek(file, 4), 0);
    expect_line("two");
    CHECK_EQ(coir_file_position(file), 8);
    append("end");
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), 3);
    CHECK_EQ(coir_file_position(file), 11);
    close_reader();
}

/* The bound holds for pieces that lie in the reader as a whole, too. */
static void meet_the_bound(void)
{
    char *line, buf[16];
    open_reader("1234567\n12345678\n", 0, 8);
    expect_line("1234567");
    CHECK_EQ(coir_reader_read_line(reader, &line, NULL), -COIR_ETOOLARGE);
    CHECK_EQ(coir_reader_read_line(reader, &line, NULL), -COIR_ETOOLARGE);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), 9);
    close_reader();
}

/* Lines of any length, up to several times what is read at once. */
static void read_many_lines(void)
{
    enum { TEXT = 1000000, LINE_MAX = 300000 };
    char *text = malloc(TEXT + 1), *rest = text, *line;
    size_t len;
    CHECK(text != NULL);
    srand(1);
    memset(text, 'x', TEXT);
    text[TEXT] = '\0';
    for (size_t at = 0; at < TEXT; at += (size_t)rand() % (rand() % 10 ? 200 : LINE_MAX - 1))
        text[at] = '\n';
    text[TEXT - 1] = '\n';
    open_reader(text, 0, LINE_MAX);
    for (char *found; (found = strchr(rest, '\n')); rest = found + 1) {
        CHECK_EQ(coir_reader_read_line(reader, &line, &len), 1);
        CHECK(len == (size_t)(found - rest) && memcmp(line, rest, len) == 0);
    }
    CHECK_EQ(coir_reader_read_line(reader, &line, &len), 0);
    close_reader();
    free(text);
}

static void fail_to_read(void)
{
    char *line;
    coir_file *other;
    open_reader("", 0, 0);
    CHECK_EQ(coir_reader_new_file(NULL, 0, 0, &reader), -EINVAL);
    CHECK_EQ(coir_reader_new_file(file, 0, 0, NULL), -EINVAL);
    CHECK_EQ(coir_reader_new_file(file, -2, 0, &reader), -EINVAL);
    close_reader();
    CHECK_EQ(coir_file_open_at(work, "x", O_WRONLY | O_CREAT, 0600, &other), 0);
    CHECK_EQ(coir_reader_new_file(other, 0, 0, &reader), 0);
    CHECK_EQ(coir_reader_read_line(reader, &line, NULL), -EBADF);
    CHECK_EQ(coir_reader_read_line(reader, &line, NULL), -EBADF);
    coir_reader_free(reader);
    coir_file_close(other);
    CHECK_EQ(coir_dir_unlink(work, "x"), 0);
}

/* ---- cancellation, select, other tasks ---- */

static int use_busy(void *arg)
{
    char *line, buf[4];
    (void)arg;
    CHECK_EQ(coir_reader_read_line(reader, &line, NULL), -EBUSY);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), -EBUSY);
    coir_reader_free(reader); /* not freed */
    return 0;
}

static void read_beside_another(void)
{
    char buf[8];
    open_reader("one\n", 0, 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, use_busy, NULL), 0);
    expect_line("one");
    CHECK_EQ(coir_scope_wait(scope), 0);
    append("two");
    CHECK_EQ(coir_go(scope, use_busy, NULL), 0);
    CHECK_EQ(coir_reader_read(reader, buf, sizeof buf), 3);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_reader();
}

/* A read that has begun is waited for: what it has read is there for the next call. */
static void lose_selects(void)
{
    enum { ROUNDS = 50 };
    char *line;
    int lines = 0, won[2] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        char text[16];
        coir_event event = COIR_EVENT_INIT;
        if (i == 0)
            open_reader("", 0, 0);
        snprintf(text, sizeof text, "%d\n", i);
        append(text);
        coir_case cases[] = {coir_case_line(reader, &line, NULL),
                             i % 3 ? coir_case_after(rand() % (30 * COIR_US))
                                   : coir_case_event(&event)};
        coir_event_set(&event);
        int which = i % 2 ? coir_select(cases, 2) : coir_select_in_order(cases, 2);
        won[which]++;
        if (which == 0) {
            CHECK_EQ(cases[0].result, 1);
            CHECK_EQ(atoi(line), lines++);
        }
    }
    while (coir_reader_read_line(reader, &line, NULL) == 1)
        CHECK_EQ(atoi(line), lines++);
    CHECK_EQ(lines, ROUNDS); /* each once, in order, whichever case lost */
    CHECK(won[1] > 0);
    close_reader();
}

static void pass_a_deadline(void)
{
    char *line;
    open_reader("one\ntwo\n", 0, 0);
    expect_line("one");
    {
        COIR_DEADLINE(1);
        CHECK_EQ(coir_reader_read_line(reader, &line, NULL), -ETIME); /* though it lies there */
    }
    expect_line("two");
    close_reader();
}

static void do_everything(void)
{
    read_to_the_end();
    read_from_the_position();
    meet_the_bound();
    read_many_lines();
    fail_to_read();
    read_beside_another();
    lose_selects();
    pass_a_deadline();
}

TEST(lines_of_files_on_every_driver)
{
    ci_misuse_aborts = false;
    in_a_directory_on_every_driver(do_everything);
}

TEST_SIM(lines_of_files_simulated)
{
    in_a_simulated_directory(do_everything);
}
