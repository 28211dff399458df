/* Intrusive circular doubly-linked list. A head is a node; a lone node points at itself, so
 * removing twice is harmless. */
#ifndef CI_BASE_LIST_H
#define CI_BASE_LIST_H

#include <stdbool.h>

#include "base/compiler.h"

struct ci_list {
    struct ci_list *next, *prev;
};

static inline void ci_list_init(struct ci_list *node)
{
    node->next = node->prev = node;
}

static inline bool ci_list_empty(const struct ci_list *head)
{
    return head->next == head;
}

static inline void ci_list_insert_before(struct ci_list *at, struct ci_list *node)
{
    node->next = at;
    node->prev = at->prev;
    at->prev->next = node;
    at->prev = node;
}

/* Adds a node at the end. */
static inline void ci_list_push(struct ci_list *head, struct ci_list *node)
{
    ci_list_insert_before(head, node);
}

/* Takes a node out and leaves its own links as they are: for a node that is linked anew, or not
 * used again. */
static inline void ci_list_unlink(struct ci_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
}

/* Takes a node out; it may be removed again. */
static inline void ci_list_remove(struct ci_list *node)
{
    ci_list_unlink(node);
    ci_list_init(node);
}

/* Removes the first node; NULL when the list is empty. */
static inline struct ci_list *ci_list_pop(struct ci_list *head)
{
    struct ci_list *node = head->next;
    if (node == head)
        return NULL;
    head->next = node->next;
    node->next->prev = head;
    ci_list_init(node);
    return node;
}

/* Moves all nodes of `from` to the empty list `to`. */
static inline void ci_list_take(struct ci_list *to, struct ci_list *from)
{
    if (ci_list_empty(from)) {
        ci_list_init(to);
        return;
    }
    *to = *from;
    to->next->prev = to;
    to->prev->next = to;
    ci_list_init(from);
}

#define ci_list_for_each(node, head) \
    for (struct ci_list *node = (head)->next; node != (head); node = node->next)

#endif
