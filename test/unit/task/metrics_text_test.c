/* Text in the format of Prometheus: what is cut, what is escaped, and histograms with few buckets.
 */
#include "task/metrics_text.h"

#include <string.h>

#include "harness.h"

TEST(a_text_is_cut_and_its_length_is_that_of_the_whole)
{
    char little[8];
    struct ci_metrics_text text = {little, sizeof little, 0};
    ci_metrics_put(&text, "%s", "12345");
    ci_metrics_put(&text, "%d", 67890);
    ci_metrics_put(&text, "more");
    CHECK_EQ(strcmp(little, "1234567"), 0);
    CHECK_EQ(text.len, 14);
    struct ci_metrics_text none = {NULL, 0, 0};
    ci_metrics_put_head(&none, "a", "gauge", "Help.");
    CHECK_EQ(none.len, strlen("# HELP a Help.\n# TYPE a gauge\n"));
}

TEST(a_label_is_escaped)
{
    char bytes[100];
    struct ci_metrics_text text = {bytes, sizeof bytes, 0};
    ci_metrics_put_label(&text, "a \"b\\c\n\t\x80");
    CHECK_EQ(strcmp(bytes, "a \\\"b\\\\c\\n\\\\x09\\\\x80"), 0);
}

TEST(a_label_is_utf_8)
{
    char bytes[100];
    struct ci_metrics_text text = {bytes, sizeof bytes, 0};
    ci_metrics_put_label(&text, "gr\xc3\xb6\xc3\x9f"
                                "e \xc2\x9b \xe2\x82");
    CHECK_EQ(strcmp(bytes, "gr\xc3\xb6\xc3\x9f"
                           "e \\\\xc2\\\\x9b \\\\xe2\\\\x82"),
             0);
}

TEST(a_bucket_counts_what_is_below_its_bound)
{
    CHECK_EQ(ci_coarse_bucket(0), 0);
    for (int i = 0; i < CI_COARSE_BUCKETS - 1; i++) {
        uint64_t bound = (uint64_t)1 << (10 + 2 * i);
        CHECK_EQ(ci_coarse_bucket(bound - 1), i);
        CHECK_EQ(ci_coarse_bucket(bound), i + 1);
    }
    CHECK_EQ(ci_coarse_bucket(UINT64_MAX), CI_COARSE_BUCKETS - 1);
}

TEST(a_histogram_is_cumulative)
{
    static char bytes[4000];
    struct ci_metrics_text text = {bytes, sizeof bytes, 0};
    struct ci_coarse one = {.sum = 0}, sum = {.sum = 0};
    ci_coarse_add(&one, 500);
    ci_coarse_add(&one, 2000);
    ci_coarse_add(&one, (uint64_t)100 * 1000 * 1000 * 1000);
    ci_coarse_sum(&sum, &one);
    ci_coarse_sum(&sum, &one);
    ci_metrics_put_coarse(&text, "m_seconds", "task", "a\"b", &sum);
    CHECK(strstr(bytes, "m_seconds_bucket{task=\"a\\\"b\",le=\"1.024e-06\"} 2\n"));
    CHECK(strstr(bytes, "m_seconds_bucket{task=\"a\\\"b\",le=\"4.096e-06\"} 4\n"));
    CHECK(strstr(bytes, "le=\"17.1798692\"} 4\n"));
    CHECK(strstr(bytes, "le=\"+Inf\"} 6\n"));
    CHECK(strstr(bytes, "m_seconds_sum{task=\"a\\\"b\"} 200.000005000\n"));
    CHECK(strstr(bytes, "m_seconds_count{task=\"a\\\"b\"} 6\n"));
}
