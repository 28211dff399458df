#include "task/lock_counts.h"

#include <inttypes.h>
#include <string.h>

#include "base/character.h"
#include "coir/deadline.h"
#include "sys/lock.h"

struct counts {
    char name[CI_LOCK_NAME];
    uint64_t waits;
    struct ci_coarse waited; /* of those that have got it */
};

/* Each is complete, but for its counts, before `count` has it. */
static struct counts all[CI_LOCK_NAMES];
static uint32_t count;
static struct ci_lock lock; /* of who adds one */

void ci_lock_counts_forget(void)
{
    memset(all, 0, sizeof all);
    count = 0;
}

static struct counts *counts_of(uint8_t number)
{
    return &all[number - 1];
}

/* By so much of the name as is kept. */
static uint32_t find(const char *name, size_t len, uint32_t known)
{
    uint32_t i = 0;
    while (i < known && (strncmp(all[i].name, name, len) != 0 || all[i].name[len]))
        i++;
    return i;
}

uint8_t ci_lock_number(const char *name)
{
    size_t len = ci_character_cut(name, CI_LOCK_NAME - 1);
    ci_lock_take(&lock);
    uint32_t at = find(name, len, count);
    if (at == count && at < CI_LOCK_NAMES) {
        memcpy(all[at].name, name, len);
        ci_store_release(&count, at + 1); /* pairs with the acquire in ci_lock_counts_put */
    }
    ci_lock_give(&lock);
    return at < CI_LOCK_NAMES ? (uint8_t)(at + 1) : 0;
}

const char *ci_lock_name(uint8_t number)
{
    return number ? counts_of(number)->name : NULL;
}

uint64_t ci_lock_wait_begins(uint8_t number)
{
    ci_fetch_add_relaxed(&counts_of(number)->waits, 1);
    uint64_t now = (uint64_t)coir_now();
    return now ? now : 1; /* 0: nothing was counted */
}

void ci_lock_wait_ended(uint8_t number, uint64_t since)
{
    if (!since)
        return;
    struct ci_coarse *waited = &counts_of(number)->waited;
    uint64_t ended = (uint64_t)coir_now(), ns = ended > since ? ended - since : 0;
    ci_fetch_add_relaxed(&waited->buckets[ci_coarse_bucket(ns)], 1);
    ci_fetch_add_relaxed(&waited->sum, ns);
}

void ci_lock_counts_put(struct ci_metrics_text *text)
{
    uint32_t known = ci_load_acquire(&count); /* pairs with the release in ci_lock_number */
    if (!known)
        return;
    ci_metrics_put_head(text, "coir_lock_waits_total", "counter",
                        "Waits for locks that were not free, by the name of the lock.");
    for (uint32_t i = 0; i < known; i++) {
        ci_metrics_put(text, "coir_lock_waits_total{lock=\"");
        ci_metrics_put_label(text, all[i].name);
        ci_metrics_put(text, "\"} %" PRIu64 "\n", ci_load_relaxed(&all[i].waits));
    }
    ci_metrics_put_head(text, "coir_lock_wait_seconds", "histogram",
                        "How long those waited that have got the lock.");
    for (uint32_t i = 0; i < known; i++) {
        struct ci_coarse waited = {.sum = 0};
        ci_coarse_sum(&waited, &all[i].waited);
        ci_metrics_put_coarse(text, "coir_lock_wait_seconds", "lock", all[i].name, &waited);
    }
}
