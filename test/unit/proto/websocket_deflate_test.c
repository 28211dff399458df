/* The negotiation of permessage-deflate: elements, offers and answers by table. */
#include "proto/websocket_deflate.h"

#include <string.h>

#include "harness.h"

/* What an element says, in the form of an answer, or as the result where it is not 1. */
static void expect(const char *element, bool answer, const char *want)
{
    struct ci_ws_deflate deflate;
    char text[CI_WS_DEFLATE_TEXT] = "malformed";
    int rc = ci_ws_parse_deflate(element, strlen(element), answer, &deflate);
    if (rc == 0)
        strcpy(text, "declined");
    if (rc > 0)
        CHECK_EQ(ci_ws_write_deflate(&deflate, answer, text), strlen(text));
    if (strcmp(text, want) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s, not %s", element, text, want);
}

TEST(elements)
{
    static const char *const cases[][2] = {
        {"permessage-deflate", "permessage-deflate"},
        {" PerMessage-Deflate ", "permessage-deflate"},
        {"permessage-deflate; server_no_context_takeover",
         "permessage-deflate; server_no_context_takeover"},
        {"permessage-deflate;client_no_context_takeover ; SERVER_NO_CONTEXT_TAKEOVER",
         "permessage-deflate; server_no_context_takeover; client_no_context_takeover"},
        {"permessage-deflate; server_max_window_bits=8",
         "permessage-deflate; server_max_window_bits=8"},
        {"permessage-deflate; server_max_window_bits=15",
         "permessage-deflate; server_max_window_bits=15"},
        {"permessage-deflate; server_max_window_bits = \"10\"",
         "permessage-deflate; server_max_window_bits=10"},
        {"permessage-deflate; client_max_window_bits",
         "permessage-deflate; client_max_window_bits"},
        {"permessage-deflate; client_max_window_bits=12",
         "permessage-deflate; client_max_window_bits=12"},
        {"permessage-deflate; server_max_window_bits", "declined"},
        {"permessage-deflate; server_max_window_bits=7", "declined"},
        {"permessage-deflate; server_max_window_bits=16", "declined"},
        {"permessage-deflate; server_max_window_bits=08", "declined"},
        {"permessage-deflate; server_max_window_bits=100", "declined"},
        {"permessage-deflate; server_max_window_bits=9; server_max_window_bits=9", "declined"},
        {"permessage-deflate; client_max_window_bits=9; client_max_window_bits", "declined"},
        {"permessage-deflate; server_no_context_takeover=1", "declined"},
        {"permessage-deflate; client_no_context_takeover; client_no_context_takeover", "declined"},
        {"permessage-deflate; unknown", "declined"},
        {"permessage-bzip2", "declined"},
        {"x-webkit-deflate-frame; a=\"b\"", "declined"},
        {"", "malformed"},
        {"permessage-deflate;", "malformed"},
        {"permessage-deflate; =1", "malformed"},
        {"permessage-deflate; a=", "malformed"},
        {"permessage-deflate; a=\"b", "malformed"},
        {"permessage-deflate; a=\"\"", "malformed"},
        {"permessage-deflate; a=\"b c\"", "malformed"},
        {"permessage-deflate b", "malformed"},
        {"; a", "malformed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(cases[i][0], false, cases[i][1]);
    expect("permessage-deflate; client_max_window_bits", true, "declined"); /* 7.1.2.2 */
    expect("permessage-deflate; client_max_window_bits=9", true,
           "permessage-deflate; client_max_window_bits=9");
}

TEST(what_a_server_agrees_to)
{
    static const struct {
        struct ci_ws_deflate ours;
        const char *offer, *answer; /* NULL: declined */
    } cases[] = {
        {{.on = false}, "permessage-deflate", NULL},
        {{.on = true}, "permessage-deflate", "permessage-deflate"},
        {{.on = true},
         "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
         "permessage-deflate; server_no_context_takeover; client_no_context_takeover"},
        {{.on = true, .server_resets = true, .client_resets = true},
         "permessage-deflate",
         "permessage-deflate; server_no_context_takeover; client_no_context_takeover"},
        {{.on = true},
         "permessage-deflate; server_max_window_bits=10",
         "permessage-deflate; server_max_window_bits=10"},
        {{.on = true, .server_bits = 9},
         "permessage-deflate; server_max_window_bits=10",
         "permessage-deflate; server_max_window_bits=9"},
        {{.on = true, .server_bits = 12},
         "permessage-deflate; server_max_window_bits=10",
         "permessage-deflate; server_max_window_bits=10"},
        {{.on = true}, "permessage-deflate; server_max_window_bits=8", NULL}, /* zlib cannot */
        {{.on = true, .client_bits = 9}, "permessage-deflate", "permessage-deflate"},
        {{.on = true, .client_bits = 9},
         "permessage-deflate; client_max_window_bits",
         "permessage-deflate; client_max_window_bits=9"},
        {{.on = true, .client_bits = 12},
         "permessage-deflate; client_max_window_bits=10",
         "permessage-deflate; client_max_window_bits=10"},
        {{.on = true},
         "permessage-deflate; client_max_window_bits=8",
         "permessage-deflate; client_max_window_bits=8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ci_ws_deflate offer, agreed;
        char text[CI_WS_DEFLATE_TEXT];
        CHECK_EQ(ci_ws_parse_deflate(cases[i].offer, strlen(cases[i].offer), false, &offer), 1);
        bool agrees = ci_ws_agree_deflate(&cases[i].ours, &offer, &agreed);
        CHECK_EQ(agrees, cases[i].answer != NULL);
        if (agrees) {
            ci_ws_write_deflate(&agreed, true, text);
            CHECK(strcmp(text, cases[i].answer) == 0);
        }
    }
}

TEST(what_a_client_accepts)
{
    static const struct {
        const char *offer, *answer;
        bool accepts;
        int client_bits;
    } cases[] = {
        {"permessage-deflate", "permessage-deflate", true, 0},
        {"permessage-deflate", "permessage-deflate; server_no_context_takeover", true, 0},
        {"permessage-deflate", "permessage-deflate; client_no_context_takeover", true, 0},
        {"permessage-deflate", "permessage-deflate; client_max_window_bits=9", false, 0},
        {"permessage-deflate; client_max_window_bits",
         "permessage-deflate; client_max_window_bits=9", true, 9},
        {"permessage-deflate; client_max_window_bits=10", "permessage-deflate", true, 10},
        {"permessage-deflate; server_no_context_takeover", "permessage-deflate", false, 0},
        {"permessage-deflate; server_max_window_bits=10",
         "permessage-deflate; server_max_window_bits=10", true, 0},
        {"permessage-deflate; server_max_window_bits=10",
         "permessage-deflate; server_max_window_bits=11", false, 0},
        {"permessage-deflate; server_max_window_bits=10", "permessage-deflate", false, 0},
        {"permessage-deflate", "permessage-deflate; server_max_window_bits=9", true, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ci_ws_deflate offer, answer, none = {0};
        CHECK_EQ(ci_ws_parse_deflate(cases[i].offer, strlen(cases[i].offer), false, &offer), 1);
        CHECK_EQ(ci_ws_parse_deflate(cases[i].answer, strlen(cases[i].answer), true, &answer), 1);
        CHECK(!ci_ws_accept_deflate(&none, &answer));
        CHECK_EQ(ci_ws_accept_deflate(&offer, &answer), cases[i].accepts);
        if (cases[i].accepts)
            CHECK_EQ(answer.client_bits, cases[i].client_bits);
    }
}
