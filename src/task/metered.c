#include "task/metered.h"

#include <inttypes.h>

void ci_metered_add(struct ci_metered *metered, const struct ci_metered_kind *kind,
                    coir_runtime *runtime)
{
    metered->kind = kind;
    metered->runtime = runtime;
    ci_mutex_lock(&runtime->metered_lock);
    metered->number = ++runtime->metered_count;
    ci_list_push(&runtime->metered, &metered->link);
    ci_mutex_unlock(&runtime->metered_lock);
}

void ci_metered_remove(struct ci_metered *metered)
{
    if (!metered->kind)
        return;
    ci_mutex_lock(&metered->runtime->metered_lock);
    ci_list_unlink(&metered->link);
    ci_mutex_unlock(&metered->runtime->metered_lock);
    metered->kind = NULL;
}

static const struct ci_metered *metered_at(const struct ci_list *node)
{
    return ci_container_of(node, const struct ci_metered, link);
}

/* All samples of a metric stand together: those of every object of the kind. */
static void put_kind(struct ci_metrics_text *text, const struct ci_list *all,
                     const struct ci_metered_kind *kind)
{
    for (size_t i = 0; i < kind->count; i++) {
        const struct ci_metric *metric = &kind->metrics[i];
        ci_metrics_put_head(text, metric->name, metric->type, metric->help);
        for (const struct ci_list *node = all->next; node != all; node = node->next) {
            const struct ci_metered *metered = metered_at(node);
            if (metered->kind != kind)
                continue;
            ci_metrics_put(text, "%s{%s=\"", metric->name, kind->label);
            ci_metrics_put_label(text, metered->name);
            ci_metrics_put(text, "\",number=\"%" PRIu32 "\"} %" PRIu64 "\n", metered->number,
                           metric->value(metered));
        }
    }
}

static bool is_first_of_kind(const struct ci_list *all, const struct ci_metered *metered)
{
    const struct ci_list *node = all->next;
    while (metered_at(node)->kind != metered->kind)
        node = node->next;
    return metered_at(node) == metered;
}

void ci_metered_put(struct ci_metrics_text *text, coir_runtime *runtime)
{
    ci_mutex_lock(&runtime->metered_lock);
    for (const struct ci_list *node = runtime->metered.next; node != &runtime->metered;
         node = node->next)
        if (is_first_of_kind(&runtime->metered, metered_at(node)))
            put_kind(text, &runtime->metered, metered_at(node)->kind);
    ci_mutex_unlock(&runtime->metered_lock);
}
