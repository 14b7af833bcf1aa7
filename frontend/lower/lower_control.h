/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that are assigned inside of regions: loop-carried variables, and variables that
 * branches merge. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_CONTROL_H
#define TESSERA_FRONTEND_LOWER_LOWER_CONTROL_H

#include "frontend/lower/lower.h"

/* What a loop walks, and how. */
typedef struct LoopBounds {
    Dim whole;
    Value *lo, *hi;      /* NULL: from 0, to the end of `whole` */
    Dim from, to;        /* the same where they are made of sizes, else NULL */
    const IndexVar *var; /* what is known of its index */
    bool in_lanes;       /* first, end: they differ from lane to lane */
    Val first, end;
    int64_t step; /* 0: one by one; -1: auto */
} LoopBounds;

/* ---- lower_parallel.c ---- */
/* Are the statements `parallel` alone, with ranges, some of them under conditions? Then each asks
 * for the condition that they stand under. */
bool has_parallels(const StmtList *list);
void lower_parallel_if(Lower *l, const Val *condition, const Stmt *stmt);

/* ---- lower_loop.c ---- */
bool lower_axis(Lower *l, const Axis *axis, LoopBounds *walk);
/* The loop variable: a range, or a number. */
void define_axis(Lower *l, const Axis *axis, const LoopBounds *walk, Value *arg);
/* After an error in the head the body is still checked, its loop variables being poison. */
void lower_poisoned(Lower *l, const Stmt *stmt);

/* The variables from outside that statements assign to. A loop must know the lanes of what it
 * carries before its body is lowered: it begins with those of the first value, and is lowered again
 * with more when the body added some. */
typedef struct LoopCarried {
    struct {
        Symbol **items;
        size_t n, cap;
    } symbols;
    Val *before; /* their values outside */
    Lanes *lanes;
    WrittenSet written; /* l->written before the first try */
} LoopCarried;

/* What an inout tensor was given is not known across the border of a region: memory is read. */
void forget_held_all(Lower *l);
/* Of one or two lists of statements; NULL: none. */
LoopCarried carried_by(Lower *l, const StmtList *first, const StmtList *second);
void carried_add(Lower *l, LoopCarried *carried, Symbol *symbol);
/* Back to what was before the region. */
void carried_reset(Lower *l, const LoopCarried *carried);
/* In the region: from its arguments, the first of them args[0]. */
void carried_enter(const LoopCarried *carried, Value *const *args);
/* After the loop: its results. */
void carried_leave(const LoopCarried *carried, const Op *loop);
/* The values before the loop, and those now, with the lanes that are carried. */
Value **carried_inits(Lower *l, const LoopCarried *carried);
Value **carried_values(Lower *l, const LoopCarried *carried);
/* Adds the lanes that the values have now. Did they have more? */
bool carried_widen(const Lower *l, const LoopCarried *carried);
/* The lanes with which a value that has these leaves a region: what has any has, inside of a loop
 * whose elements end by themselves, all of that loop's, since such elements are made one by one. */
Lanes carried_lanes(const Lower *l, Lanes lanes);

/* Do the statements assign to what the condition reads, or do something to it? */
bool may_change(const StmtList *list, const Expr *condition);

/* Does a `break` or `continue` of the loop around it stand in the statement? */
bool has_loop_exit(const Stmt *stmt);
/* l->leaving becomes that of a loop with this body; what it was is returned, and set again by
 * end_leaving. begin_iteration stands where the body begins. */
LoopExitFlags begin_leaving(Lower *l, const StmtList *body);
void begin_iteration(Lower *l, const StmtList *body);
void end_leaving(Lower *l, LoopExitFlags outer);
/* Statements that happen where the condition, a bool of any lanes, holds. */
void lower_branches(Lower *l, Span span, const Val *condition, const StmtList *yes,
                    const StmtList *no);
/* for k in lo..hi whose ends differ from lane to lane. */
void lower_for_lanes(Lower *l, const Stmt *stmt, const Val *lo, const Val *hi);

#endif
