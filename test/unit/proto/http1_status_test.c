/* The reason phrases of statuses (RFC 9110, 15; RFC 6585 for 429 and 431). */
#include "proto/http1_status.h"

#include <string.h>

#include "harness.h"

TEST(statuses_have_their_registered_phrases)
{
    static const struct {
        int status;
        const char *phrase;
    } some[] = {
        {100, "Continue"},
        {200, "OK"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {404, "Not Found"},
        {413, "Content Too Large"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        CHECK(strcmp(ci_http1_reason(some[i].status), some[i].phrase) == 0);
}

/* What a parser refuses with must have a phrase; phrases differ, and other numbers have none. */
TEST(every_status_of_the_parser_has_a_phrase_of_its_own)
{
    static const int refusals[] = {CI_HTTP1_BAD_REQUEST,        CI_HTTP1_URI_TOO_LONG,
                                   CI_HTTP1_EXPECTATION_FAILED, CI_HTTP1_FIELDS_TOO_LARGE,
                                   CI_HTTP1_NOT_IMPLEMENTED,    CI_HTTP1_VERSION_NOT_SUPPORTED};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        CHECK(*ci_http1_reason(refusals[i]));
    for (int status = 0; status < 1000; status++)
        for (int other = 0; other < status && *ci_http1_reason(status); other++)
            CHECK(strcmp(ci_http1_reason(status), ci_http1_reason(other)) != 0);
    CHECK(!*ci_http1_reason(99) && !*ci_http1_reason(299) && !*ci_http1_reason(600));
}
