/* list.h - intrusive doubly linked list with a head; a node is in at most one list. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

struct list {
        struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
        l->next = l->prev = l;
}
static inline bool list_is_empty(const struct list *head)
{
        return head->next == head;
}
/* A zeroed node and an unhooked one both count as "in no list". */
static inline bool list_is_hooked(const struct list *node)
{
        return node->next && node->next != node;
}
static inline void list_insert(struct list *before, struct list *node)
{
        node->next = before;
        node->prev = before->prev;
        before->prev->next = node;
        before->prev = node;
}
static inline void list_push_back(struct list *head, struct list *node)
{
        list_insert(head, node);
}
static inline void list_push_front(struct list *head, struct list *node)
{
        list_insert(head->next, node);
}
static inline void list_remove(struct list *node)
{
        if (!list_is_hooked(node))
                return;
        node->prev->next = node->next;
        node->next->prev = node->prev;
        node->next = node->prev = node;
}
static inline struct list *list_pop_front(struct list *head)
{
        struct list *first = head->next;

        if (first == head)
                return NULL;
        list_remove(first);
        return first;
}

#define LIST_ENTRY(node, type, member) CONTAINER_OF(node, type, member)
/* `at` may be removed inside the loop, nothing else. */
#define LIST_EACH(at, head)                                                                                            \
        for (struct list *at = (head)->next, *list_next_ = at->next; at != (head);                                     \
             at = list_next_, list_next_ = at->next)
