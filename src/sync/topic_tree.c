/* Topic trees: channels that share one lock, at the nodes of a tree of names. Items and changes of
 * presence are delivered under the lock, so all subscribers get them in one order.
 *
 * 1. No delivery waits: there is no subscription with COIR_OVERFLOW_WAIT.
 * 2. A tree that is freed has no subscriptions.
 */
#include "coir/topic_tree.h"

#include <errno.h>

#include "base/check.h"
#include "sync/allocator.h"
#include "sync/channel.h"
#include "sync/name_tree.h"

enum { LEVELS_MAX = 65536 };

struct coir_topic_tree {
    struct ci_own_lock lock;
    bool closed, keeps_last;
    size_t item_size;
    struct ci_name_tree names;
    struct ci_list subscriptions;
    void (*ref)(void *item, void *arg);
    void (*unref)(void *item, void *arg);
    void *arg;
    coir_allocator allocator;
};

/* Of its node's subscriptions or watchers by the channel's own link. */
struct subscription {
    struct ci_channel_observer observer;
    coir_topic_tree *tree;
    struct ci_name_node *node;
    coir_channel *channel;
    struct ci_list in_tree, in_members; /* in_members: empty if it is no member */
    uint64_t member;
};

/* A walk through the tree, and what it does. */
struct delivery {
    coir_topic_tree *tree;
    void *item;
    const coir_presence *presence; /* or this */
    coir_channel *channel;         /* NULL: all that a node has */
    struct ci_list granted;
    int count;
};

static coir_channel *channel_of(struct ci_list *link)
{
    return ci_container_of(link, coir_channel, subscription);
}

/* ---- items ---- */

static void push(struct delivery *delivery, coir_channel *channel, void *item)
{
    coir_topic_tree *tree = delivery->tree;
    if (tree->ref)
        tree->ref(item, tree->arg);
    int rc = ci_channel_push(channel, item, &delivery->granted);
    ci_check(rc != -EAGAIN, "topic_tree.c 1");
    if (rc <= 0 && tree->unref)
        tree->unref(item, tree->arg);
    channel->lost += rc == -ENOMEM; /* the policy has counted all else */
    delivery->count += rc > 0;
}

static void push_to_node(struct ci_name_node *node, void *arg)
{
    struct delivery *delivery = arg;
    ci_list_for_each (link, &node->subscriptions)
        push(delivery, channel_of(link), delivery->item);
}

static void push_last(struct ci_name_node *node, void *arg)
{
    struct delivery *delivery = arg;
    if (node->last)
        push(delivery, delivery->channel, node->last);
}

static void drop_last(coir_topic_tree *tree, struct ci_name_node *node)
{
    if (tree->unref)
        tree->unref(node->last, tree->arg);
    ci_free(&tree->allocator, node->last, tree->item_size);
    node->last = NULL;
    ci_name_tree_release(&tree->names, node);
}

/* Makes room for a name's last item, which its node is used for. */
static int keep(coir_topic_tree *tree, const char *name, void *item)
{
    struct ci_name_node *node = ci_name_tree_find(&tree->names, name);
    if (node && node->last) {
        if (tree->unref)
            tree->unref(node->last, tree->arg);
    } else {
        int rc = ci_name_tree_use(&tree->names, name, &node);
        if (rc < 0)
            return rc;
        node->last = ci_alloc(&tree->allocator, tree->item_size);
        if (!node->last) {
            ci_name_tree_release(&tree->names, node);
            return -ENOMEM;
        }
    }
    if (tree->ref)
        tree->ref(item, tree->arg);
    ci_item_copy(node->last, item, tree->item_size);
    return 0;
}

/* ---- presence ---- */

static void push_presence(struct delivery *delivery, coir_channel *channel,
                          const coir_presence *presence)
{
    int rc = ci_channel_push(channel, presence, &delivery->granted);
    ci_check(rc != -EAGAIN, "topic_tree.c 1");
    channel->lost += rc == -ENOMEM;
}

