/* The checker of histories, against histories of which the verdict is known; and against an
 * exhaustive search over all orders, on random ones. */
#include "sim/history.h"

#include <stdlib.h>

#include "base/random.h"
#include "harness.h"

enum { READ, WRITE, CAS };
static const char *const kinds[] = {"read", "write", "cas"};

/* A register: a compare-and-swap has expected * 100 + desired as its argument, and says whether it
 * did. */
static bool step_register(void *state, const struct history_op *op)
{
    int64_t *value = state;
    if (op->kind == READ)
        return op->open || *value == op->ret;
    if (op->kind == WRITE)
        return *value = op->arg, true;
    bool swaps = *value == op->arg / 100;
    if (swaps)
        *value = op->arg % 100;
    return op->open || swaps == op->ret;
}

static const struct history_model register_model = {kinds, sizeof(int64_t), NULL, step_register};

struct line {
    int kind;
    int64_t arg, ret;
    uint64_t invoked, returned; /* 0: open */
};

static struct history history;

static enum verdict check(const struct line *lines, size_t count)
{
    history_init(&history, &register_model, NULL, "a register");
    for (size_t i = 0; i < count; i++)
        history.ops[i] = (struct history_op){
            .task = (int)i,
            .kind = lines[i].kind,
            .arg = lines[i].arg,
            .ret = lines[i].ret,
            .invoked = lines[i].invoked,
            .returned = lines[i].returned ? lines[i].returned : UINT64_MAX,
            .open = !lines[i].returned,
        };
    history.count = count;
    return history_check(&history);
}

#define CHECK_IS(verdict, ...)                                         \
    do {                                                               \
        static const struct line lines[] = {__VA_ARGS__};              \
        CHECK_EQ(check(lines, sizeof lines / sizeof *lines), verdict); \
    } while (0)

TEST(an_empty_history_is_linearizable)
{
    CHECK_EQ(check(NULL, 0), LINEARIZABLE);
}

TEST(one_after_another)
{
    CHECK_IS(LINEARIZABLE, {WRITE, 1, 0, 1, 2}, {READ, 0, 1, 3, 4});
    CHECK_IS(NOT_LINEARIZABLE, {WRITE, 1, 0, 1, 2}, {READ, 0, 0, 3, 4});
    CHECK_IS(NOT_LINEARIZABLE, {READ, 0, 1, 1, 2}, {WRITE, 1, 0, 3, 4});
}

TEST(what_overlaps_may_come_in_any_order)
{
    CHECK_IS(LINEARIZABLE, {WRITE, 1, 0, 1, 6}, {READ, 0, 0, 2, 3}, {READ, 0, 1, 4, 5});
    CHECK_IS(NOT_LINEARIZABLE, {WRITE, 1, 0, 1, 6}, {READ, 0, 1, 2, 3}, {READ, 0, 0, 4, 5});
}

/* Each process by itself is consistent, and so sequential consistency holds; time does not. */
TEST(a_stale_read_by_another_task)
{
    CHECK_IS(NOT_LINEARIZABLE, {WRITE, 1, 0, 1, 2}, {WRITE, 2, 0, 3, 4}, {READ, 0, 1, 5, 6});
    CHECK_IS(LINEARIZABLE, {WRITE, 1, 0, 1, 4}, {WRITE, 2, 0, 2, 3}, {READ, 0, 1, 5, 6});
}

TEST(two_compare_and_swaps_cannot_both_win)
{
    CHECK_IS(NOT_LINEARIZABLE, {CAS, 1, 1, 1, 4}, {CAS, 2, 1, 2, 3});
    CHECK_IS(LINEARIZABLE, {CAS, 1, 1, 1, 4}, {CAS, 2, 0, 2, 3});
    CHECK_IS(LINEARIZABLE, {CAS, 102, 1, 1, 4}, {CAS, 1, 1, 2, 3});
}

TEST(an_open_operation_may_have_taken_effect_or_not)
{
    CHECK_IS(LINEARIZABLE, {WRITE, 1, 0, 1, 0}, {READ, 0, 1, 2, 3});
    CHECK_IS(LINEARIZABLE, {WRITE, 1, 0, 1, 0}, {READ, 0, 0, 2, 3});
    CHECK_IS(LINEARIZABLE, {WRITE, 1, 0, 1, 0}, {READ, 0, 0, 2, 3}, {READ, 0, 1, 4, 5});
    CHECK_IS(NOT_LINEARIZABLE, {WRITE, 1, 0, 1, 0}, {READ, 0, 1, 2, 3}, {READ, 0, 0, 4, 5});
    CHECK_IS(NOT_LINEARIZABLE, {READ, 0, 1, 2, 3}, {WRITE, 1, 0, 4, 0}); /* not before it began */
}

/* ---- against all orders ---- */

static bool any_order(const struct history *of, unsigned done, int64_t value)
{
    bool left = false;
    for (size_t i = 0; i < of->count; i++)
        left |= !(done >> i & 1) && !of->ops[i].open;
    if (!left)
        return true;
    for (size_t i = 0; i < of->count; i++) {
        bool first = !(done >> i & 1);
        for (size_t j = 0; j < of->count; j++)
            first &= (done >> j & 1) || of->ops[j].returned > of->ops[i].invoked;
        int64_t next = value;
        if (first && step_register(&next, &of->ops[i]) && any_order(of, done | 1u << i, next))
            return true;
    }
    return false;
}

static void draw(struct ci_random *random, struct line *line)
{
    line->kind = (int)ci_random_below(random, 3);
    line->arg = (int64_t)ci_random_below(random, 3);
    line->ret = (int64_t)ci_random_below(random, 3);
    if (line->kind == CAS) {
        line->arg += 100 * (int64_t)ci_random_below(random, 3);
        line->ret &= 1;
    }
    line->invoked = 1 + ci_random_below(random, 12);
    line->returned = line->invoked + 1 + ci_random_below(random, 8);
    if (ci_random_below(random, 6) == 0)
        line->returned = 0;
}

TEST(random_histories_against_all_orders)
{
    struct ci_random random = {1};
    const char *given = getenv("SEEDS");
    int rounds = given ? atoi(given) : 20000, right = 0;
    for (int round = 0; round < rounds; round++) {
        struct line lines[6];
        size_t count = 1 + ci_random_below(&random, 6);
        for (size_t i = 0; i < count; i++)
            draw(&random, &lines[i]);
        enum verdict verdict = check(lines, count);
        CHECK_EQ(verdict, any_order(&history, 0, 0) ? LINEARIZABLE : NOT_LINEARIZABLE);
        right += verdict == LINEARIZABLE;
    }
    CHECK(right > rounds / 10 && right < rounds * 9 / 10);
}

/* A long history with much that overlaps is decided: what the memo is for. */
TEST(a_long_history_is_decided)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        history_init(&history, &register_model, NULL, "a register");
        for (uint64_t i = 0; i < HISTORY_MOST - 1; i++)
            history.ops[history.count++] = (struct history_op){0,
                                                               i % 2 ? READ : WRITE,
                                                               (int64_t)(i % 7),
                                                               (int64_t)(i / 2 * 2 % 7),
                                                               2 * i + 1,
                                                               2 * i + 12,
                                                               false};
        history.ops[history.count++] =
            (struct history_op){0, READ, 0, wrong ? 9 : 2, 9999, 10000, false};
        enum verdict verdict = history_check(&history);
        CHECK(verdict != UNDECIDED);
        if (wrong)
            CHECK_EQ(verdict, NOT_LINEARIZABLE);
    }
}
