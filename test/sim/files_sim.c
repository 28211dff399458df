/* Tasks that make, change, copy, send and remove files, each in a directory of its own, on a disk
 * that fails, under deadlines that are often too short.
 *
 * What must hold:
 * 1. A file has the bytes that were written last; one that was being replaced has the old or the
 *    new ones, whole; one that was being appended to has the old ones and a part of the new.
 * 2. A call on a directory that returns an error has changed nothing.
 * 3. A listing tells the names that there are, each once.
 * 4. A copy, into a file or over a connection, has the bytes of what was copied.
 * 5. When the disk is well again, everything succeeds.
 * 6. A directory is made once, is removed only when it is empty, and has what is put into it.
 * 7. The lines of a file are read as they were written, up to one that is too long.
 * 8. A call with arguments that it refuses changes nothing.
 * Each call is made by itself, or as an operation that is awaited: they do the same. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { KEEPERS = 3, FILES = 4, STEPS = 30, LEN_MOST = 6000, GROW_MOST = 3000 };
enum { LINES = 10, LINE_MOST = 90, PIECE_MOST = 64 };

struct content {
    bool exists;
    unsigned which;
    size_t len;
};

struct keeper {
    int number;
    coir_file *dir;
    struct content files[FILES];
    char bytes[LEN_MOST + GROW_MOST];
};

static struct {
    coir_sim *sim;
    coir_host *host;
    struct keeper keepers[KEEPERS];
    unsigned messages;
    bool calm;
    bool leaves; /* the removal of a file may fail: a replacement may leave its own behind */
} w;

static const char *const names[FILES] = {"a", "b", "c", "d"};

/* Errors are to be expected while the disk fails, and of deadlines always. */
static int passing(int rc)
{
    MUST(rc >= 0 || !w.calm || rc == -ETIME);
    if (rc < 0)
        MUST(rc == -ETIME || rc == -EIO || rc == -ENOSPC || rc == -EDQUOT || rc == -EMFILE ||
             rc == -ENFILE || rc == -COIR_EEND || rc == -ECONNREFUSED);
    return rc;
}

static coir_time soon(void)
{
    return below(3) ? COIR_NEVER : coir_in((coir_time)below(30000) * COIR_US);
}

/* ---- calls, and the same as operations ---- */

static int open_at(coir_file *dir, const char *name, int flags, coir_file **ret_file)
{
    coir_file_op op;
    return below(2) ? coir_file_open_at(dir, name, flags, 0600, ret_file)
                    : (int)coir_await(coir_file_open_at_op(&op, dir, name, flags, 0600, ret_file));
}

static int unlink_at(coir_file *dir, const char *name)
{
    coir_file_op op;
    return below(2) ? coir_dir_unlink(dir, name)
                    : (int)coir_await(coir_dir_unlink_op(&op, dir, name));
}

static int mkdir_at(coir_file *dir, const char *name)
{
    coir_file_op op;
    return below(2) ? coir_dir_mkdir(dir, name, 0700)
                    : (int)coir_await(coir_dir_mkdir_op(&op, dir, name, 0700));
}

static int rmdir_at(coir_file *dir, const char *name)
{
    coir_file_op op;
    return below(2) ? coir_dir_rmdir(dir, name)
                    : (int)coir_await(coir_dir_rmdir_op(&op, dir, name));
}

static int name_again(coir_file *dir, const char *name, const char *to, bool renames)
{
    coir_file_op op;
    if (below(2))
        return renames ? coir_dir_rename(dir, name, dir, to) : coir_dir_link(dir, name, dir, to);
    return (int)coir_await(renames ? coir_dir_rename_op(&op, dir, name, dir, to)
                                   : coir_dir_link_op(&op, dir, name, dir, to));
}

static int sync_file(coir_file *file)
{
    coir_file_op op;
    switch (below(4)) {
    case 0: return coir_file_sync(file);
    case 1: return coir_file_sync_data(file);
    case 2: return (int)coir_await(coir_file_sync_op(&op, file));
    default: return (int)coir_await(coir_file_sync_data_op(&op, file));
    }
}

