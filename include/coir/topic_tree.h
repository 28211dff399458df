/* Topics with hierarchical names: items are published to a name, such as "rooms/7/messages", and
 * subscribers ask for a name or for all names that match a pattern.
 *
 * A name is one or more levels separated by "/": 1 to 16 levels, none of them empty, 127 bytes at
 * most. A pattern is a name in which a level may be
 *
 *   *   any one level: "rooms/x/messages" matches "rooms/7/messages", with "*" in place of "x"
 *   #   at the end, any number of levels, also none: "rooms/#" matches "rooms" and "rooms/7"
 *
 * Elsewhere neither character is allowed. Publishing never waits: a subscription that is full drops
 * items or is closed, as its policy says. All subscribers get the items in one order. */
#ifndef COIR_TOPIC_TREE_H
#define COIR_TOPIC_TREE_H

#include <coir/channel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tree of topics. It is made by coir_topic_tree_new. */
typedef struct coir_topic_tree coir_topic_tree;

/* The longest name or pattern, in bytes. */
#define COIR_TOPIC_NAME_MAX 127

/* Options of a topic tree. */
typedef struct coir_topic_tree_options {
    size_t size;      /* sizeof(coir_topic_tree_options), set by COIR_TOPIC_TREE_OPTIONS */
    size_t item_size; /* bytes of an item */
    /* [none] called for each copy that is queued: an item may be a pointer to something counted */
    void (*ref)(void *item, void *arg);
    /* [none] called for each copy that will not be received. Neither may suspend, or use the
     * tree or its subscriptions. */
    void (*unref)(void *item, void *arg);
    void *arg;
    bool keep_last; /* [false] the last item of each name is kept for new subscriptions */
    /* [65536] levels of names that are in use: by a subscription, or by an item that is kept */
    size_t levels_max;
} coir_topic_tree_options;

#define COIR_TOPIC_TREE_OPTIONS                               \
    {                                                         \
        sizeof(coir_topic_tree_options), 0, 0, 0, 0, false, 0 \
    }

/* Makes a topic tree for items of `item_size` bytes.
 * Suspends: no.  Threads: any.  Owns: *ret_tree is the caller's to free, after its subscriptions.
 * Errors: -ENOMEM; -EINVAL an item of no size, or no ret_tree. */
COIR_API int coir_topic_tree_new(size_t item_size, coir_topic_tree **ret_tree);

/* Makes a topic tree as its options say. As coir_topic_tree_new.
 * Errors also: -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_topic_tree_new_with(const coir_topic_tree_options *options,
                                      coir_topic_tree **ret_tree);

/* Frees a topic tree, whose subscriptions have ended. No task or thread may use it any more. Takes
 * NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_topic_tree_free(coir_topic_tree *tree);

/* Subscribes to all names that match a pattern: makes a channel that gets what is published to them
 * from now on, behind the last item of each, if the tree keeps those. `overflow` says what happens
 * when its `capacity` is used up; coir_channel_lost counts what was dropped. coir_channel_free ends
 * the subscription, in a time that does not depend on how many there are.
 * Suspends: no.  Threads: any.  Owns: *ret_channel is the caller's to free.
 * Errors: -EINVAL no such pattern, a capacity of 0, or COIR_OVERFLOW_WAIT; -COIR_ETOOLARGE
 * levels_max; -EPIPE the tree is closed; -ENOMEM. */
COIR_API int coir_topic_tree_subscribe(coir_topic_tree *tree, const char *pattern, size_t capacity,
                                       enum coir_overflow overflow, coir_channel **ret_channel);

/* Subscribes to one name, as a member: until coir_channel_free, `member` is present there, for
 * those that watch it. A member may join several times, and counts as often. As
 * coir_topic_tree_subscribe.
 * Errors also: -EINVAL `name` is a pattern. */
COIR_API int coir_topic_tree_join(coir_topic_tree *tree, const char *name, uint64_t member,
                                  size_t capacity, enum coir_overflow overflow,
                                  coir_channel **ret_channel);

/* A member has joined a name, or has left it: an item of coir_topic_tree_watch. */
typedef struct coir_presence {
    uint64_t member;                    /* as in coir_topic_tree_join */
    size_t present;                     /* members of the name, behind this change */
    bool joined;                        /* or has left */
    char name[COIR_TOPIC_NAME_MAX + 1]; /* where */
} coir_presence;

/* Watches who is present: makes a channel of coir_presence. It begins with the members that are
 * there already, as though they joined now; then comes every change, in order. What it has lost
 * (coir_channel_lost) cannot be told from it later: watch anew then. As coir_topic_tree_subscribe.
 */
COIR_API int coir_topic_tree_watch(coir_topic_tree *tree, const char *pattern, size_t capacity,
                                   enum coir_overflow overflow, coir_channel **ret_channel);

/* Publishes an item to a name, and returns how many subscriptions it was queued for.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL no such name, or a pattern; -EPIPE the tree is closed; and where it keeps the
 * last item: -COIR_ETOOLARGE levels_max; -ENOMEM. After an error no subscriber got it. */
COIR_API int coir_topic_tree_publish(coir_topic_tree *tree, const char *name, const void *item);

/* Copies the last item that was published to a name to `ret_item`.
 * Suspends: no.  Threads: any.  Owns: the copy is the caller's: `ref` was called for it.
 * Errors: -ENODATA there is none; -EINVAL no such name, or no ret_item. */
COIR_API int coir_topic_tree_last(coir_topic_tree *tree, const char *name, void *ret_item);

/* Drops the last item of a name, which new subscriptions will not get.
 * Suspends: no.  Threads: any.
 * Errors: -ENODATA there is none; -EINVAL no such name. */
COIR_API int coir_topic_tree_forget(coir_topic_tree *tree, const char *name);

/* How many members are present in a name.
 * Suspends: no.  Threads: any. */
COIR_API size_t coir_topic_tree_present(coir_topic_tree *tree, const char *name);

/* Closes a topic tree: publishing and subscribing fail with -EPIPE from now on; subscribers get
 * what is queued, then -EPIPE. Closing twice does nothing.
 * Suspends: no.  Threads: any. */
COIR_API void coir_topic_tree_close(coir_topic_tree *tree);

#ifdef __cplusplus
}
#endif

#endif
