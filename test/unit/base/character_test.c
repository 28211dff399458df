/* Characters of names: how long they are, whether they may be shown, and where copies end. */
#include "base/character.h"

#include <string.h>

#include "harness.h"

TEST(a_character_has_its_length)
{
    CHECK_EQ(ci_character_len(""), 1);
    CHECK_EQ(ci_character_len("a\xc3"), 1);
    CHECK_EQ(ci_character_len("\xc3\xb6"), 2);
    CHECK_EQ(ci_character_len("\xe2\x82\xac"), 3);
    CHECK_EQ(ci_character_len("\xf0\x9f\x98\x80"), 4);
    CHECK_EQ(ci_character_len("\xf4\x8f\xbf\xbf"), 4);
}

TEST(what_is_not_utf_8_has_none)
{
    static const char *const wrong[] = {"\x80",
                                        "\xbf",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xc3",
                                        "\xc3z",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xe2\x82",
                                        "\xe2\x82z",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf0\x9f\x98",
                                        "\xf5\x80\x80",
                                        "\xff"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_EQ(ci_character_len(wrong[i]), 0);
}

TEST(what_may_not_be_shown_becomes_question_marks)
{
    char text[] = "a\x01\xc2\x85\xff \xe2\x82\xac\xe2\x82";
    ci_character_make_plain(text);
    CHECK_EQ(strcmp(text, "a???? \xe2\x82\xac??"), 0);
}

static bool is_plain(const char *text)
{
    return ci_character_is_plain(text, ci_character_len(text));
}

TEST(what_a_terminal_would_obey_is_not_plain)
{
    CHECK(is_plain(" ") && is_plain("~") && is_plain("\xc3\xb6") && is_plain("\xc2\xa0"));
    CHECK(!is_plain("\x1b") && !is_plain("\n") && !is_plain("\x7f"));
    CHECK(!is_plain("\xc2\x80") && !is_plain("\xc2\x9b") && !is_plain("\xc2\x9f"));
    CHECK(!is_plain("\x9b"));
}

TEST(a_copy_ends_with_a_whole_character)
{
    CHECK_EQ(ci_character_cut("abc", 3), 3);
    CHECK_EQ(ci_character_cut("abcd", 3), 3);
    CHECK_EQ(ci_character_cut("ab", 3), 2);
    CHECK_EQ(ci_character_cut("ab\xc3\xb6", 3), 2);
    CHECK_EQ(ci_character_cut("ab\xc3\xb6", 4), 4);
    CHECK_EQ(ci_character_cut("\xe2\x82\xac\xe2\x82\xac", 5), 3);
    CHECK_EQ(ci_character_cut("\xf0\x9f\x98\x80", 3), 0);
    CHECK_EQ(ci_character_cut("ab\xff\xff", 3), 3); /* there are no characters to keep */
    CHECK_EQ(ci_character_cut("\x80\x80\x80\x80\x80", 4), 4);
    CHECK_EQ(ci_character_cut("\xc3\xb6", 0), 0);
}