static int truncate_file(coir_file *file, size_t len)
{
    coir_file_op op;
    return below(2) ? coir_file_truncate(file, (int64_t)len)
                    : (int)coir_await(coir_file_truncate_op(&op, file, (int64_t)len));
}

static int allocate(coir_file *file, size_t len)
{
    coir_file_op op;
    return below(2) ? coir_file_allocate(file, 0, (int64_t)len)
                    : (int)coir_await(coir_file_allocate_op(&op, file, 0, (int64_t)len));
}

static ssize_t read_in_parts(coir_file *file, char *bytes, size_t len)
{
    coir_file_op op;
    struct iovec parts[] = {{bytes, len / 2}, {bytes + len / 2, len - len / 2}};
    return below(2) ? coir_file_readv(file, parts, 2, 0)
                    : (ssize_t)coir_await(coir_file_readv_op(&op, file, parts, 2, 0));
}

/* ---- what is there ---- */

static int read_file(struct keeper *keeper, coir_file *file, size_t *ret_len)
{
    coir_reader *reader;
    int64_t size;
    size_t done = 0;
    int rc = coir_file_size(file, &size);
    MUST(rc < 0 || size <= (int64_t)sizeof keeper->bytes);
    if (rc < 0 || below(2)) {
        ssize_t n =
            rc < 0 ? rc : coir_file_read_full(file, keeper->bytes, (size_t)size, 0, ret_len);
        return n < 0 ? (int)n : 0;
    }
    if (below(3) == 0) {
        ssize_t n = read_in_parts(file, keeper->bytes, (size_t)size);
        *ret_len = n < 0 ? 0 : (size_t)n;
        return n < 0 ? (int)n : n < size ? -EIO : 0; /* short: once more */
    }
    if ((rc = coir_reader_new_file(file, 0, 100, &reader)) < 0)
        return rc;
    ssize_t n = 1;
    while (n > 0 && done < (size_t)size) {
        n = coir_reader_read(reader, keeper->bytes + done, (size_t)size - done);
        done += n > 0 ? (size_t)n : 0;
    }
    coir_reader_free(reader);
    *ret_len = done;
    return n < 0 ? (int)n : 0;
}

/* Reads the file until no error comes between: what it has. */
static struct content look(struct keeper *keeper, int i)
{
    struct content found = {.which = 0};
    for (;;) {
        coir_file *file;
        int rc = open_at(keeper->dir, names[i], O_RDONLY, &file);
        if (rc == -ENOENT)
            return found;
        if (rc == 0) {
            rc = read_file(keeper, file, &found.len);
            coir_file_close(file);
        }
        found.exists = rc == 0;
        if (passing(rc) == 0)
            return found;
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    }
}

static bool has(const struct keeper *keeper, const struct content *found,
                const struct content *expected)
{
    return found->exists == expected->exists &&
           (!found->exists || (found->len == expected->len &&
                               bytes_are(keeper->bytes, expected->which, 0, found->len)));
}

static void verify(struct keeper *keeper, int i)
{
    struct content found = look(keeper, i);
    MUST(has(keeper, &found, &keeper->files[i])); /* 1, 2, 4 */
}

static void remove_file(struct keeper *keeper, int i)
{
    int rc;
    while ((rc = unlink_at(keeper->dir, names[i])) < 0 && rc != -ENOENT) {
        passing(rc);
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    }
    keeper->files[i].exists = false;
}

/* ---- changing ---- */

static struct content draw_content(void)
{
    return (struct content){.exists = true, .which = ++w.messages, .len = below(LEN_MOST)};
}

static void replace(struct keeper *keeper, int i)
{
    struct content next = draw_content();
    bytes_make(keeper->bytes, next.which, 0, next.len);
    int rc;
    {
        COIR_DEADLINE(soon());
        rc = coir_file_replace(keeper->dir, names[i], keeper->bytes, next.len, 0600);
    }
    struct content found = look(keeper, i);
    if (passing(rc) == 0 || has(keeper, &found, &next))
        keeper->files[i] = next;
    MUST(has(keeper, &found, &keeper->files[i])); /* 1 */
}

/* What a call at the position has moved is added to it: nothing, where the call has failed. */
static void check_position(coir_file *file, int64_t before, int64_t moved)
{
    MUST_BE(coir_file_position(file), before + (moved > 0 ? moved : 0));
}

