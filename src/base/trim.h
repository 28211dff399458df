/* Trimming: what keeps free memory for later gives back what it has not used. */
#ifndef CI_BASE_TRIM_H
#define CI_BASE_TRIM_H

/* What a trim says; of several, the greatest counts. */
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