static void push_to_watchers(struct ci_name_node *node, void *arg)
{
    struct delivery *delivery = arg;
    ci_list_for_each (link, &node->watchers)
        push_presence(delivery, channel_of(link), delivery->presence);
}

static void push_members(struct ci_name_node *node, void *arg)
{
    struct delivery *delivery = arg;
    coir_presence presence = {.joined = true};
    ci_name_write(node, presence.name);
    ci_list_for_each (link, &node->members) {
        presence.member = ci_container_of(link, struct subscription, in_members)->member;
        presence.present++;
        push_presence(delivery, delivery->channel, &presence);
    }
}

static void tell(struct delivery *delivery, const struct subscription *subscription, bool joined)
{
    coir_presence presence = {.member = subscription->member,
                              .present = subscription->node->member_count,
                              .joined = joined};
    ci_name_write(subscription->node, presence.name);
    delivery->presence = &presence;
    ci_name_tree_matching(&delivery->tree->names, presence.name, push_to_watchers, delivery);
    delivery->presence = NULL;
}

/* ---- subscriptions ---- */

static void on_room(struct ci_channel_observer *observer, struct ci_list *granted)
{
    (void)observer;
    (void)granted;
}

static void on_free(struct ci_channel_observer *observer, coir_channel *channel,
                    struct ci_list *granted)
{
    struct subscription *subscription = ci_container_of(observer, struct subscription, observer);
    coir_topic_tree *tree = subscription->tree;
    ci_list_remove(&channel->subscription);
    ci_list_remove(&subscription->in_tree);
    if (!ci_list_empty(&subscription->in_members)) {
        struct delivery delivery = {.tree = tree};
        ci_list_init(&delivery.granted);
        ci_list_remove(&subscription->in_members);
        subscription->node->member_count--;
        tell(&delivery, subscription, false);
        for (struct ci_list *link; (link = ci_list_pop(&delivery.granted));)
            ci_list_push(granted, link);
    }
    ci_name_tree_release(&tree->names, subscription->node);
    ci_free(&tree->allocator, subscription, sizeof *subscription);
}

/* What a subscription is asked for. */
struct request {
    const char *pattern;
    size_t capacity;
    enum coir_overflow overflow;
    bool watches, joins;
    uint64_t member;
};

static int make(coir_topic_tree *tree, const struct request *request,
                struct subscription **ret_subscription)
{
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = request->watches ? sizeof(coir_presence) : tree->item_size;
    options.capacity = request->capacity;
    options.overflow = request->overflow;
    options.unref = request->watches ? NULL : tree->unref;
    options.arg = tree->arg;
    struct subscription *subscription = ci_alloc_zero(&tree->allocator, sizeof *subscription);
    if (!subscription)
        return -ENOMEM;
    int rc = coir_channel_new_with(&options, &subscription->channel);
    if (rc < 0) {
        ci_free(&tree->allocator, subscription, sizeof *subscription);
        return rc;
    }
    subscription->tree = tree;
    subscription->member = request->member;
    subscription->observer = (struct ci_channel_observer){on_room, on_free};
    ci_list_init(&subscription->in_tree);
    ci_list_init(&subscription->in_members);
    subscription->channel->lock = &tree->lock;
    *ret_subscription = subscription;
    return 0;
}

/* Under the lock. The channel is told what is there already before it is linked. */
static int attach(struct subscription *subscription, const struct request *request,
                  struct delivery *delivery)
{
    coir_topic_tree *tree = subscription->tree;
    int rc = tree->closed ? -EPIPE
                          : ci_name_tree_use(&tree->names, request->pattern, &subscription->node);
    if (rc < 0)
        return rc;
    struct ci_name_node *node = subscription->node;
    ci_name_tree_matched(&tree->names, request->pattern,
                         request->watches ? push_members : push_last, delivery);
    ci_list_push(request->watches ? &node->watchers : &node->subscriptions,
                 &subscription->channel->subscription);
    ci_list_push(&tree->subscriptions, &subscription->in_tree);
    if (request->joins) {
        ci_list_push(&node->members, &subscription->in_members);
        node->member_count++;
        tell(delivery, subscription, true);
    }
    subscription->channel->observer = &subscription->observer;
    return 0;
}

