/* Trimming: caches of free memory give back what was not used since the last trim. */
#ifndef CI_BASE_TRIM_H
#define CI_BASE_TRIM_H

/* The result of a trim; of several trims, the greatest value counts. */
enum ci_trim {
    CI_TRIM_DONE,  /* there is nothing to give back */
    CI_TRIM_LATER, /* some is in use: trim again once it may have been given back */
    CI_TRIM_SOON,  /* some is free: the next trim gives it back, unless it is used until then */
};

static inline enum ci_trim ci_trim_most(enum ci_trim a, enum ci_trim b)
{
    return a > b ? a : b;
}

#endif
