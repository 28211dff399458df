/* The texts of errors. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

static const int meant_by_coir[] = {
    ESRCH,      EXDEV,    ETIME,     ECANCELED,    EDEADLK,  EBUSY,  EAGAIN,        EALREADY,
    EPIPE,      EINVAL,   EBADF,     EADDRINUSE,   EMFILE,   ENFILE, EADDRNOTAVAIL, ECONNREFUSED,
    ECONNRESET, ENOTCONN, ETIMEDOUT, EDESTADDRREQ, EMSGSIZE, ENOBUFS};

TEST(errors_have_texts)
{
    CHECK(strstr(coir_strerror(-COIR_EEND), "the stream ended") != NULL);
    CHECK(strcmp(coir_strerror(-2), "No such file or directory") == 0);
    CHECK(strcmp(coir_strerror(-123456), "unknown error") == 0);
    CHECK(strcmp(coir_strerror(INT_MIN), "unknown error") == 0);
    for (int i = 0; i < (int)(sizeof meant_by_coir / sizeof meant_by_coir[0]); i++) {
        const char *text = coir_strerror(-meant_by_coir[i]);
        /* the C library means something else by it */
        CHECK(strcmp(text, strerror(meant_by_coir[i])) != 0);
        for (int k = 0; k < i; k++)
            CHECK(strcmp(text, coir_strerror(meant_by_coir[k])) != 0);
    }
    CHECK(strstr(coir_strerror(-ESRCH), "outside of a fiber") != NULL);
    CHECK(strstr(coir_strerror(-ETIME), "deadline") != NULL);
}

/* Linux has no error 41, nor 58: glibc's texts for them are in memory that it uses again. */
TEST(a_text_stays_as_it_is)
{
    char copy[100];
    const char *text = coir_strerror(-41);
    snprintf(copy, sizeof copy, "%s", text);
    CHECK(strlen(coir_strerror(-58)) > 0);
    CHECK_EQ(strcmp(text, copy), 0);
}
