/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the sweep share. */
#ifndef TESSERA_PASSES_DERIVE_DERIVE_SWEEP_H
#define TESSERA_PASSES_DERIVE_DERIVE_SWEEP_H

#include "passes/derive/derive.h"

/* What is known of a value that was there before the sweep. */
typedef enum Activity {
    ACTIVE_NO,
    ACTIVE_FLOAT, /* it depends on what is differentiated by */
    ACTIVE_BITS,  /* so do its bits, which are no float */
} Activity;

typedef struct ResultSeed {
    const Value *result;
    Value *gradient; /* a tensor; NULL: 1 */
} ResultSeed;

/* A gradient that is 0 but from `lo` up to `hi` along the axis. */
typedef struct GradientPart {
    const Value *value;
    int axis;
    Dim lo, hi;
} GradientPart;

struct Derive {
    Func *func;
    Block *block;
    const Op *last; /* of those that are swept over */
    Builder b;
    const DeriveRules *rules;
    uint8_t *activity; /* by Value.id */
    size_t n_before;   /* values that were there */
    Value **gradients; /* of these */
    const DeriveCall **calls; /* of which they are results; NULL: of none */
    struct {
        ResultSeed *items;
        size_t n, cap;
    } seeds;
    struct {
        const Value **items;
        size_t n, cap;
    } overwritten; /* memory of which later statements, which are seen first, set elements */
    struct {
        GradientPart *items;
        size_t n, cap;
    } parts;
    const Op *first; /* that is swept over; NULL: the block's */
    bool noted;      /* the activities are known */
    bool failed;
};

/* What depends on what is differentiated by, of the ops that there are now. */
void derive_note(Derive *d);
bool derive_is_active(const Derive *d, const Value *value);
/* Adds to the gradient of an active value, of its shape; of others does nothing. */
void derive_add(Derive *d, Value *of, Value *gradient);
/* The gradient is 0 elsewhere: adjacent parts become a choice instead of a sum. */
void derive_note_part(Derive *d, const Value *gradient, int axis, Dim lo, Dim hi);
/* Reports that the op has no derivative. */
Diag *derive_refuse(Derive *d, const Op *op, const char *why) __attribute__((nonnull));

/* True if nothing that the block computes depends on what the op makes, though it is read. */
bool derive_cancels(const Derive *d, const Op *op);

/* A constant of the value's type. */
Value *derive_number(Derive *d, const Value *like, double number);
Value *derive_zero(Derive *d, Type type);
/* What all elements of one axis become along the axes of `type`. */
Value *derive_iota_along(Derive *d, Type type, int axis);

/* The rules, by the kind of op: g is the gradient of the (first) result. False: not this kind. */
bool derive_elementwise(Derive *d, const Op *op, Value *g);
bool derive_axes(Derive *d, const Op *op, Value *g);
bool derive_reduction(Derive *d, const Op *op, Value *g);
/* Of a function of the program. */
bool derive_function_fold(Derive *d, const Op *op);
void derive_gather(Derive *d, const Op *op, Value *g);
void derive_load(Derive *d, const Op *op, Value *g);
void derive_store(Derive *d, const Op *op);
void derive_scatter(Derive *d, const Op *op);
bool derive_is_overwritten(const Derive *d, const Value *memory);

#endif
