#include "ledger.h"

#include <errno.h>
#include <stdlib.h>

enum { SENT = 1, RECEIVED = 2, DROPPED = 4 };

int ledger_init(struct ledger *ledger, struct act *act, unsigned senders, unsigned each)
{
    *ledger = (struct ledger){act, senders, each, calloc(senders * each + 1, 1)};
    return ledger->marks ? 0 : -ENOMEM;
}

void ledger_free(struct ledger *ledger)
{
    free(ledger->marks);
}

static uint64_t proof_of(const struct ledger *ledger, unsigned sender, unsigned number)
{
    return (ledger->act->seed ^ sender * 0x9e3779b97f4a7c15u) + number * 0xbf58476d1ce4e5b9u;
}

struct item ledger_item(const struct ledger *ledger, unsigned sender, unsigned number)
{
    return (struct item){sender, number, proof_of(ledger, sender, number)};
}

static unsigned mark(const struct ledger *ledger, const struct item *item, uint8_t bit)
{
    if (item->sender >= ledger->senders || item->number >= ledger->each ||
        item->proof != proof_of(ledger, item->sender, item->number))
        program_fail(ledger->act, "an item that nobody sent: %u of %u", item->number, item->sender);
    return __atomic_fetch_or(&ledger->marks[item->sender * ledger->each + item->number], bit,
                             __ATOMIC_RELAXED);
}

void ledger_sent(struct ledger *ledger, const struct item *item)
{
    if (mark(ledger, item, SENT) & SENT)
        program_fail(ledger->act, "item %u of %u was sent twice", item->number, item->sender);
}

void ledger_received(struct ledger *ledger, const struct item *item)
{
    unsigned before = mark(ledger, item, RECEIVED);
    if (before & (RECEIVED | DROPPED))
        program_fail(ledger->act, "item %u of %u came after it had been received or dropped (%u)",
                     item->number, item->sender, before);
}

void ledger_dropped(struct ledger *ledger, const struct item *item)
{
    unsigned before = mark(ledger, item, DROPPED);
    if (before & (RECEIVED | DROPPED))
        program_fail(ledger->act,
                     "item %u of %u was dropped after it had been received or dropped (%u)",
                     item->number, item->sender, before);
}

void order_init(struct order *order)
{
    for (int i = 0; i < ACTORS_MOST; i++)
        order->last[i] = -1;
}

void order_check(struct order *order, const struct ledger *ledger, const struct item *item)
{
    if (item->sender < ACTORS_MOST && order->last[item->sender] >= (int64_t)item->number)
        program_fail(ledger->act, "item %u of %u came after %lld", item->number, item->sender,
                     (long long)order->last[item->sender]);
    if (item->sender < ACTORS_MOST)
        order->last[item->sender] = item->number;
}

void ledger_check(const struct ledger *ledger)
{
    for (unsigned i = 0; i < ledger->senders * ledger->each; i++) {
        uint8_t marks = ledger->marks[i];
        if (!(marks & SENT) != !(marks & (RECEIVED | DROPPED)))
            program_fail(ledger->act, "item %u of %u: %s, %s", i % ledger->each, i / ledger->each,
                         marks & SENT ? "sent" : "not sent",
                         marks & RECEIVED  ? "received"
                         : marks & DROPPED ? "dropped"
                                           : "not received");
    }
}

uint64_t ledger_lost(const struct ledger *ledger)
{
    uint64_t lost = 0;
    for (unsigned i = 0; i < ledger->senders * ledger->each; i++) {
        if (ledger->marks[i] == RECEIVED)
            program_fail(ledger->act,
                         "item %u of %u was received, and its sender was told that it was not sent",
                         i % ledger->each, i / ledger->each);
        lost += ledger->marks[i] == SENT;
    }
    return lost;
}
