#include "sync/name_tree.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"

enum { BUCKETS_LEAST = 16 };

/* A level of a text, and what comes behind it: "" at the end. */
struct level {
    const char *text, *next;
    size_t len;
};

static struct level level_of(const char *text)
{
    size_t len = strcspn(text, "/");
    return (struct level){text, text + len + (text[len] == '/'), len};
}

static bool is_wildcard(const char *level, size_t len)
{
    return len == 1 && (*level == '*' || *level == '#');
}

bool ci_name_is_pattern(const char *text)
{
    return strpbrk(text, "*#") != NULL;
}

bool ci_name_is_valid(const char *text)
{
    size_t len = strnlen(text, COIR_TOPIC_NAME_MAX + 1);
    if (len == 0 || len > COIR_TOPIC_NAME_MAX || text[len - 1] == '/')
        return false;
    for (int levels = 1; *text; levels++) {
        struct level level = level_of(text);
        size_t plain = strcspn(level.text, "*#");
        if (level.len == 0 || levels > CI_NAME_LEVELS_MAX ||
            (plain < level.len && !is_wildcard(level.text, level.len)) ||
            (*level.text == '#' && *level.next))
            return false;
        text = level.next;
    }
    return true;
}

/* ---- nodes ---- */

/* Keyed by a seed, so that no choice of names makes a bucket long. */
static uint64_t hash(const struct ci_name_tree *tree, uint64_t parent, const char *level,
                     size_t len)
{
    uint64_t h = tree->seed ^ (parent * 0x9e3779b97f4a7c15u);
    for (size_t i = 0; i < len; i++) {
        h = (h ^ (unsigned char)level[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 29;
    }
    return (h * 0xc4ceb9fe1a85ec53u) >> 20;
}

static struct ci_list *bucket_of(const struct ci_name_tree *tree, uint64_t parent,
                                 const char *level, size_t len)
{
    return &tree->buckets[hash(tree, parent, level, len) & (tree->bucket_count - 1)];
}

static struct ci_name_node *child_of(const struct ci_name_tree *tree,
                                     const struct ci_name_node *parent, const char *level,
                                     size_t len)
{
    ci_list_for_each (link, bucket_of(tree, parent->id, level, len)) {
        struct ci_name_node *node = ci_container_of(link, struct ci_name_node, bucket);
        if (node->parent == parent && node->len == len && memcmp(node->level, level, len) == 0)
            return node;
    }
    return NULL;
}

/* Without memory for more buckets the lists in them grow instead. */
static void grow(struct ci_name_tree *tree)
{
    size_t count = tree->bucket_count * 2;
    struct ci_list *old = tree->buckets,
                   *buckets = ci_alloc(tree->allocator, count * sizeof *buckets);
    if (!buckets)
        return;
    for (size_t i = 0; i < count; i++)
        ci_list_init(&buckets[i]);
    tree->buckets = buckets;
    tree->bucket_count = count;
    for (size_t i = 0; i < count / 2; i++)
        for (struct ci_list *link; (link = ci_list_pop(&old[i]));) {
            struct ci_name_node *node = ci_container_of(link, struct ci_name_node, bucket);
            ci_list_push(bucket_of(tree, node->parent->id, node->level, node->len), link);
        }
    ci_free(tree->allocator, old, count / 2 * sizeof *old);
}

static struct ci_name_node *new_node(struct ci_name_tree *tree, struct ci_name_node *parent,
                                     const char *level, size_t len)
{
    struct ci_name_node *node = ci_alloc_zero(tree->allocator, sizeof *node + len);
    if (!node)
        return NULL;
    node->parent = parent;
    node->id = tree->next_id++;
    node->len = (uint8_t)len;
    if (len)
        memcpy(node->level, level, len);
    ci_list_init(&node->bucket);
    ci_list_init(&node->sibling);
    ci_list_init(&node->children);
    ci_list_init(&node->subscriptions);
    ci_list_init(&node->watchers);
    ci_list_init(&node->members);
    return node;
}

static struct ci_name_node *add_child(struct ci_name_tree *tree, struct ci_name_node *parent,
                                      const char *level, size_t len)
{
    struct ci_name_node *node = new_node(tree, parent, level, len);
    if (!node)
        return NULL;
    if (++tree->count > tree->bucket_count)
        grow(tree);
    ci_list_push(bucket_of(tree, parent->id, level, len), &node->bucket);
    ci_list_push(&parent->children, &node->sibling);
    return node;
}

static bool is_needed(const struct ci_name_node *node)
{
    return !node->parent || node->uses || !ci_list_empty(&node->children);
}

/* Frees a node, and those above it, up to the first one that is needed. */
static void prune(struct ci_name_tree *tree, struct ci_name_node *node)
{
    while (!is_needed(node)) {
        struct ci_name_node *parent = node->parent;
        ci_list_remove(&node->bucket);
        ci_list_remove(&node->sibling);
        tree->count--;
        ci_free(tree->allocator, node, sizeof *node + node->len);
        node = parent;
    }
    ci_debug_check(is_needed(node), "name_tree.h 1");
}

int ci_name_tree_init(struct ci_name_tree *tree, const coir_allocator *allocator, uint64_t seed,
                      size_t count_max)
{
    *tree = (struct ci_name_tree){.allocator = allocator,
                                  .seed = seed,
                                  .count_max = count_max,
                                  .bucket_count = BUCKETS_LEAST};
    tree->root = new_node(tree, NULL, "", 0);
    tree->buckets = ci_alloc(allocator, BUCKETS_LEAST * sizeof *tree->buckets);
    if (!tree->root || !tree->buckets) {
        ci_name_tree_done(tree);
        return -ENOMEM;
    }
    for (size_t i = 0; i < BUCKETS_LEAST; i++)
        ci_list_init(&tree->buckets[i]);
    return 0;
}

void ci_name_tree_done(struct ci_name_tree *tree)
{
    ci_check(tree->count == 0, "name_tree.h 2");
    ci_free(tree->allocator, tree->buckets, tree->bucket_count * sizeof *tree->buckets);
    ci_free(tree->allocator, tree->root, sizeof *tree->root);
}

struct ci_name_node *ci_name_tree_find(const struct ci_name_tree *tree, const char *text)
{
    struct ci_name_node *node = tree->root;
    while (node && *text) {
        struct level level = level_of(text);
        node = child_of(tree, node, level.text, level.len);
        text = level.next;
    }
    return node;
}

int ci_name_tree_use(struct ci_name_tree *tree, const char *text, struct ci_name_node **ret_node)
{
    struct ci_name_node *node = tree->root;
    while (*text) {
        struct level level = level_of(text);
        struct ci_name_node *child = child_of(tree, node, level.text, level.len);
        bool full = !child && tree->count >= tree->count_max;
        if (!child && !full)
            child = add_child(tree, node, level.text, level.len);
        if (!child) {
            prune(tree, node);
            return full ? -COIR_ETOOLARGE : -ENOMEM;
        }
        node = child;
        text = level.next;
    }
    node->uses++;
    *ret_node = node;
    return 0;
}

void ci_name_tree_release(struct ci_name_tree *tree, struct ci_name_node *node)
{
    node->uses--;
    prune(tree, node);
}

struct ci_name_node *ci_name_tree_leaf(const struct ci_name_tree *tree)
{
    struct ci_name_node *node = tree->root;
    while (!ci_list_empty(&node->children))
        node = ci_container_of(node->children.next, struct ci_name_node, sibling);
    return node->parent ? node : NULL;
}

/* ---- walks: their depth is that of the names ---- */

struct walk {
    const struct ci_name_tree *tree;
    ci_name_fn *fn;
    void *arg;
};

static void walk_patterns(const struct walk *walk, struct ci_name_node *node, const char *rest)
{
    struct ci_name_node *all = child_of(walk->tree, node, "#", 1);
    if (all)
        walk->fn(all, walk->arg);
    if (!*rest) {
        walk->fn(node, walk->arg);
        return;
    }
    struct level level = level_of(rest);
    struct ci_name_node *same = child_of(walk->tree, node, level.text, level.len),
                        *any = child_of(walk->tree, node, "*", 1);
    if (same)
        walk_patterns(walk, same, level.next);
    if (any)
        walk_patterns(walk, any, level.next);
}

void ci_name_tree_matching(const struct ci_name_tree *tree, const char *name, ci_name_fn *fn,
                           void *arg)
{
    walk_patterns(&(struct walk){tree, fn, arg}, tree->root, name);
}

static void walk_names(const struct walk *walk, struct ci_name_node *node, const char *rest)
{
    bool whole = *rest == '#'; /* all that is below; it stands for itself again there */
    if ((!*rest || whole) && node->parent)
        walk->fn(node, walk->arg);
    if (!*rest)
        return;
    struct level level = level_of(rest);
    if (!is_wildcard(level.text, level.len)) {
        struct ci_name_node *same = child_of(walk->tree, node, level.text, level.len);
        if (same)
            walk_names(walk, same, level.next);
        return;
    }
    ci_list_for_each (link, &node->children) {
        struct ci_name_node *child = ci_container_of(link, struct ci_name_node, sibling);
        if (!is_wildcard(child->level, child->len))
            walk_names(walk, child, whole ? rest : level.next);
    }
}

void ci_name_tree_matched(const struct ci_name_tree *tree, const char *pattern, ci_name_fn *fn,
                          void *arg)
{
    walk_names(&(struct walk){tree, fn, arg}, tree->root, pattern);
}

void ci_name_write(const struct ci_name_node *node, char *name)
{
    char reversed[COIR_TOPIC_NAME_MAX + 1];
    size_t at = sizeof reversed;
    for (; node->parent; node = node->parent) {
        at -= node->len + 1u;
        reversed[at] = '/';
        memcpy(reversed + at + 1, node->level, node->len);
    }
    size_t len = sizeof reversed - at;
    if (len)
        memcpy(name, reversed + at + 1, len - 1);
    name[len ? len - 1 : 0] = '\0';
}