static int subscribe(coir_topic_tree *tree, const struct request *request,
                     coir_channel **ret_channel)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!request->capacity || request->overflow == COIR_OVERFLOW_WAIT ||
        !ci_name_is_valid(request->pattern) ||
        (request->joins && ci_name_is_pattern(request->pattern)))
        return -EINVAL;
    struct subscription *subscription;
    int rc = make(tree, request, &subscription);
    if (rc < 0)
        return rc;
    struct delivery delivery = {.tree = tree, .channel = subscription->channel};
    coir_channel *channel = subscription->channel;
    ci_list_init(&delivery.granted);
    ci_own_lock_take(&tree->lock);
    rc = attach(subscription, request, &delivery);
    ci_own_lock_give(&tree->lock);
    ci_wait_wake_all(&delivery.granted);
    if (rc < 0) {
        coir_channel_free(channel);
        ci_free(&tree->allocator, subscription, sizeof *subscription);
        return rc;
    }
    *ret_channel = channel;
    return 0;
}

int coir_topic_tree_subscribe(coir_topic_tree *tree, const char *pattern, size_t capacity,
                              enum coir_overflow overflow, coir_channel **ret_channel)
{
    struct request request = {pattern, capacity, overflow, .watches = false};
    return tree && pattern && ret_channel
               ? subscribe(tree, &request, ret_channel)
               : CI_MISUSE(-EINVAL, "tree, pattern or ret_channel is NULL");
}

int coir_topic_tree_join(coir_topic_tree *tree, const char *name, uint64_t member, size_t capacity,
                         enum coir_overflow overflow, coir_channel **ret_channel)
{
    struct request request = {name, capacity, overflow, .joins = true, .member = member};
    return tree && name && ret_channel ? subscribe(tree, &request, ret_channel)
                                       : CI_MISUSE(-EINVAL, "tree, name or ret_channel is NULL");
}

int coir_topic_tree_watch(coir_topic_tree *tree, const char *pattern, size_t capacity,
                          enum coir_overflow overflow, coir_channel **ret_channel)
{
    struct request request = {pattern, capacity, overflow, .watches = true};
    return tree && pattern && ret_channel
               ? subscribe(tree, &request, ret_channel)
               : CI_MISUSE(-EINVAL, "tree, pattern or ret_channel is NULL");
}

/* ---- publishing ---- */

static bool is_name(const char *text)
{
    return ci_name_is_valid(text) && !ci_name_is_pattern(text);
}

int coir_topic_tree_publish(coir_topic_tree *tree, const char *name, const void *item)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!tree || !name || !item)
        return CI_MISUSE(-EINVAL, "tree, name or item is NULL");
    if (!is_name(name))
        return -EINVAL;
    struct delivery delivery = {.tree = tree, .item = (void *)(uintptr_t)item};
    ci_list_init(&delivery.granted);
    ci_own_lock_take(&tree->lock);
    int rc = tree->closed ? -EPIPE : tree->keeps_last ? keep(tree, name, delivery.item) : 0;
    if (rc == 0)
        ci_name_tree_matching(&tree->names, name, push_to_node, &delivery);
    ci_own_lock_give(&tree->lock);
    ci_wait_wake_all(&delivery.granted);
    return rc < 0 ? rc : delivery.count;
}

int coir_topic_tree_last(coir_topic_tree *tree, const char *name, void *ret_item)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!tree || !name || !ret_item)
        return CI_MISUSE(-EINVAL, "tree, name or ret_item is NULL");
    if (!is_name(name))
        return -EINVAL;
    ci_own_lock_take(&tree->lock);
    struct ci_name_node *node = ci_name_tree_find(&tree->names, name);
    bool is_there = node && node->last;
    if (is_there && tree->ref)
        tree->ref(node->last, tree->arg);
    if (is_there)
        ci_item_copy(ret_item, node->last, tree->item_size);
    ci_own_lock_give(&tree->lock);
    return is_there ? 0 : -ENODATA;
}

