/* Lists keep their order; a node may be removed twice. */
#include "base/list.h"

#include "harness.h"

TEST(list_keeps_order_and_removes_twice)
{
    struct ci_list head, nodes[3], other;
    ci_list_init(&head);
    for (int i = 0; i < 3; i++)
        ci_list_push(&head, &nodes[i]);
    ci_list_remove(&nodes[1]);
    ci_list_remove(&nodes[1]);
    CHECK(ci_list_pop(&head) == &nodes[0]);
    ci_list_take(&other, &head);
    CHECK(ci_list_empty(&head));
    CHECK(ci_list_pop(&other) == &nodes[2]);
    CHECK(ci_list_pop(&other) == NULL);
}
