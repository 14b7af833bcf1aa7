/* SPDX-License-Identifier: Apache-2.0 */
/* The state of collapse_axes.c for one pair of axes, and the construction of values with the pair
 * collapsed. Private to the pass. */
#ifndef TESSERA_PASSES_TENSOR_COLLAPSE_VALUES_H
#define TESSERA_PASSES_TENSOR_COLLAPSE_VALUES_H

#include "ir/build.h"
#include "ir/memo.h"
#include "passes/analysis/computations.h"

/* Axes `at` and `at` + 1 of a value. */
typedef struct ValuePair {
    const Value *value;
    int at;
} ValuePair;

typedef struct Collapse {
    Func *func;
    Builder b;
    bool tries;   /* nothing is built yet */
    bool gathers; /* gathers are made anew, too */
    bool pays;    /* a product gets more rows or columns */
    bool divides; /* elements are found by quotients and remainders of the collapsed axis */
    int axis[64]; /* of each parameter that is merged with the next one; -1: none */
    int accesses[64];
    struct {
        ValuePair *items; /* that are made anew as one axis */
        size_t n, cap;
    } pairs;
    HashTable noted; /* the same, to find */
    struct {
        const Value **items; /* that are taken as they are */
        size_t n, cap;
    } kept;
    HashTable made;  /* values, by those that they were made of */
    HashTable taken; /* elements at places along one of their axes, too */
    Memo *varies;   /* of an_varies */
    Computations *all;
} Collapse;

Collapse collapse_begin(Func *func, bool tries);
/* Notes that the pair of the value is made anew as one axis. */
void collapse_note_pair(Collapse *f, const Value *value, int at);
/* Sets of pairs. Adding one is false if it is there. */
bool collapse_has_pair(const HashTable *set, ValuePair pair);
bool collapse_add_pair(Arena *arena, HashTable *set, ValuePair pair);
/* The extents of the type with its axes `at` and `at` + 1 as one. False: that has no polynomial. */
bool collapse_dims(Func *func, Type type, int at, Dim *dims);
/* True if a load or a store accesses all of its tensor. */
bool collapse_is_whole(const Op *op);
/* Notes that the op accesses its tensor with axes `at` and `at` + 1 as one. False: the tensor is
 * not contiguous, or another access collapses another pair. */
bool collapse_takes_tensor(Collapse *f, const Op *op, int at);
/* True if the gather reads an array at places that are one axis, or a quotient or remainder of one,
 * along axes `at` and `at` + 1 together, as a reshape that makes them one axis does. */
bool collapse_is_merged(Collapse *f, const Op *gather, int at);
/* What such a gather reads, from the array with the two axes as one. */
Value *collapse_merged(Collapse *f, const Op *gather, int at, Value *from);
/* The value with its axes `at` and `at` + 1 as one; in a trial, any value. NULL: that is not
 * possible. */
Value *collapse_value(Collapse *f, Value *value, int at);

#endif
