/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses which candidates to measure next. The choice is a function of the measurements and the
 * seed. */
#ifndef TESSERA_TUNE_SWEEP_SEARCH_STRATEGY_H
#define TESSERA_TUNE_SWEEP_SEARCH_STRATEGY_H

#include "tune/sweep/search_space.h"

/* In the order of --strategy (cli/options.def). */
typedef enum Strategy {
    STRATEGY_MODEL,      /* what the compiler's model and the measurements so far promise most of */
    STRATEGY_RANDOM,     /* any */
    STRATEGY_EXHAUSTIVE, /* all, those that the model ranks first first */
} Strategy;

typedef struct SearchItem {
    double predicted; /* seconds; 0: the model says nothing */
    double time;      /* as measured, in any unit; NaN: it was not, or failed */
    bool taken;       /* it was handed out, or shall not be */
    bool failed;
} SearchItem;

typedef struct Search {
    Strategy strategy;
    uint64_t chance; /* state of random_next */
    const Features *features;
    SearchItem *items;
    size_t n;
} Search;

/* At most `want` items, which are taken then; fewer when there are no more. */
size_t search_next(Search *search, size_t want, size_t *chosen);

#endif