/* At the position, or at an offset; by one call, or by two parts. */
static int write_more(struct keeper *keeper, coir_file *file, const struct content *content,
                      size_t more)
{
    int64_t offset = (int64_t)content->len;
    bytes_make(keeper->bytes, content->which, content->len, more);
    if (below(2)) {
        MUST_BE(coir_file_seek(file, offset), 0);
        offset = COIR_POSITION;
    }
    if (below(2))
        return coir_file_write_all(file, keeper->bytes, more, offset);
    struct iovec parts[] = {{keeper->bytes, more / 3}, {keeper->bytes + more / 3, more - more / 3}};
    ssize_t n = coir_file_writev(file, parts, 2, offset);
    if (offset == COIR_POSITION)
        check_position(file, (int64_t)content->len, n);
    return n < 0 ? (int)n : (size_t)n < more ? -EIO : 0;
}

static void append(struct keeper *keeper, int i)
{
    struct content *content = &keeper->files[i];
    size_t more = 1 + below(GROW_MOST - 1);
    coir_file *file;
    int rc;
    if (!content->exists || content->len > LEN_MOST)
        return;
    COIR_DEADLINE(soon());
    if (passing(open_at(keeper->dir, names[i], O_WRONLY, &file)) < 0)
        return;
    rc = passing(write_more(keeper, file, content, more));
    rc = rc < 0 || below(2) ? rc : passing(sync_file(file));
    coir_file_close(file);
    COIR_SHIELD;
    struct content found = look(keeper, i);
    MUST(found.len >= content->len && found.len <= content->len + more);
    MUST(rc < 0 || found.len == content->len + more);
    content->len = found.len;
    MUST(has(keeper, &found, content)); /* 1 */
}

static void cut(struct keeper *keeper, int i)
{
    struct content *content = &keeper->files[i];
    coir_file *file;
    struct stat stat;
    if (!content->exists || passing(open_at(keeper->dir, names[i], O_RDWR, &file)) < 0)
        return;
    size_t len = below(content->len + 1);
    if (passing(truncate_file(file, len)) == 0)
        content->len = len;
    if (len && below(2)) /* what is there already */
        passing(allocate(file, content->len));
    if (passing(coir_file_stat(file, &stat)) == 0)
        MUST_BE(stat.st_size, content->len);
    coir_file_close(file);
    verify(keeper, i);
}

static void give_name(struct keeper *keeper, int i, int to)
{
    struct content *content = &keeper->files[i];
    bool renames = below(2);
    int rc;
    {
        COIR_DEADLINE(soon());
        rc = name_again(keeper->dir, names[i], names[to], renames);
    }
    if (rc == -ENOENT)
        MUST(!content->exists);
    else if (rc == -EEXIST)
        MUST(!renames && keeper->files[to].exists);
    else if (passing(rc) == 0 && i != to)
        keeper->files[to] = *content;
    verify(keeper, to); /* 2 */
    if (rc == 0 && i != to)
        remove_file(keeper, i); /* which has one name less, or none */
    verify(keeper, i);
}

/* ---- copying ---- */

struct sending {
    coir_stream *stream;
    coir_file *from, *to;
    size_t len;
};

static int send_file(void *arg)
{
    struct sending *sending = arg;
    ssize_t n = coir_file_copy_to(sending->from, 0, COIR_UNLIMITED, sending->stream, NULL);
    return n < 0 ? (int)n : coir_shutdown_write(sending->stream);
}

static int take_file(void *arg)
{
    struct sending *sending = arg;
    ssize_t n = coir_file_copy_from(sending->to, 0, COIR_UNLIMITED, sending->stream, &sending->len);
    MUST(n < 0 || (size_t)n == sending->len);
    return n < 0 ? (int)n : 0;
}

