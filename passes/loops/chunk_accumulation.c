/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_accumulation: adds a long sum of dots to a total every few thousand terms.
 *
 *     %s = for … {                                 %s = for … chunks=[256] {
 *       (%k: range, %acc: f32[%m, %n])       →       (%k: range, %acc: f32[%m, %n])
 *       %n = dot %a, %b, %acc                        %n = dot %a, %b, %acc
 *       yield %n }                                   yield %n }
 *
 * The rounding error of a sum grows with the number of its terms. After as many iterations as
 * attribute `chunks` gives for a loop-carried accumulator, a GPU adds the accumulator to a total in
 * local memory and a CPU adds it to a second tile; then the accumulator restarts at zero. The error
 * then grows with the terms of a chunk plus the number of chunks. The total occupies no registers.
 * A loop of at most two chunks is left alone, on a GPU also a loop of unknown length. Of nested
 * loops, the innermost one that is long enough gets the attribute.
 *
 * Only f32 accumulators count, and only those of f32 operands or without a matrix instruction: for
 * narrower operands the rounding of the operands themselves dominates, and an accumulator in flight
 * cannot be read. Not on AMD, whose kernels use no local memory. Requires layouts (the loops are
 * final). Reassociates the sum of the dots, within its error bound. */
#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/pass.h"
#include "support/int_math.h"

enum {
    GPU_TERMS = 2048, /* the boundary between two chunks costs less than 0.5 % of their time */
    /* Where every multiprocessor multiplies all the time, a total's way through the L2 cache takes
     * time that nothing hides, so that chunks are longer. cuBLAS does not cut all such products. */
    GPU_TERMS_BUSY = 4096,
    BUSY_WAVES = 2,
    CPU_STEPS = 256, /* each adds one sum (codegen/cpu/cpu_dot.c) */
};

static bool on_gpu(const Func *func)
{
    return func->target && func->target->family != FAMILY_CPU;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* The most steps of a loop. Of a size of which nothing is known: a GPU's code would have memory of
 * its own for a total that short sums never use. */
static int64_t most_trips(const Func *func, const Op *loop)
{
    int64_t step = op_attr(loop, ATTR_STEPS)->ints[0];
    int64_t most = poly_most(op_attr(loop, ATTR_DIMS)->dims[0]);
    step = step > 0 ? step : 1;
    if (op_int(loop, ATTR_SINGLE_TRIP, 0)) {
        return 1;
    }
    if (most < INT64_MAX) {
        return (most + step - 1) / step;
    }
    return on_gpu(func) ? 0 : most;
}

/* A CPU first sums the products of one step among themselves. */
static int64_t terms_of_dot(const Func *func, const Op *dot)
{
    const Value *result = dot->results[0];
    DType operand = dot->operands[0]->type->dtype;
    const Attr *unit = op_attr(dot, ATTR_INSTRUCTION);
    bool fma = !unit || text_equal(unit->word, "fma");
    bool wide = operand == DT_F32 && !op_attr(dot, ATTR_PRECISION);
    if (result->type->dtype != DT_F32 || !(fma || wide)) {
        return 0;
    }
    return on_gpu(func) ? poly_capacity(op_reduced_extent(dot)) : 1;
}

static int64_t terms_of_step(const Func *func, const Op *loop, int carried);

/* The tiles of the op around the loop: a persistent block's loop over tiles, or the launch. */
static int64_t most_tiles(const Op *loop)
{
    int64_t tiles = 1;
    const Op *at = loop;
    while (at && at->kind != OP_TILE_LOOP && at->kind != OP_LAUNCH) {
        at = at->parent->parent;
    }
    const Attr *dims = at ? op_attr(at, ATTR_DIMS) : NULL;
    for (int i = 0; dims && i < dims->n; i++) {
        int64_t step = op_attr(at, ATTR_STEPS)->ints[i], most = poly_most(dims->dims[i]);
        step = step > 0 ? step : 1;
        tiles = times(tiles, most < INT64_MAX ? (most + step - 1) / step : most);
    }
    return tiles;
}

static int64_t chunk_terms(const Func *func, const Op *loop)
{
    if (!on_gpu(func)) {
        return CPU_STEPS;
    }
    bool busy = most_tiles(loop) > BUSY_WAVES * func->target->machine->num_sms;
    return busy ? GPU_TERMS_BUSY : GPU_TERMS;
}

static bool is_long(const Func *func, const Op *loop, int64_t terms)
{
    return times(terms, most_trips(func, loop)) > 2 * chunk_terms(func, loop);
}

/* The terms of all iterations of a nested loop; 0: it is no sum of dots, or it has chunks
 * itself. */
static int64_t terms_of_loop(const Func *func, const Op *loop, int carried)
{
    int64_t terms = terms_of_step(func, loop, carried), trips = most_trips(func, loop);
    return is_long(func, loop, terms) ? 0 : times(terms, trips);
}

/* The terms that are added between a loop's argument and `value`; 0: it is no sum of dots. */
static int64_t terms_between(const Func *func, const Value *value, const Value *arg)
{
    int64_t terms = 0;
    while (value != arg) {
        const Op *op = value->def;
        int64_t more = 0;
        if (!op || value_count_uses(func, value) != 1) {
            return 0;
        }
        if (op->kind == OP_DOT && dot_accumulator(op)) {
            more = terms_of_dot(func, op);
            value = dot_accumulator(op);
        } else if (op->kind == OP_FOR) {
            more = terms_of_loop(func, op, (int)value->index);
            value = op->operands[2 + value->index];
        }
        if (more <= 0) {
            return 0;
        }
        terms = terms > INT64_MAX - more ? INT64_MAX : terms + more;
    }
    return value_count_uses(func, arg) == 1 ? terms : 0;
}

static int64_t terms_of_step(const Func *func, const Op *loop, int carried)
{
    const Block *body = loop->regions[0];
    return terms_between(func, body->last->operands[carried], body->args[1 + carried]);
}

static void chunk_loop(Op *loop, void *user)
{
    Func *func = user;
    int n = loop->kind == OP_FOR && !op_int(loop, ATTR_SINGLE_TRIP, 0) ? for_carried(loop) : 0;
    int64_t *chunks = ARENA_ARRAY(func->arena, int64_t, n + 1);
    int64_t chunk = n > 0 ? chunk_terms(func, loop) : 0;
    bool any = false;
    for (int i = 0; i < n; i++) {
        int64_t terms = terms_of_step(func, loop, i);
        chunks[i] = is_long(func, loop, terms) ? chunk / min_i64(terms, chunk) : 0;
        any = any || chunks[i] > 0;
    }
    if (any) {
        op_set_ints(func, loop, ATTR_CHUNKS, n, chunks);
    }
}

void pass_chunk_accumulation(Func *func)
{
    if (!func->target || func->target->family != FAMILY_AMDGCN) {
        func_walk(func, chunk_loop, func);
    }
}
