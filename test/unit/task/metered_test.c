/* Objects whose counts the metrics of a runtime show: samples of a metric stand together. */
#include "task/metered.h"

#include <string.h>

#include "harness.h"

static uint64_t twice(const struct ci_metered *metered)
{
    return 2 * metered->number;
}

static uint64_t seven(const struct ci_metered *metered)
{
    (void)metered;
    return 7;
}

static const struct ci_metric two[] = {{"a_total", "counter", "A.", twice},
                                       {"b", "gauge", "B.", seven}};
static const struct ci_metered_kind first_kind = {"first", two, 2},
                                    second_kind = {"second", two, 1};

static char bytes[4000];

static const char *read_all(coir_runtime *runtime)
{
    struct ci_metrics_text text = {bytes, sizeof bytes, 0};
    bytes[0] = '\0';
    ci_metered_put(&text, runtime);
    return bytes;
}

TEST_SIM(samples_of_a_metric_stand_together)
{
    coir_runtime *runtime = coir_runtime_current();
    struct ci_metered a = {.name = "x"}, b = {.name = "y"}, c = {.name = "z"};
    ci_metered_remove(&a); /* it was not added */
    CHECK_EQ(*read_all(runtime), '\0');
    ci_metered_add(&a, &first_kind, runtime);
    ci_metered_add(&c, &second_kind, runtime);
    ci_metered_add(&b, &first_kind, runtime);
    CHECK_EQ(strcmp(read_all(runtime), "# HELP a_total A.\n# TYPE a_total counter\n"
                                       "a_total{first=\"x\",number=\"1\"} 2\n"
                                       "a_total{first=\"y\",number=\"3\"} 6\n"
                                       "# HELP b B.\n# TYPE b gauge\n"
                                       "b{first=\"x\",number=\"1\"} 7\n"
                                       "b{first=\"y\",number=\"3\"} 7\n"
                                       "# HELP a_total A.\n# TYPE a_total counter\n"
                                       "a_total{second=\"z\",number=\"2\"} 4\n"),
             0);
    ci_metered_remove(&a);
    ci_metered_remove(&a);
    CHECK(!strstr(read_all(runtime), "\"x\""));
    CHECK(strstr(bytes, "\"y\"") && strstr(bytes, "\"z\""));
    ci_metered_remove(&b);
    ci_metered_remove(&c);
    CHECK_EQ(*read_all(runtime), '\0');
}
