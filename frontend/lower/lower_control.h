/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that are assigned inside of regions: loop-carried variables, and variables that
 * branches merge. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_CONTROL_H
#define TESSERA_FRONTEND_LOWER_LOWER_CONTROL_H

#include "frontend/lower/lower.h"

/* The range of a loop, and its step. */
typedef struct LoopBounds {
    Dim axis_extent;
    Value *lo, *hi;      /* NULL: from 0, to `axis_extent` */
    Dim from, to;        /* lo and hi if they are size expressions, else NULL */
    const IndexVar *var; /* bounds of its index */
    bool in_lanes;       /* first and end differ between lanes */
    Val first, end;
    int64_t step; /* 0: single elements; -1: auto */
} LoopBounds;

/* ---- lower_parallel.c ---- */
/* True if all statements are `parallel` with ranges, some of them under conditions. Each of them
 * then evaluates the condition itself. */
bool has_parallels(const StmtList *list);
void lower_parallel_if(Lower *l, const Val *condition, const Stmt *stmt);
/* From here on a write must be at another place for each value of a variable, which is an argument
 * of the region; var: its affine form, or NULL. */
void enter_parallel(Lower *l, const IndexVar *var, const Value *arg);

/* ---- lower_loop.c ---- */
bool lower_axis(Lower *l, const Axis *axis, LoopBounds *walk);
/* Defines the loop variable: a range, or an integer. */
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

/* The last stored value of an inout tensor is unknown across the border of a region: it is read
 * from memory. */
void forget_known_values(Lower *l);
/* The variables that one or two lists of statements assign; a list may be NULL. */
LoopCarried carried_by(Lower *l, const StmtList *first, const StmtList *second);
void carried_add(Lower *l, LoopCarried *carried, Symbol *symbol);
/* Restores the state before the region. */
void carried_reset(Lower *l, const LoopCarried *carried);
/* Inside the region: sets the variables to its arguments, from args[0] on. */
void carried_enter(const LoopCarried *carried, Value *const *args);
/* After the loop: sets the variables to its results. */
void carried_leave(const LoopCarried *carried, const Op *loop);
/* The values before the loop, and those now, with the lanes that are carried. */
Value **carried_inits(Lower *l, const LoopCarried *carried);
Value **carried_values(Lower *l, const LoopCarried *carried);
/* Adds the lanes that the values have now; true if there are new ones. */
bool carried_widen(const Lower *l, const LoopCarried *carried);
/* The lanes with which a value leaves a region. Inside a loop that ends element by element, a value
 * with any lane has all lanes of the loop, since its elements are computed one by one. */
Lanes carried_lanes(const Lower *l, Lanes lanes);

/* True if the statements may change the value of the condition. */
bool may_change(const StmtList *list, const Expr *condition);

/* True if the statement contains a `break` or `continue` of the loop around it. */
bool has_loop_exit(const Stmt *stmt);
/* Sets l->leaving for a loop with this body and returns its old value, which end_leaving restores.
 * begin_iteration is called at the start of the body. */
LoopExitFlags begin_leaving(Lower *l, const StmtList *body);
void begin_iteration(Lower *l, const StmtList *body);
void end_leaving(Lower *l, LoopExitFlags outer);
/* Lowers statements that are executed where the condition, a bool with any lanes, holds. */
void lower_branches(Lower *l, Span span, const Val *condition, const StmtList *yes,
                    const StmtList *no);
/* `for k in lo..hi` whose ends differ between lanes. */
void lower_for_lanes(Lower *l, const Stmt *stmt, const Val *lo, const Val *hi);

#endif
