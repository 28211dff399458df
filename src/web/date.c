/* The Date field: see date.h. strftime is not used: its names depend on the locale. */
#include "web/date.h"

#include <stdio.h>
#include <time.h>

#include "base/check.h"

void ci_http_date_format(struct ci_http_date *date, coir_time wall)
{
    static const char days[] = "SunMonTueWedThuFriSat",
                      months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t seconds = (time_t)(wall / COIR_S);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    /* the remainders do nothing but show the compiler how long the text can get */
    int len =
        snprintf(date->text, sizeof date->text, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n",
                 days + 3 * tm.tm_wday, tm.tm_mday % 100, months + 3 * tm.tm_mon,
                 (tm.tm_year + 1900) % 10000, tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
    ci_check(len == CI_HTTP_DATE_LEN, "date.h 1");
}
