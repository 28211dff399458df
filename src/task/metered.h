/* Objects of the layers above whose counts the metrics of a runtime show, such as listeners. One is
 * added when it is complete, and removed before its memory is released. */
#ifndef CI_TASK_METERED_H
#define CI_TASK_METERED_H

#include "base/list.h"
#include "task/metrics_text.h"
#include "task/runtime.h"

struct ci_metered {
    struct ci_list link;
    const struct ci_metered_kind *kind; /* NULL: it was not added */
    coir_runtime *runtime;
    const char *name; /* of the object's memory */
    uint32_t number;  /* of the runtime's: tells objects of one name apart */
};

/* One sample of each object. */
struct ci_metric {
    const char *name, *type, *help;
    uint64_t (*value)(const struct ci_metered *metered); /* called on any thread */
};

struct ci_metered_kind {
    const char *label; /* that its name is the value of */
    const struct ci_metric *metrics;
    size_t count;
};

/* With `name` set. */
void ci_metered_add(struct ci_metered *metered, const struct ci_metered_kind *kind,
                    coir_runtime *runtime);

/* Nothing if it was not added. */
void ci_metered_remove(struct ci_metered *metered);

void ci_metered_put(struct ci_metrics_text *text, coir_runtime *runtime);

#endif