/* To a server that sends everything back. */
static ssize_t copy_over_connection(coir_file *to, coir_file *from)
{
    struct sending sending = {.from = from, .to = to};
    int rc = coir_tcp_connect("echo:7", &sending.stream);
    if (rc == 0) {
        MUST_BE(coir_file_copy_to(from, -1, 1, sending.stream, NULL), -EINVAL); /* 8 */
        MUST_BE(coir_file_copy_from(to, -1, 1, sending.stream, NULL), -EINVAL);
        rc = chaos_both(send_file, take_file, &sending);
        coir_close(sending.stream);
    }
    return rc < 0 ? rc : (ssize_t)sending.len;
}

static void copy(struct keeper *keeper, int i, int to)
{
    coir_file *source, *target;
    ssize_t n = -EIO;
    if (i == to || !keeper->files[i].exists)
        return;
    remove_file(keeper, to);
    if (passing(open_at(keeper->dir, names[i], O_RDONLY, &source)) < 0)
        return;
    int rc = open_at(keeper->dir, names[to], O_RDWR | O_CREAT | O_EXCL, &target);
    if (passing(rc) == 0) {
        COIR_DEADLINE(soon());
        n = below(2) ? coir_file_copy(target, 0, source, 0, COIR_UNLIMITED, NULL)
                     : copy_over_connection(target, source);
        coir_file_close(target);
    }
    coir_file_close(source);
    if (n < 0) {
        passing((int)n);
        remove_file(keeper, to);
    } else {
        MUST_BE(n, keeper->files[i].len); /* 4 */
        keeper->files[to] = keeper->files[i];
    }
    verify(keeper, to);
}

/* ---- directories ---- */