int coir_topic_tree_forget(coir_topic_tree *tree, const char *name)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!tree || !name)
        return CI_MISUSE(-EINVAL, "tree or name is NULL");
    if (!is_name(name))
        return -EINVAL;
    ci_own_lock_take(&tree->lock);
    struct ci_name_node *node = ci_name_tree_find(&tree->names, name);
    bool is_there = node && node->last;
    if (is_there)
        drop_last(tree, node);
    ci_own_lock_give(&tree->lock);
    return is_there ? 0 : -ENODATA;
}

size_t coir_topic_tree_present(coir_topic_tree *tree, const char *name)
{
    if ((!tree || !name) && CI_MISUSE(-EINVAL, "tree or name is NULL"))
        return 0;
    ci_own_lock_take(&tree->lock);
    const struct ci_name_node *node = is_name(name) ? ci_name_tree_find(&tree->names, name) : NULL;
    size_t count = node ? node->member_count : 0;
    ci_own_lock_give(&tree->lock);
    return count;
}

/* ---- making, closing ---- */

int coir_topic_tree_new_with(const coir_topic_tree_options *given, coir_topic_tree **ret_tree)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ret_tree)
        return CI_MISUSE(-EINVAL, "ret_tree is NULL");
    coir_topic_tree_options options = COIR_TOPIC_TREE_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc < 0)
        return rc;
    if (!options.item_size)
        return -EINVAL;
    const coir_allocator *allocator = ci_allocator_here();
    coir_topic_tree *tree = ci_alloc_zero(allocator, sizeof *tree);
    if (!tree)
        return -ENOMEM;
    tree->allocator = *allocator;
    tree->item_size = options.item_size;
    tree->ref = options.ref;
    tree->unref = options.unref;
    tree->arg = options.arg;
    tree->keeps_last = options.keep_last;
    ci_list_init(&tree->subscriptions);
    rc = ci_name_tree_init(&tree->names, &tree->allocator, ci_random_here(),
                           options.levels_max ? options.levels_max : LEVELS_MAX);
    if (rc < 0) {
        ci_free(allocator, tree, sizeof *tree);
        return rc;
    }
    *ret_tree = tree;
    return 0;
}

int coir_topic_tree_new(size_t item_size, coir_topic_tree **ret_tree)
{
    if (!ret_tree)
        return CI_MISUSE(-EINVAL, "ret_tree is NULL");
    coir_topic_tree_options options = COIR_TOPIC_TREE_OPTIONS;
    options.item_size = item_size;
    return coir_topic_tree_new_with(&options, ret_tree);
}

void coir_topic_tree_close(coir_topic_tree *tree)
{
    if (ci_forked() || (!tree && CI_MISUSE(-EINVAL, "tree is NULL")))
        return;
    struct ci_list granted;
    ci_list_init(&granted);
    ci_own_lock_take(&tree->lock);
    tree->closed = true;
    ci_list_for_each (link, &tree->subscriptions) {
        coir_channel *channel = ci_container_of(link, struct subscription, in_tree)->channel;
        if (!channel->closed)
            ci_channel_close(channel, &granted);
    }
    ci_own_lock_give(&tree->lock);
    ci_wait_wake_all(&granted);
}

static bool is_used(coir_topic_tree *tree)
{
    ci_own_lock_take(&tree->lock);
    bool used = !ci_list_empty(&tree->subscriptions);
    ci_own_lock_give(&tree->lock);
    return used;
}

void coir_topic_tree_free(coir_topic_tree *tree)
{
    if (!tree || ci_forked() ||
        CI_REFUSED_AS(-EBUSY, is_used(tree), "it has subscriptions; free their channels first"))
        return;
    ci_check(ci_list_empty(&tree->subscriptions), "topic_tree.c 2");
    for (struct ci_name_node *leaf; (leaf = ci_name_tree_leaf(&tree->names));)
        drop_last(tree, leaf);
    coir_allocator allocator = tree->allocator;
    ci_name_tree_done(&tree->names);
    ci_free(&allocator, tree, sizeof *tree);
}
