/* Names and patterns of topics as a tree of their levels: which patterns match a name, and which
 * names match a pattern. Pure: no lock, no channel. The levels of all nodes are found through one
 * hash table; their order, and the order of a walk, is that in which they were added.
 *
 * 1. A node that is not the root has a use or a child; ci_name_tree_release frees the others.
 * 2. A tree that is freed has no node but its root.
 */
#ifndef CI_SYNC_NAME_TREE_H
#define CI_SYNC_NAME_TREE_H

#include "base/list.h"
#include "base/memory.h"
#include "coir/topic_tree.h"

enum { CI_NAME_LEVELS_MAX = 16 };

struct ci_name_node {
    struct ci_name_node *parent; /* NULL: the root */
    struct ci_list bucket, sibling, children;
    uint64_t id; /* of this node in hashes: its address would make them unlike in each run */
    size_t uses; /* by the topic: subscriptions, watchers, the last item */
    struct ci_list subscriptions, watchers, members;
    size_t member_count;
    void *last;   /* NULL: there is none */
    uint8_t len;  /* of its level */
    char level[]; /* without a NUL */
};

struct ci_name_tree {
    const coir_allocator *allocator;
    struct ci_name_node *root;
    struct ci_list *buckets;
    size_t bucket_count, count, count_max;
    uint64_t seed, next_id;
};

/* Called for each node that a walk finds; it does not change the tree. */
typedef void ci_name_fn(struct ci_name_node *node, void *arg);

/* -ENOMEM. */
int ci_name_tree_init(struct ci_name_tree *tree, const coir_allocator *allocator, uint64_t seed,
                      size_t count_max);
void ci_name_tree_done(struct ci_name_tree *tree);

bool ci_name_is_pattern(const char *text);
/* Whether it may be a pattern, which a name is, too. */
bool ci_name_is_valid(const char *text);

/* The node of a valid name or pattern, or NULL. */
struct ci_name_node *ci_name_tree_find(const struct ci_name_tree *tree, const char *text);

/* As above, and makes it if need be: with one more use. -ENOMEM or -COIR_ETOOLARGE, the tree as it
 * was. */
int ci_name_tree_use(struct ci_name_tree *tree, const char *text, struct ci_name_node **ret_node);

/* Takes back one use. */
void ci_name_tree_release(struct ci_name_tree *tree, struct ci_name_node *node);

/* A node without children; NULL in an empty tree. */
struct ci_name_node *ci_name_tree_leaf(const struct ci_name_tree *tree);

/* Calls fn for all names and patterns in the tree that match a name. */
void ci_name_tree_matching(const struct ci_name_tree *tree, const char *name, ci_name_fn *fn,
                           void *arg);

/* Calls fn for all names in the tree that a pattern matches. */
void ci_name_tree_matched(const struct ci_name_tree *tree, const char *pattern, ci_name_fn *fn,
                          void *arg);

/* Writes the name of a node, of at most COIR_TOPIC_NAME_MAX bytes, and a NUL. */
void ci_name_write(const struct ci_name_node *node, char *name);

#endif