/* -1: no file of the keeper's, but one that a replacement has left (coir_file_replace). */
static int file_of(const char *name)
{
    for (int i = 0; i < FILES; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    MUST(strstr(name, ".tmp") && w.leaves);
    return -1;
}

static int list(struct keeper *keeper)
{
    coir_listing *listing;
    coir_dir_entry entry = COIR_DIR_ENTRY;
    int told[FILES] = {0}, rc = coir_listing_open(keeper->dir, ".", &listing);
    if (rc < 0)
        return rc;
    while ((rc = coir_listing_next(listing, &entry)) > 0) {
        int i = file_of(entry.name);
        if (i >= 0)
            told[i]++;
        if (below(8) == 0) /* its error is told by the next call */
            (void)coir_sleep_for((coir_time)below(10000) * COIR_US);
    }
    coir_listing_close(listing);
    for (int i = 0; rc == 0 && i < FILES; i++)
        MUST_BE(told[i], keeper->files[i].exists); /* 3 */
    return rc;
}

static void ask_size(struct keeper *keeper, int i)
{
    struct stat stat;
    int rc = coir_dir_stat(keeper->dir, names[i], below(2) ? AT_SYMLINK_NOFOLLOW : 0, &stat);
    if (rc == -ENOENT)
        MUST(!keeper->files[i].exists);
    else if (passing(rc) == 0)
        MUST(keeper->files[i].exists && stat.st_size == (off_t)keeper->files[i].len);
}

/* Makes the calls again until the disk lets them: what they then say is 6. */
#define WHEN_WELL(rc, call)           \
    while (is_trouble((rc) = (call))) \
    MUST_BE(coir_sleep_for(COIR_MS), 0)

static bool is_trouble(int rc)
{
    return rc == -EIO || rc == -ENOSPC || rc == -EDQUOT || rc == -EMFILE || rc == -ENFILE;
}

static void use_directory(struct keeper *keeper)
{
    coir_file *inside, *file;
    int rc;
    WHEN_WELL(rc, mkdir_at(keeper->dir, "inside"));
    MUST_BE(rc, 0);
    WHEN_WELL(rc, mkdir_at(keeper->dir, "inside"));
    MUST_BE(rc, -EEXIST);
    WHEN_WELL(rc, unlink_at(keeper->dir, "inside"));
    MUST_BE(rc, -EISDIR);
    WHEN_WELL(rc, open_at(keeper->dir, "inside", O_RDONLY | O_DIRECTORY, &inside));
    MUST_BE(rc, 0);
    WHEN_WELL(rc, open_at(inside, "file", O_RDWR | O_CREAT | O_EXCL, &file));
    MUST_BE(rc, 0);
    coir_file_close(file);
    WHEN_WELL(rc, rmdir_at(keeper->dir, "inside"));
    MUST_BE(rc, -ENOTEMPTY);
    WHEN_WELL(rc, unlink_at(inside, "file"));
    MUST_BE(rc, 0);
    WHEN_WELL(rc, rmdir_at(keeper->dir, "inside"));
    MUST_BE(rc, 0);
    WHEN_WELL(rc, open_at(inside, "file", O_RDWR | O_CREAT, &file));
    MUST_BE(rc, -ENOENT); /* it was removed */
    WHEN_WELL(rc, rmdir_at(keeper->dir, "inside"));
    MUST_BE(rc, -ENOENT);
    coir_file_close(inside);
}

static void use_temporary(struct keeper *keeper)
{
    coir_file *file;
    if (passing(coir_file_open_temporary(keeper->dir, 0600, &file)) < 0)
        return;
    bytes_make(keeper->bytes, 0, 0, 100);
    if (passing(coir_file_write_all(file, keeper->bytes, 100, COIR_POSITION)) == 0)
        MUST_BE(coir_file_position(file), 100);
    coir_file_close(file);
}

/* ---- lines ---- */

static size_t length_of(unsigned which, int line)
{
    return (which * 7 + (unsigned)line * 31) % LINE_MOST;
}

static size_t make_lines(struct keeper *keeper, unsigned which)
{
    size_t at = 0;
    for (int i = 0; i < LINES; i++) {
        size_t len = length_of(which, i);
        memset(keeper->bytes + at, 'a' + i, len);
        at += len;
        keeper->bytes[at++] = '\n';
    }
    return at;
}

/* 0: all of them, or up to one that is too long. */
static int read_lines(coir_file *file, unsigned which)
{
    coir_reader *reader;
    char *text;
    size_t len;
    int i = 0, rc = coir_reader_new_file(file, below(2) ? 0 : COIR_POSITION, PIECE_MOST, &reader);
    if (rc < 0)
        return rc;
    for (; (rc = coir_reader_read_line(reader, &text, &len)) > 0; i++) {
        const char own[] = {(char)('a' + i), '\0'};
        MUST(i < LINES && len < PIECE_MOST);
        MUST_BE(len, length_of(which, i)); /* 7 */
        MUST_BE(strspn(text, own), len);
    }
    coir_reader_free(reader);
    if (rc == -COIR_ETOOLARGE)
        MUST(length_of(which, i) >= PIECE_MOST);
    if (rc == 0)
        MUST_BE(i, LINES);
    return rc == -COIR_ETOOLARGE ? 0 : rc;
}

static void use_lines(struct keeper *keeper)
{
    unsigned which = ++w.messages;
    size_t len = make_lines(keeper, which);
    coir_file *file;
    int rc;
    WHEN_WELL(rc, coir_file_replace(keeper->dir, "lines", keeper->bytes, len, 0600));
    MUST_BE(rc, 0);
    do {
        WHEN_WELL(rc, open_at(keeper->dir, "lines", O_RDONLY, &file));
        MUST_BE(rc, 0);
        rc = read_lines(file, which);
        coir_file_close(file);
    } while (passing(rc) < 0);
    WHEN_WELL(rc, unlink_at(keeper->dir, "lines"));
    MUST_BE(rc, 0);
}

/* ---- what is refused ---- */

static void call_wrongly(struct keeper *keeper)
{
    struct stat stat;
    coir_dir_entry unsized = {0};
    coir_listing *listing;
    coir_file_op op;
    coir_file *file;
    size_t done = 1;
    int64_t size;
    if (passing(coir_file_open_temporary(keeper->dir, 0600, &file)) < 0)
        return;
    MUST_BE(coir_await(coir_file_truncate_op(&op, file, -1)), -EINVAL);
    MUST_BE(coir_await(coir_file_allocate_op(&op, file, 0, 0)), -EINVAL);
    MUST_BE(coir_file_writev(file, &(struct iovec){"x", 1}, -1, 0), -EINVAL);
    MUST_BE(coir_file_copy(file, -1, file, 0, 1, &done), -EINVAL);
    MUST_BE(done, 0);
    MUST_BE(coir_dir_stat(keeper->dir, names[0], AT_REMOVEDIR, &stat), -EINVAL);
    if (passing(coir_file_size(file, &size)) == 0)
        MUST_BE(size, 0); /* 8 */
    coir_file_close(file);
    if (passing(coir_listing_open(keeper->dir, ".", &listing)) < 0)
        return;
    MUST_BE(coir_listing_next(listing, &unsized), -COIR_EUNSIZED);
    coir_listing_close(listing);
}

static void step(struct keeper *keeper)
{
    int i = (int)below(FILES), other = (int)below(FILES);
    switch (below(12)) {
    case 0: replace(keeper, i); break;
    case 1: append(keeper, i); break;
    case 2: cut(keeper, i); break;
    case 3: give_name(keeper, i, other); break;
    case 4: copy(keeper, i, other); break;
    case 5: remove_file(keeper, i); break;
    case 6: {
        COIR_DEADLINE(soon());
        passing(list(keeper));
        break;
    }
    case 7: ask_size(keeper, i); break;
    case 8: use_directory(keeper); break;
    case 9: use_lines(keeper); break;
    case 10: call_wrongly(keeper); break;
    default: use_temporary(keeper); break;
    }
}

static int open_dir(struct keeper *keeper, const char *name)
{
    coir_file_op op;
    int rc = mkdir_at(NULL, name), flags = O_RDONLY | O_DIRECTORY;
    if (rc < 0 && rc != -EEXIST)
        return rc;
    return below(2) ? coir_file_open(name, flags, 0, &keeper->dir)
                    : (int)coir_await(coir_file_open_op(&op, name, flags, 0, &keeper->dir));
}

/* 5 */
static void leave(struct keeper *keeper)
{
    for (int i = 0; i < FILES; i++) {
        verify(keeper, i);
        MUST_BE(list(keeper), 0);
        remove_file(keeper, i);
    }
    MUST_BE(coir_file_sync(keeper->dir), 0);
    coir_file_close(keeper->dir);
}

static int keep(void *arg)
{
    struct keeper *keeper = arg;
    char name[10];
    snprintf(name, sizeof name, "d%d", keeper->number);
    while (passing(open_dir(keeper, name)) < 0)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    for (int i = 0; i < STEPS; i++) {
        step(keeper);
        if (below(4) == 0)
            MUST_BE(coir_sleep_for((coir_time)below(10) * COIR_MS), 0);
    }
    while (!w.calm)
        MUST_BE(coir_sleep_for(50 * COIR_MS), 0);
    leave(keeper);
    return 0;
}

static int keep_all(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    for (int i = 0; i < KEEPERS; i++) {
        w.keepers[i].number = i;
        MUST_BE(coir_go_anywhere(scope, keep, &w.keepers[i]), 0);
    }
    return coir_scope_wait(scope);
}

/* ---- the world ---- */

static int answer(coir_stream *stream, void *arg)
{
    char buf[3000];
    (void)arg;
    return chaos_echo(stream, buf, sizeof buf);
}

static int serve(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:7", answer, NULL);
}

static int befall(void *arg)
{
    (void)arg;
    MUST_BE(coir_sleep_for((coir_time)below(3000) * COIR_MS), 0);
    coir_sim_faults(w.sim, NULL, (coir_faults){0});
    MUST_BE(coir_sleep_for(COIR_S), 0); /* calls that have failed end */
    w.calm = true;
    COIR_DEADLINE(coir_in(600 * COIR_S));
    while (!coir_host_is_down(w.host))
        MUST_BE(coir_sleep_for(100 * COIR_MS), 0);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    MUST_BE(chaos_configure(sim), 0);
    if (!coir_sim_host(sim, "echo", serve, NULL) ||
        !(w.host = coir_sim_host(sim, "keeper", keep_all, NULL)))
        return -ENOMEM;
    double error = some(0.1);
    w.leaves = error > 0;
    coir_sim_faults(sim, w.host,
                    (coir_faults){.disk_error = error,
                                  .disk_full = some(0.1),
                                  .disk_short = some(0.7),
                                  .late = some(0.3),
                                  .no_descriptor = some(0.1)});
    return coir_sim_host_main(sim, "fate", befall, NULL);
}
