/* The pages of the showcase that are fixed texts. */
#ifndef SHOWCASE_PAGES_H
#define SHOWCASE_PAGES_H

extern const char page_index[];

#endif
