/* Who sent what, and who got it: every item is sent once at most and received once exactly, or is
 * accounted for. */
#ifndef TEST_PROGRAMS_LEDGER_H
#define TEST_PROGRAMS_LEDGER_H

#include "program.h"

struct item {
    uint32_t sender, number;
    uint64_t proof;
};

struct ledger {
    struct act *act;
    unsigned senders, each;
    uint8_t *marks;
};

/* The last numbers that a receiver got from each sender. */
struct order {
    int64_t last[ACTORS_MOST];
};

int ledger_init(struct ledger *ledger, struct act *act, unsigned senders, unsigned each);
void ledger_free(struct ledger *ledger);

struct item ledger_item(const struct ledger *ledger, unsigned sender, unsigned number);
void ledger_sent(struct ledger *ledger, const struct item *item);
void ledger_received(struct ledger *ledger, const struct item *item); /* for the first time */
void ledger_dropped(struct ledger *ledger, const struct item *item);

void order_init(struct order *order);
void order_check(struct order *order, const struct ledger *ledger, const struct item *item);

/* What was sent was received or dropped, and nothing else was. */
void ledger_check(const struct ledger *ledger);

/* The same where items may be lost: how many were. */
uint64_t ledger_lost(const struct ledger *ledger);

#endif
