/* Hosts, ports and escapes of URIs, by themselves and in requests. */
#include "proto/uri.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "proto/http1.h"

static int parse(const char *text)
{
    static const struct ci_http1_limits limits = {200, 1000};
    static struct ci_http1_head head;
    ci_http1_head_init(&head);
    return ci_http1_parse(&head, &limits, text, strlen(text));
}

static bool host_accepted(const char *host)
{
    char text[300];
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    bool accepted = ci_uri_host_is_valid(host, host + strlen(host));
    CHECK_EQ(parse(text), accepted ? (int)strlen(text) : -400);
    return accepted;
}

static bool target_accepted(const char *method, const char *target)
{
    char text[300];
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: a\r\n\r\n", method, target);
    int rc = parse(text);
    CHECK(rc > 0 || rc == -400);
    return rc > 0;
}

/* RFC 3986, 3.2.2: IP-literal / IPv4address / reg-name; RFC 9110, 7.2: and a port. The same in the
 * field and in a target. */
TEST(hosts_follow_the_grammar)
{
    static const char *const good[] = {
        "a",
        "a.b-c_d~e",
        "a:80",
        "a:",
        "a:0080",
        "1.2.3.4",
        "999.1.1.1",
        "a%7Eb",
        "!$&'()*+,;=",
        "%00",
        "[::]",
        "[::]:80",
        "[::1]:",
        "[1:2:3:4:5:6:7:8]",
        "[1::8]",
        "[::2:3:4:5:6:7:8]",
        "[1:2:3:4:5:6:7::]",
        "[1:2:3:4:5:6:1.2.3.4]",
        "[::1.2.3.4]",
        "[1::1.2.3.4]",
        "[::2:3:4:5:6:255.255.255.0]",
        "[aBcD::FFFF]",
        "[v1.a]",
        "[V0f.a:b!]:1",
    };
    static const char *const bad[] = {
        "a[b:80",
        "a]",
        "a]b:80",
        "[a]b]",
        "[]",
        "[zz]",
        "a%zz",
        "a%",
        "a%2",
        "%",
        ":80",
        ":",
        "a:b",
        "a:80:80",
        "a:-1",
        "::1",
        "a b",
        "a/b",
        "a@b",
        "a?b",
        "a#b",
        "a\"b",
        "a<b",
        "a|b",
        "a\\b",
        "a^b",
        "a{b}",
        "\xc3\xa4",
        "[",
        "]",
        "[:]",
        "[1]",
        "[:::]",
        "[1:::2]",
        "[::1::]",
        "[1:2:3:4:5:6:7]",
        "[1:2:3:4:5:6:7:8:9]",
        "[1:2:3:4:5:6:7:8::]",
        "[::1:2:3:4:5:6:7:8]",
        "[12345::]",
        "[g::]",
        "[1:]",
        "[:1]",
        "[:1::]",
        "[1::2:]",
        "[::1.2.3]",
        "[::1.2.3.4.5]",
        "[::1.2.3.256]",
        "[::01.2.3.4]",
        "[::1.2.3.]",
        "[::.1.2.3]",
        "[1.2.3.4]",
        "[1.2.3.4::]",
        "[::1.2.3.4:5]",
        "[1:2:3:4:5:6:7:1.2.3.4]",
        "[::2:3:4:5:6:7:1.2.3.4]",
        "[fe80::1%25en0]",
        "[fe80::1%en0]",
        "[v.a]",
        "[v1.]",
        "[v1a]",
        "[vg.a]",
        "[1.a]",
        "[v1.a%41]",
        "[v1.[]",
        "[::1]80",
        "[::1]a:80",
        "[::1]]",
        "[[::1]]",
        "[::1]:a",
        "[::1",
        "[::1:80",
    };
    char target[300];
    CHECK(host_accepted(""));
    for (size_t i = 0; i < ci_countof(good); i++) {
        snprintf(target, sizeof target, "http://%s/", good[i]);
        if (!host_accepted(good[i]) || !target_accepted("GET", target))
            test_fail(__FILE__, __LINE__, "refused: %s", good[i]);
    }
    for (size_t i = 0; i < ci_countof(bad); i++) {
        snprintf(target, sizeof target, "http://%s/", bad[i]);
        bool path_instead = strchr(bad[i], '/') || strchr(bad[i], '?');
        if (host_accepted(bad[i]) || (!path_instead && target_accepted("GET", target)))
            test_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
    }
    CHECK(target_accepted("CONNECT", "a:1") && target_accepted("CONNECT", "[::1]:65535") &&
          target_accepted("CONNECT", "a:00443"));
    CHECK(!target_accepted("CONNECT", "a:") && !target_accepted("CONNECT", "a") &&
          !target_accepted("CONNECT", "a:0"));
    CHECK(!target_accepted("CONNECT", "a:65536") && !target_accepted("CONNECT", "a:4294967297") &&
          !target_accepted("CONNECT", "[zz]:1"));
}

TEST(paths_can_be_decoded)
{
    CHECK(target_accepted("GET", "/%41%2f%ff") && target_accepted("GET", "/?%") &&
          target_accepted("GET", "/?%zz%00"));
    CHECK(target_accepted("GET", "http://a/%41") && target_accepted("GET", "http://a?%"));
    CHECK(!target_accepted("GET", "/%") && !target_accepted("GET", "/%4") &&
          !target_accepted("GET", "/%4?1"));
    CHECK(!target_accepted("GET", "/%zz") && !target_accepted("GET", "/%4g") &&
          !target_accepted("GET", "/%00") && !target_accepted("GET", "/a%00?"));
    CHECK(!target_accepted("GET", "http://a/%4") && !target_accepted("GET", "http://a/%00"));
}
