/* Money goes from account to account on one to four workers, while transfers are cancelled and run
 * into deadlines, and memory runs out. The accounts are numbers under mutexes, units of semaphores,
 * or channels of coins, from which a select takes; or tasks that are asked through channels.
 *
 * What must hold:
 * 1. The sum is what it was in the beginning: at any time under all locks, and at the end.
 * 2. No account is ever below zero.
 * 3. A transfer that was interrupted has moved everything or nothing.
 * 4. At the end every task ends: none waits for a reply that does not come. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { ACCOUNTS = 5, TELLERS = 6, TRANSFERS = 12, START = 10 };
enum kind { LOCKED, UNITS, COINS, ASKED, KINDS };

struct order {
    int64_t amount; /* below 0: to be taken out */
    coir_channel *reply;
};

struct account {
    enum kind kind;
    coir_mutex mutex;
    int64_t balance;
    coir_semaphore units;
    coir_channel *coins, *orders;
};

static struct {
    coir_sim *sim;
    enum kind kind;
    struct account accounts[ACCOUNTS];
    int64_t in_hand; /* out of one account, and not in another yet */
} w;

static int pause_a_little(void)
{
    return below(2) ? coir_yield() : coir_sleep_for((coir_time)below(500) * COIR_US);
}

/* ---- four kinds of accounts ---- */

static int move_locked(int from, int to, int64_t amount)
{
    struct account *first = &w.accounts[from < to ? from : to],
                   *second = &w.accounts[from < to ? to : from];
    int rc = coir_mutex_lock(&first->mutex);
    if (rc < 0)
        return rc;
    if ((rc = coir_mutex_lock(&second->mutex)) == 0) {
        int64_t taken = w.accounts[from].balance < amount ? 0 : amount;
        w.accounts[from].balance -= taken;
        pause_a_little(); /* however that ends */
        w.accounts[to].balance += taken;
        coir_mutex_unlock(&second->mutex);
    }
    coir_mutex_unlock(&first->mutex);
    return rc;
}

static int move_units(int from, int to, int64_t amount)
{
    int rc = coir_semaphore_acquire(&w.accounts[from].units, (uint64_t)amount);
    if (rc == 0)
        coir_semaphore_release(&w.accounts[to].units, (uint64_t)amount);
    return rc;
}

/* A coin of whichever of several accounts has one. */
static int take_coin(int from, int64_t *ret_coin)
{
    coir_case cases[ACCOUNTS + 1];
    size_t count = 1 + below(ACCOUNTS);
    for (size_t i = 0; i < count; i++)
        cases[i] = coir_case_recv(w.accounts[((size_t)from + i) % ACCOUNTS].coins, ret_coin);
    cases[count] = coir_case_after((coir_time)below(1000) * COIR_US);
    int rc = coir_select(cases, count + 1);
    if (rc < 0)
        return rc;
    return (size_t)rc == count ? -EAGAIN : (int)cases[rc].result;
}

static int move_coin(int from, int to)
{
    int64_t coin;
    int rc = take_coin(from, &coin);
    if (rc < 0)
        return rc == -EAGAIN ? 0 : rc;
    w.in_hand++;
    rc = coir_channel_send(w.accounts[to].coins, &coin);
    if (rc < 0) /* it was not sent; nor may it be lost */
        MUST_BE(coir_channel_try_send(w.accounts[from].coins, &coin), 0);
    w.in_hand--;
    return rc;
}

/* An account that is a task: takes orders, says whether it did. */
static int keep_account(void *arg)
{
    struct account *account = arg;
    struct order order;
    while (coir_channel_recv(account->orders, &order) == 0) {
        int64_t done = account->balance + order.amount >= 0;
        account->balance += done ? order.amount : 0;
        MUST_BE(coir_channel_try_send(order.reply, &done), 0); /* there is room for it */
        pause_a_little();
    }
    return 0;
}

static int ask(int account, int64_t amount, coir_channel *reply)
{
    struct order order = {amount, reply};
    int64_t done = 0;
    int rc = coir_channel_send(w.accounts[account].orders, &order);
    if (rc < 0)
        return rc;
    COIR_SHIELD; /* it was sent: what became of it must be known */
    MUST_BE(coir_channel_recv(reply, &done), 0);
    return (int)done;
}

static int move_asked(int from, int to, int64_t amount)
{
    coir_channel *reply;
    int rc = coir_channel_new(sizeof(int64_t), 1, &reply);
    if (rc < 0)
        return rc;
    if ((rc = ask(from, -amount, reply)) > 0) {
        COIR_SHIELD;
        w.in_hand += amount;
        MUST_BE(ask(to, amount, reply), 1);
        w.in_hand -= amount;
    }
    coir_channel_free(reply);
    return rc < 0 ? rc : 0;
}

static int transfer(int from, int to, int64_t amount)
{
    switch (w.kind) {
    case LOCKED: return move_locked(from, to, amount);
    case UNITS: return move_units(from, to, amount);
    case COINS: return move_coin(from, to);
    case ASKED:
    case KINDS: break;
    }
    return move_asked(from, to, amount);
}

