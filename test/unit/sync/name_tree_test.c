/* The tree of names: what matches, beside an oracle that compares level by level; what it holds,
 * and when there is no memory or no room. */
#include "sync/name_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "harness.h"

enum { TEXTS = 60, ROUNDS = 3000 };

static size_t allocated, allowance = SIZE_MAX;

static void *counted_alloc(size_t size, void *arg)
{
    (void)arg;
    if (allowance == 0)
        return NULL;
    allowance--;
    allocated += size;
    return malloc(size);
}

static void counted_free(void *memory, size_t size, void *arg)
{
    (void)arg;
    allocated -= size;
    free(memory);
}

static const coir_allocator counted = COIR_ALLOCATOR(counted_alloc, counted_free, NULL);

/* ---- the oracle ---- */

static const char *behind(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash ? slash + 1 : NULL;
}

static bool same_level(const char *a, const char *b)
{
    size_t len = strcspn(a, "/");
    return len == strcspn(b, "/") && strncmp(a, b, len) == 0;
}

/* NULL: no level is left. */
static bool matches(const char *pattern, const char *name)
{
    if (!pattern)
        return !name;
    if (strcmp(pattern, "#") == 0)
        return true;
    return name &&
           (strncmp(pattern, "*", strcspn(pattern, "/")) == 0 || same_level(pattern, name)) &&
           matches(behind(pattern), behind(name));
}

/* ---- drawing ---- */

static void draw(struct ci_random *random, bool pattern, char *text)
{
    static const char *const levels[] = {"a", "b", "aa", "*", "#"};
    int count = 1 + (int)ci_random_below(random, 4);
    *text = '\0';
    for (int i = 0; i < count; i++) {
        const char *level = levels[ci_random_below(random, pattern ? 5 : 3)];
        if (i)
            strcat(text, "/");
        strcat(text, level);
        if (*level == '#')
            return;
    }
}

struct found {
    char names[2 * TEXTS][COIR_TOPIC_NAME_MAX + 1];
    int count;
};

static void note(struct ci_name_node *node, void *arg)
{
    struct found *found = arg;
    if (node->uses) {
        CHECK(found->count < 2 * TEXTS);
        ci_name_write(node, found->names[found->count++]);
    }
}

static int times(const struct found *found, const char *text)
{
    int times = 0;
    for (int i = 0; i < found->count; i++)
        times += strcmp(found->names[i], text) == 0;
    return times;
}

struct world {
    struct ci_name_tree tree;
    char texts[TEXTS][COIR_TOPIC_NAME_MAX + 1];
    struct ci_name_node *nodes[TEXTS]; /* NULL: not in the tree */
    struct found found;
};

static bool is_there(const struct world *w, const char *text)
{
    for (int i = 0; i < TEXTS; i++)
        if (w->nodes[i] && strcmp(w->texts[i], text) == 0)
            return true;
    return false;
}

/* Each text that is in the tree and matches is found once; and nothing else. */
static void check_walk(struct world *w, const char *text, bool is_pattern)
{
    w->found.count = 0;
    if (is_pattern)
        ci_name_tree_matched(&w->tree, text, note, &w->found);
    else
        ci_name_tree_matching(&w->tree, text, note, &w->found);
    for (int i = 0; i < w->found.count; i++)
        CHECK(is_there(w, w->found.names[i]));
    for (int i = 0; i < TEXTS; i++) {
        bool match = !is_pattern                       ? matches(w->texts[i], text)
                     : ci_name_is_pattern(w->texts[i]) ? false
                                                       : matches(text, w->texts[i]);
        CHECK_EQ(times(&w->found, w->texts[i]), match && is_there(w, w->texts[i]));
    }
}

TEST(what_matches_is_what_the_oracle_says)
{
    static struct world w;
    struct ci_random random = {7};
    CHECK_EQ(ci_name_tree_init(&w.tree, &counted, 99, 1000), 0);
    for (int round = 0; round < ROUNDS; round++) {
        int i = (int)ci_random_below(&random, TEXTS);
        if (w.nodes[i]) {
            CHECK(ci_name_tree_find(&w.tree, w.texts[i]) == w.nodes[i]);
            ci_name_tree_release(&w.tree, w.nodes[i]);
            w.nodes[i] = NULL;
        } else {
            draw(&random, ci_random_below(&random, 2), w.texts[i]);
            CHECK(ci_name_is_valid(w.texts[i]));
            CHECK_EQ(ci_name_tree_use(&w.tree, w.texts[i], &w.nodes[i]), 0);
        }
        char text[COIR_TOPIC_NAME_MAX + 1];
        draw(&random, false, text);
        check_walk(&w, text, false);
        draw(&random, true, text);
        check_walk(&w, text, true);
    }
    for (int i = 0; i < TEXTS; i++)
        if (w.nodes[i])
            ci_name_tree_release(&w.tree, w.nodes[i]);
    CHECK(ci_name_tree_leaf(&w.tree) == NULL);
    ci_name_tree_done(&w.tree);
    CHECK_EQ(allocated, 0);
}

