/* Where in the program's code something was called or waits, by function, file and line, where the
 * build has symbols. For reports: it reads debugging information. */
#ifndef CI_TASK_PLACE_H
#define CI_TASK_PLACE_H

#include <stdbool.h>

struct ci_task;

enum { CI_PLACE_TEXT = 256 };

/* Whether "FUNCTION at FILE:LINE" is a function of coir's. */
bool ci_place_is_own(const char *function);

/* Whether it is the root of a stack. */
bool ci_place_is_root(const char *function);

/* Where a stack begins to be worth showing: a stack begins with how the fiber was parked. That is
 * at a public function, or at one of the program's, as the compiler may leave the frame of the
 * public one for what parks. One is the program's if its file is not coir's. One without a file has
 * no debugging information: it is the program's if coir has some, or if no function follows that is
 * known to be coir's by its name. `found` is -1 at first. */
struct ci_place_search {
    int passed, found; /* functions; which one it is, or -1 */
    bool own_files;    /* coir has debugging information */
    bool over;
};

/* For each function of the stack, from the innermost on, until it is over. */
void ci_place_search(struct ci_place_search *search, const char *function);

/* The function that stands for a stack: a line of text. Zero at first. */
struct ci_place {
    const char *line;
    int len, seen;
};

/* For each function of the stack, from the innermost on, "FUNCTION at FILE:LINE". Keeps the
 * innermost, or if that was called by one of coir's, the caller of that: a stack begins with how
 * its fiber was parked. */
void ci_place_consider(struct ci_place *place, const char *function, int len);

/* Where a call returns to: "FUNCTION at FILE:LINE". NULL: "". */
void ci_place_of_call(const void *address, char text[CI_PLACE_TEXT]);

/* The function of the program that waits: of a fiber, the one that has called coir, or if that is
 * not on the stack any more, as the wait was its last step, the task's function; of a task without
 * a stack, the poll of its outermost future. "": it has not begun, or is not known. While the task
 * does not run. */
void ci_place_of_task(const struct ci_task *task, char text[CI_PLACE_TEXT]);

#endif