/* ---- tellers ---- */

static int be_a_teller(void *arg)
{
    (void)arg;
    int rc = 0;
    for (int i = 0; rc != -ECANCELED && i < TRANSFERS; i++) {
        int from = (int)below(ACCOUNTS), to = (from + 1 + (int)below(ACCOUNTS - 1)) % ACCOUNTS;
        COIR_DEADLINE(coir_in((coir_time)below(3000) * COIR_US));
        rc = transfer(from, to, 1 + (int64_t)below(4));
        MUST_BE(rc == -ETIME || rc == -ECANCELED || rc == -ENOMEM ? 0 : rc, 0);
        if (pause_a_little() == -ECANCELED)
            break;
    }
    return 0;
}

static int64_t sum(void)
{
    int64_t all = w.in_hand;
    for (int i = 0; i < ACCOUNTS; i++) {
        struct account *account = &w.accounts[i];
        MUST(account->balance >= 0);
        all += account->balance + (int64_t)coir_semaphore_units(&account->units);
        all += account->coins ? (int64_t)coir_channel_count(account->coins) : 0;
    }
    return all;
}

/* Under all locks, when the accounts have locks. */
static int be_an_auditor(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        int locked = 0, rc = 0;
        while (rc == 0 && locked < ACCOUNTS)
            if ((rc = coir_mutex_lock(&w.accounts[locked].mutex)) == 0)
                locked++;
        if (rc == 0 && w.kind == LOCKED)
            MUST_BE(sum(), ACCOUNTS * START);
        while (locked--)
            coir_mutex_unlock(&w.accounts[locked].mutex);
        if (rc < 0 || coir_sleep_for((coir_time)below(3000) * COIR_US) < 0)
            break;
    }
    return 0;
}

/* ---- the bank ---- */

static void open_account(struct account *account)
{
    *account =
        (struct account){.kind = w.kind, .mutex = COIR_MUTEX_INIT, .units = COIR_SEMAPHORE_INIT(0)};
    if (w.kind == LOCKED || w.kind == ASKED)
        account->balance = START;
    if (w.kind == UNITS)
        coir_semaphore_release(&account->units, START);
    if (w.kind == ASKED)
        MUST_BE(coir_channel_new(sizeof(struct order), below(3), &account->orders), 0);
    if (w.kind != COINS)
        return;
    MUST_BE(coir_channel_new(sizeof(int64_t), ACCOUNTS * START, &account->coins), 0);
    for (int64_t coin = 0; coin < START; coin++)
        MUST_BE(coir_channel_try_send(account->coins, &coin), 0);
}

static int spawn(coir_scope *scope, coir_handle *handle, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    options.place = COIR_ON_WORKER((int)below((uint64_t)coir_worker_count(coir_runtime_current())));
    return coir_go_with(scope, &options, fn, arg);
}

static void do_business(coir_scope *scope)
{
    coir_handle tellers[TELLERS];
    memset(tellers, 0, sizeof tellers);
    coir_sim_faults(w.sim, NULL, (coir_faults){.no_memory = below(4) ? 0 : 0.05});
    for (int i = 0; i < TELLERS; i++)
        spawn(scope, &tellers[i], be_a_teller, NULL); /* or there is no memory for it */
    spawn(scope, NULL, be_an_auditor, NULL);
    for (uint64_t cancels = below(TELLERS); cancels; cancels--) {
        coir_sleep_for((coir_time)below(5000) * COIR_US);
        coir_cancel(&tellers[below(TELLERS)]);
    }
    COIR_DEADLINE(coir_in(10 * COIR_S));
    MUST_BE(coir_scope_wait(scope), 0);
    for (int i = 0; i < TELLERS; i++)
        coir_handle_done(&tellers[i]);
}

static int run_bank(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(keepers);
    for (int i = 0; i < ACCOUNTS; i++) {
        open_account(&w.accounts[i]);
        if (w.kind == ASKED)
            MUST_BE(spawn(keepers, NULL, keep_account, &w.accounts[i]), 0);
    }
    coir_sleep_for(COIR_MS); /* the keepers have their stacks */
    {
        COIR_SERVING_SCOPE(scope);
        do_business(scope);
    }
    coir_sim_faults(w.sim, NULL, (coir_faults){0});
    MUST_BE(w.in_hand, 0);
    for (int i = 0; i < ACCOUNTS && w.kind == ASKED; i++)
        coir_channel_close(w.accounts[i].orders);
    MUST_BE(coir_scope_wait(keepers), 0);
    MUST_BE(sum(), ACCOUNTS * START);
    for (int i = 0; i < ACCOUNTS; i++) {
        coir_channel_free(w.accounts[i].coins);
        coir_channel_free(w.accounts[i].orders);
    }
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.kind = (enum kind)below(KINDS);
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "bank", run_bank, NULL);
}
