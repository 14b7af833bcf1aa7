/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates the code of loops: how many copies of a body are emitted, which instructions one
 * iteration executes, and which loop a launch spends its time in. */
#include "passes/analysis/code_registers.h"

#include "ir/build.h"
#include "ir/target/target.h"
#include "support/int_math.h"

/* Bytes of an instruction: all of NVIDIA's have 16; AMD's have 4 to 12, arithmetic with constants
 * mostly 8. */
enum { NVPTX_BYTES = 16, AMDGCN_BYTES = 8, MAX_TRIPS = 8 };

static const double UNROLLED = 300; /* instructions of a loop that is written out */

bool code_is_loop(const Op *op)
{
    return op && (op->kind == OP_FOR || op->kind == OP_WHILE);
}

static bool has_dots(const Op *loop)
{
    const Block *body = loop->regions[0];
    return block_contains(body, OP_DOT) || block_contains(body, OP_DOT_ASYNC);
}

static void add_counts(CodeCounts *to, CodeCounts more, double times)
{
    to->instructions += times * more.instructions;
    to->loads += times * more.loads;
    to->shared_stores += times * more.shared_stores;
}

/* How often a loop runs if that is a small number, and it has no dot; else 0. */
static int64_t trips_of(const Op *op)
{
    const Attr *steps = op->kind == OP_FOR ? op_attr(op, ATTR_STEPS) : NULL;
    const Attr *from = steps ? value_const(for_lo(op)) : NULL;
    const Attr *to = steps ? value_const(for_hi(op)) : NULL;
    if (!from || !to || has_dots(op)) {
        return 0;
    }
    int64_t trips = ceil_div(max_i64(0, to->i - from->i), max_i64(1, steps->ints[0]));
    return trips <= MAX_TRIPS ? trips : 0;
}

/* The back end writes out short loops that run a known number of times. */
static double times_written(const Op *op, double body)
{
    int64_t trips = trips_of(op);
    return trips > 0 && (double)trips * body <= UNROLLED ? (double)trips : 0;
}

static CodeCounts body_counts(const CodeSize *size, const Op *op)
{
    CodeCounts body = {0};
    for (int i = 0; i < op->n_regions; i++) {
        for (const Op *in = op->regions[i]->first; in; in = in->next) {
            add_counts(&body, an_code_counts(size, in), 1);
        }
    }
    return body;
}

CodeCounts an_code_counts(const CodeSize *size, const Op *op)
{
    CodeCounts own = an_op_counts(size, op), body = body_counts(size, op);
    double times = times_written(op, body.instructions);
    own = times > 0 ? (CodeCounts){0} : own;
    add_counts(&own, body, times > 0 ? times : 1);
    return own;
}

bool an_leaves_loop(const CodeSize *size, const Op *op)
{
    return op->n_results == 1 && size->invariant[op->results[0]->id];
}

CodeCounts an_iteration_counts(const CodeSize *size, const Op *op)
{
    if (!code_is_loop(op)) {
        return an_code_counts(size, op);
    }
    CodeCounts counts = an_op_counts(size, op);
    for (int i = 0; i < op->n_regions; i++) {
        for (const Op *in = op->regions[i]->first; in; in = in->next) {
            if (!an_leaves_loop(size, in)) {
                add_counts(&counts, an_code_counts(size, in), 1);
            }
        }
    }
    return counts;
}

int64_t an_code_bytes(const CodeSize *size, const Op *op)
{
    int each = size->func->target->family == FAMILY_AMDGCN ? AMDGCN_BYTES : NVPTX_BYTES;
    return (int64_t)an_code_counts(size, op).instructions * each;
}

/* ---- the hot loop ---- */

typedef struct HotLoop {
    const CodeSize *size;
    const Op *found;
    bool has_dot;
    double instructions;
} HotLoop;

/* True if an inner loop is to be looked at instead: one with dots, if this one has any. */
static bool has_hotter_loop(const Block *body, bool of_dots)
{
    for (const Op *op = body->first; op; op = op->next) {
        bool loops = code_is_loop(op) || op->kind == OP_TILE_LOOP;
        if (loops && trips_of(op) == 0 && (!of_dots || has_dots(op))) {
            return true;
        }
        for (int i = 0; i < op->n_regions; i++) {
            if (has_hotter_loop(op->regions[i], of_dots)) {
                return true;
            }
        }
    }
    return false;
}

static void see_loop(const Block *block, HotLoop *hot)
{
    for (const Op *op = block->first; op; op = op->next) {
        bool dots = code_is_loop(op) && has_dots(op);
        if (code_is_loop(op) && dots >= hot->has_dot && !has_hotter_loop(op->regions[0], dots)) {
            double own = an_code_counts(hot->size, op).instructions;
            if (times_written(op, body_counts(hot->size, op).instructions) > 0) {
                continue;
            }
            bool more = dots > hot->has_dot || own > hot->instructions;
            hot->found = more ? op : hot->found;
            hot->instructions = more ? own : hot->instructions;
            hot->has_dot = dots;
        }
        for (int i = 0; i < op->n_regions; i++) {
            see_loop(op->regions[i], hot);
        }
    }
}

const Op *an_hot_loop(const CodeSize *size, const Op *launch)
{
    HotLoop hot = {.size = size};
    see_loop(launch->regions[0], &hot);
    return hot.found;
}
