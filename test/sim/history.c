#include "sim/history.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = HISTORY_MOST / 64, TABLE = 1 << 16, NODES_MOST = 1 << 22 };

/* What was tried: a set of operations that have taken effect, and the state that they led to. */
struct node {
    struct node *next;
    uint64_t done[WORDS];
    unsigned char state[];
};

struct search {
    const struct history *history;
    size_t state_size, tried;
    struct node **table;
};

uint64_t history_now(void)
{
    static uint64_t now;
    return ++now;
}

void history_init(struct history *history, const struct history_model *model, const void *context,
                  const char *name)
{
    if (model->state_size > HISTORY_STATE_MOST)
        __builtin_trap();
    history->model = model;
    history->context = context;
    history->name = name;
    history->count = 0;
}

bool history_room(const struct history *history, size_t count)
{
    return history->count + count <= HISTORY_MOST;
}

static struct history_op *add(struct history *history)
{
    if (!history_room(history, 1))
        __builtin_trap();
    return &history->ops[history->count++];
}

void history_add(struct history *history, int task, int kind, int64_t arg, int64_t ret,
                 uint64_t invoked)
{
    *add(history) = (struct history_op){task, kind, arg, ret, invoked, history_now(), false};
}

void history_add_open(struct history *history, int task, int kind, int64_t arg, uint64_t invoked)
{
    *add(history) = (struct history_op){task, kind, arg, 0, invoked, UINT64_MAX, true};
}

/* ---- what was tried ---- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

/* Whether this is tried for the first time. */
static bool is_new(struct search *search, const uint64_t done[WORDS], const void *state)
{
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, done, WORDS * sizeof *done);
    struct node **at = &search->table[hash_bytes(hash, state, search->state_size) % TABLE];
    for (const struct node *node = *at; node; node = node->next)
        if (memcmp(node->done, done, sizeof node->done) == 0 &&
            memcmp(node->state, state, search->state_size) == 0)
            return false;
    struct node *node = malloc(sizeof *node + search->state_size);
    if (!node)
        __builtin_trap();
    node->next = *at;
    memcpy(node->done, done, sizeof node->done);
    memcpy(node->state, state, search->state_size);
    *at = node;
    search->tried++;
    return true;
}

static void forget_all(struct search *search)
{
    for (size_t i = 0; i < TABLE; i++)
        while (search->table[i]) {
            struct node *node = search->table[i];
            search->table[i] = node->next;
            free(node);
        }
    free(search->table);
}

/* ---- the search ---- */

static bool is_done(const uint64_t done[WORDS], size_t i)
{
    return done[i / 64] >> (i % 64) & 1;
}

/* When the first of the operations that are left returned: what was invoked later comes after it.
 * UINT64_MAX: only open ones are left. */
static uint64_t first_return(const struct history *history, const uint64_t done[WORDS])
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < history->count; i++)
        if (!is_done(done, i) && history->ops[i].returned < first)
            first = history->ops[i].returned;
    return first;
}

/* Whether what is left can take effect, one after another, from this state on. */
static bool go_on(struct search *search, uint64_t done[WORDS], const unsigned char *state)
{
    const struct history *history = search->history;
    uint64_t first = first_return(history, done);
    if (first == UINT64_MAX)
        return true;
    for (size_t i = 0; i < history->count && search->tried < NODES_MOST; i++) {
        unsigned char next[HISTORY_STATE_MOST];
        if (is_done(done, i) || history->ops[i].invoked >= first)
            continue;
        memcpy(next, state, search->state_size);
        if (!history->model->step(next, &history->ops[i]))
            continue;
        done[i / 64] |= (uint64_t)1 << (i % 64);
        if (is_new(search, done, next) && go_on(search, done, next))
            return true;
        done[i / 64] &= ~((uint64_t)1 << (i % 64));
    }
    return false;
}

enum verdict history_check(const struct history *history)
{
    unsigned char state[HISTORY_STATE_MOST] = {0};
    uint64_t done[WORDS] = {0};
    struct search search = {.history = history, .state_size = history->model->state_size};
    search.table = calloc(TABLE, sizeof(struct node *));
    if (!search.table)
        __builtin_trap();
    if (history->model->init)
        history->model->init(state, history->context);
    bool found = go_on(&search, done, state);
    forget_all(&search);
    return found ? LINEARIZABLE : search.tried >= NODES_MOST ? UNDECIDED : NOT_LINEARIZABLE;
}

/* ---- reports ---- */

static int by_invocation(const void *a, const void *b)
{
    const struct history_op *x = a, *y = b;
    return (x->invoked > y->invoked) - (x->invoked < y->invoked);
}

void history_print(const struct history *history, FILE *file)
{
    static struct history_op sorted[HISTORY_MOST];
    memcpy(sorted, history->ops, history->count * sizeof *sorted);
    qsort(sorted, history->count, sizeof *sorted, by_invocation);
    fprintf(file, "the history of %s, by time of invocation:\n", history->name);
    for (size_t i = 0; i < history->count; i++) {
        const struct history_op *op = &sorted[i];
        fprintf(file, "  task %d  %s(%lld)", op->task, history->model->kinds[op->kind],
                (long long)op->arg);
        if (op->open)
            fprintf(file, " = ?  from %llu\n", (unsigned long long)op->invoked);
        else
            fprintf(file, " = %lld  from %llu to %llu\n", (long long)op->ret,
                    (unsigned long long)op->invoked, (unsigned long long)op->returned);
    }
}

void history_must_be_linearizable(const struct history *history)
{
    enum verdict verdict = history_check(history);
    if (verdict == LINEARIZABLE)
        return;
    history_print(history, stderr);
    fprintf(stderr,
            verdict == UNDECIDED ? "%s: the search was given up\n" : "%s: not linearizable\n",
            history->name);
    __builtin_trap();
}
