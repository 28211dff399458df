/* The Date field: its form, and that it follows the clock, once a second. */
#include "task/current.h"
#include "web/date.h"

#include <coir.h>
#include <string.h>

#include "harness.h"

static void expect(int64_t seconds, const char *want)
{
    struct ci_http_date date = {0};
    ci_http_date_format(&date, seconds * COIR_S);
    if (strcmp(date.text, want) != 0)
        test_fail(__FILE__, __LINE__, "%lld: %s", (long long)seconds, date.text);
}

TEST(dates_have_the_form_of_the_rfc)
{
    expect(0, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    expect(784111777, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"); /* the example of RFC 9110 */
    expect(951782399, "Date: Mon, 28 Feb 2000 23:59:59 GMT\r\n");
    expect(951782400, "Date: Tue, 29 Feb 2000 00:00:00 GMT\r\n");
    expect(1798761599, "Date: Thu, 31 Dec 2026 23:59:59 GMT\r\n");
    expect(4102444800, "Date: Fri, 01 Jan 2100 00:00:00 GMT\r\n");
}

TEST_SIM(the_date_follows_the_clock)
{
    struct ci_http_date date = {.second = -1};
    char first[48];
    strcpy(first, ci_http_date_now(&date, ci_worker_current));
    date.text[0] = '?'; /* shows that it is not made again */
    coir_sleep_for(COIR_S / 2);
    bool same_second = ci_worker_now(ci_worker_current) / COIR_S == date.second;
    CHECK_EQ(*ci_http_date_now(&date, ci_worker_current) == '?', same_second);
    for (int i = 0; i < 3; i++) {
        coir_sleep_for(COIR_S);
        CHECK(strcmp(first, ci_http_date_now(&date, ci_worker_current)) != 0);
        CHECK_EQ(strlen(date.text), CI_HTTP_DATE_LEN);
        strcpy(first, date.text);
    }
}
