/* SPDX-License-Identifier: Apache-2.0 */
/* The shared-memory accesses of scans and folds across warps: each warp writes the total of its
 * elements, and each thread reads all totals. */
#include "runtime/explain/explain_access.h"
#include "runtime/explain/warp_request.h"

typedef struct Totals {
    Walk *walk;
    AccessReport *writes, *reads;
    Type type;       /* of the operands */
    int axis, bytes; /* of a part's total */
    int32_t end;     /* the step along the axis after the warps' bits */
    uint32_t mask;   /* of warp bits along the axis */
    int64_t rows, groups;
    double times;
} Totals;

static bool in_rows(const Totals *t, const int32_t *coords)
{
    for (int axis = 0; axis < t->type->rank; axis++) {
        if (axis != t->axis && coords[axis] >= poly_capacity(t->type->dims[axis])) {
            return false;
        }
    }
    return true;
}

static int64_t place_of(const Totals *t, const int32_t *coords)
{
    int64_t at = coords[t->axis] / t->end;
    for (int axis = 0; axis < t->type->rank; axis++) {
        if (axis != t->axis) {
            at = at * poly_capacity(t->type->dims[axis]) + coords[axis];
        }
    }
    return at;
}

static int own_warp(const Totals *t, int warp)
{
    int own = 0, to = 0;
    for (int bit = 0; bit < 32; bit++) {
        if (t->mask >> bit & 1) {
            own |= (warp >> bit & 1) << to++;
        }
    }
    return own;
}

/* Of the lanes that hold the same total the first writes. */
static uint32_t silent_lanes(const Totals *t, int lanes)
{
    Layout totals = *t->type->layout;
    for (int bit = 0; bit < totals.bits[IN_LANE]; bit++) {
        int32_t *step = &totals.basis[IN_LANE][bit][t->axis];
        *step = *step < t->end ? 0 : *step;
    }
    return tile_copies(&totals, IN_LANE, lanes);
}

/* The totals of `run` warps from `of` that the threads of `warp` name by this register. */
static void total_request(const Totals *t, AccessReport *report, int reg, int warp, int of, int run)
{
    Tally *tally = t->walk->user;
    int lanes = lanes_of(tally);
    uint32_t silent = report == t->writes ? silent_lanes(t, lanes) : 0;
    WarpRequest request = {.lanes = lanes, .bytes = t->bytes * run};
    for (int lane = 0; lane < lanes; lane++) {
        int32_t coords[MAX_RANK];
        layout_apply(t->type->layout, (uint32_t)reg, (uint32_t)lane, (uint32_t)warp, coords);
        bool inside = in_rows(t, coords);
        int64_t place = inside ? place_of(t, coords) : 0;
        if (!((uint32_t)lane & silent) && (inside || report == t->reads)) {
            request_add(&request, lane, (of * t->groups * t->rows + place) * t->bytes);
        }
    }
    access_request(tally, report, &request, t->times);
}

/* Registers of one group along the axis share their total. */
static bool names_total(const Totals *t, int reg)
{
    const Layout *layout = t->type->layout;
    for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
        int32_t step = layout->basis[IN_REGISTER][bit][t->axis];
        if (reg >> bit & 1 && step && step < t->end) {
            return false;
        }
    }
    return tile_run_starts(t->type, t->type->rank - 1, reg, 1);
}

/* All threads read all warps' totals; where these lie side by side, assemblers make wide accesses
 * of that. */
static int totals_at_once(const Totals *t, int warps)
{
    enum { ACCESS_BYTES = 16 };
    int most = t->groups * t->rows == 1 ? ACCESS_BYTES / t->bytes : 1;
    return warps < most ? warps : most;
}

void scan_tally(Walk *walk, const Op *op, double times)
{
    int parts = op->kind == OP_SCAN ? 1 : fold_count(op);
    int at = op->kind == OP_SCAN ? 1 : 2 * parts;
    Totals t = {.walk = walk, .type = op->operands[0]->type, .times = times};
    if (at >= op->n_operands || !t.type->layout) {
        return;
    }
    t.axis = (int)op_int(op, ATTR_AXIS, 0);
    /* The layout gives the warps along the axis and the number of rows. */
    const Layout *layout = t.type->layout;
    int64_t padded = 1;
    for (int bit = 0; bit < layout->bits[IN_WARP]; bit++) {
        int32_t step = layout->basis[IN_WARP][bit][t.axis];
        t.mask |= step ? 1u << bit : 0;
        t.end = 2 * step > t.end ? 2 * step : t.end;
    }
    while (padded < poly_capacity(t.type->dims[t.axis])) {
        padded *= 2;
    }
    t.rows = 1;
    for (int axis = 0; axis < t.type->rank; axis++) {
        t.rows *= axis == t.axis ? 1 : poly_capacity(t.type->dims[axis]);
    }
    t.groups = t.end ? padded / t.end : 1;
    t.writes = access_report(walk->user, op, SHARED_STORES, op->operands[at]);
    t.reads = access_report(walk->user, op, SHARED_LOADS, op->operands[at]);
    for (int part = 0; t.mask && part < parts; part++) {
        t.bytes = dtype_bytes(op->operands[part]->type->dtype);
        int warps = 1 << __builtin_popcount(t.mask), run = totals_at_once(&t, warps);
        for (int reg = 0; reg < layout_registers(t.type->layout); reg++) {
            for (int warp = 0; names_total(&t, reg) && warp < walk->warps; warp++) {
                total_request(&t, t.writes, reg, warp, own_warp(&t, warp), 1);
                for (int of = 0; of < warps; of += run) {
                    total_request(&t, t.reads, reg, warp, of, run);
                }
            }
        }
    }
}