TEST(the_documented_examples_match)
{
    static const struct {
        const char *pattern, *name;
        bool match;
    } rows[] = {
        {"rooms/*/messages", "rooms/7/messages", true},
        {"rooms/*/messages", "rooms/messages", false},
        {"rooms/*", "rooms/7/messages", false},
        {"rooms/#", "rooms", true},
        {"rooms/#", "rooms/7", true},
        {"rooms/#", "rooms/7/messages", true},
        {"rooms/#", "room", false},
        {"#", "a/b/c", true},
        {"*", "a", true},
        {"*", "a/b", false},
        {"*/#", "a", true},
        {"*/b", "a/b", true},
        {"a", "a", true},
        {"a", "aa", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ci_name_tree tree;
        struct ci_name_node *node;
        struct found *found = calloc(1, sizeof *found);
        CHECK_EQ(ci_name_tree_init(&tree, &counted, i, 10), 0);
        CHECK_EQ(ci_name_tree_use(&tree, rows[i].pattern, &node), 0);
        ci_name_tree_matching(&tree, rows[i].name, note, found);
        CHECK_EQ(found->count, rows[i].match);
        CHECK_EQ(matches(rows[i].pattern, rows[i].name), rows[i].match);
        ci_name_tree_release(&tree, node);
        ci_name_tree_done(&tree);
        free(found);
    }
}

TEST(what_is_valid)
{
    static const char *const valid[] = {
        "a",     "a/b",   "*",           "#",
        "a/*/b", "*/*/#", "\xc3\xa4/ b", "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16"};
    static const char *const invalid[] = {
        "",     "/",   "a/", "/a",   "a//b", "a*",
        "a/b#", "#/a", "**", "a/##", "*a/b", "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"};
    char text[COIR_TOPIC_NAME_MAX + 2];
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
        CHECK(ci_name_is_valid(valid[i]));
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        CHECK(!ci_name_is_valid(invalid[i]));
    memset(text, 'x', sizeof text);
    text[COIR_TOPIC_NAME_MAX] = '\0';
    CHECK(ci_name_is_valid(text));
    text[COIR_TOPIC_NAME_MAX] = 'x';
    text[COIR_TOPIC_NAME_MAX + 1] = '\0';
    CHECK(!ci_name_is_valid(text));
    CHECK(ci_name_is_pattern("a/*") && ci_name_is_pattern("#") && !ci_name_is_pattern("a/b"));
}

TEST(the_longest_name_is_written_back)
{
    struct ci_name_tree tree;
    struct ci_name_node *node;
    char text[COIR_TOPIC_NAME_MAX + 1], written[COIR_TOPIC_NAME_MAX + 1];
    for (size_t i = 0; i < COIR_TOPIC_NAME_MAX; i++)
        text[i] = i % 9 == 8 && i < 126 ? '/' : (char)('a' + i % 26);
    text[COIR_TOPIC_NAME_MAX] = '\0';
    CHECK(ci_name_is_valid(text));
    CHECK_EQ(ci_name_tree_init(&tree, &counted, 1, 100), 0);
    CHECK_EQ(ci_name_tree_use(&tree, text, &node), 0);
    ci_name_write(node, written);
    CHECK(strcmp(text, written) == 0);
    ci_name_write(tree.root, written);
    CHECK(*written == '\0');
    ci_name_tree_release(&tree, node);
    ci_name_tree_done(&tree);
}

TEST(a_tree_that_is_full_is_left_as_it_was)
{
    struct ci_name_tree tree;
    struct ci_name_node *a, *b;
    CHECK_EQ(ci_name_tree_init(&tree, &counted, 1, 3), 0);
    CHECK_EQ(ci_name_tree_use(&tree, "a/b", &a), 0);
    CHECK_EQ(ci_name_tree_use(&tree, "c/d", &b), -COIR_ETOOLARGE);
    CHECK_EQ(tree.count, 2);
    CHECK(ci_name_tree_find(&tree, "c") == NULL);
    CHECK_EQ(ci_name_tree_use(&tree, "c", &b), 0);
    ci_name_tree_release(&tree, a);
    CHECK_EQ(tree.count, 1);
    ci_name_tree_release(&tree, b);
    ci_name_tree_done(&tree);
    CHECK_EQ(allocated, 0);
}

static int use_many(struct ci_name_tree *tree)
{
    struct ci_name_node *nodes[200];
    int rc = 0, count = 0;
    while (rc == 0 && count < 200) {
        char text[32];
        snprintf(text, sizeof text, "room/%d/x", count);
        rc = ci_name_tree_use(tree, text, &nodes[count]);
        count += rc == 0;
    }
    while (count > 0)
        ci_name_tree_release(tree, nodes[--count]);
    return rc;
}

TEST(a_tree_without_memory_is_left_as_it_was)
{
    int rc = -ENOMEM;
    for (size_t given = 0; rc < 0; given++) {
        struct ci_name_tree tree;
        CHECK(given < 1000);
        allowance = given;
        rc = ci_name_tree_init(&tree, &counted, 1, 1000);
        if (rc == 0) {
            rc = use_many(&tree);
            CHECK_EQ(tree.count, 0);
            ci_name_tree_done(&tree);
        }
        CHECK(rc == 0 || rc == -ENOMEM);
        CHECK_EQ(allocated, 0);
    }
    allowance = SIZE_MAX;
}
