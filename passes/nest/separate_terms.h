/* SPDX-License-Identifier: Apache-2.0 */
/* Separation of the terms that several sums need, while it is done. Private to separate_terms.c and
 * copy_terms.c. */
#ifndef TESSERA_PASSES_NEST_SEPARATE_TERMS_H
#define TESSERA_PASSES_NEST_SEPARATE_TERMS_H

#include "ir/build.h"
#include "ir/memo.h"

enum { MAX_SEPARATED = 16 };

/* An operand that reads a sum of rows, or its reciprocal. */
typedef struct RowUse {
    Op *op;
    int at;
} RowUse;

typedef struct Reciprocal {
    const Value *of;
    Value *by;
} Reciprocal;

typedef struct Separated {
    Op *dot, *made; /* as it was, and with the copy; NULL: it has none */
    Value *operand;
    int side;
    bool shared, closed; /* do several ops need some of its terms; only products and sums? */
} Separated;

/* A product that terms are made of, and the items, as bits, whose terms they are. */
typedef struct Scores {
    const Value *dot;
    uint32_t of;
} Scores;

typedef struct Separation {
    Func *func;
    Memo *products, *rows, *closed;
    Separated items[MAX_SEPARATED];
    int n;
    struct {
        Scores *items;
        size_t n, cap;
    } scores;
    struct {
        RowUse *items;
        size_t n, cap;
    } uses;
    struct {
        Reciprocal *items;
        size_t n, cap;
    } reciprocals;
} Separation;

/* copy_terms.c */
/* True for an op whose result is a term if an operand is. */
bool nest_passes_terms(const Op *op);
/* True if the value is element-wise of a product, and no product itself. */
bool nest_is_term(const Separation *s, const Value *value);
bool nest_is_sum_of_terms(const Separation *s, const Op *op);
/* True if the value is made of sums of rows of terms, and of no term. */
bool nest_is_of_rows(const Separation *s, const Value *value);
bool nest_is_plain_product(const Op *op);
/* True for a permute that exchanges the last two axes. */
bool nest_swaps_last(const Op *op);
/* Gives the item's product a copy of its terms as the left operand. */
void nest_copy_terms(Separation *s, Separated *item);
/* Makes the copies read sums of rows from memory. */
void nest_store_rows(Separation *s);

#endif
