/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/repack_cost.h"

#include <math.h>

#include "ir/schedule.h"
#include "ir/target/target.h"
#include "support/int_math.h"
#include "support/text.h"

/* From the H200 (docs/lab/products.md): products through registers, or by single warps, reach 0.13
 * to 0.25 of the unit's rate, tiles of the engine half of it and more, so that a multiplication
 * costs 11 fs less and more where operands are wider; two bytes are copied in 1.3 ps, and a launch
 * takes 3 us. */
enum {
    MIN_USES = 128,    /* of each element */
    MIN_WORK = 1 << 28 /* multiplications */
};
/* Attoseconds of the H200 for an operand that is computed in the product, of each multiplication of
 * a full device: because it goes through registers to shared memory, between barriers, and for each
 * instruction of an element; of each element of a launch that computes it: for each byte that it
 * moves, and for each instruction (docs/lab/products.md). */
static const double THROUGH_REGISTERS = 4000, THROUGH_REGISTERS_FMA = 8000, RECOMPUTED = 750,
                    COPIED_BYTE = 325000, COMPUTED = 35000;
/* Of a tile whose operand is computed. */
enum { TILE_ROWS = 128, FEW_ROWS = 64, TILE_COLUMNS = 128 };
static const double LAUNCH = 3e12; /* attoseconds */

/* Of a range: what it is a part of. */
static int64_t most_along(Type type, int axis)
{
    const DimVar *range = poly_as_range(type->dims[axis]);
    return poly_most(range ? range->whole : type->dims[axis]);
}

/* Times that loops around the op walk an axis element by element. */
static int64_t rounds(const Op *op)
{
    int64_t n = 1;
    for (const Op *up = op->parent->parent; up; up = up->parent->parent) {
        const Attr *dims = op_attr(up, ATTR_DIMS);
        for (int i = 0; dims && i < dims->n && i < up->regions[0]->n_args; i++) {
            bool range = up->regions[0]->args[i]->type->kind == TYPE_RANGE;
            n = range ? n : mul_sat(n, poly_most(dims->dims[i]));
        }
    }
    return n;
}

static int64_t most_elements(Type type)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        n = mul_sat(n, most_along(type, i));
    }
    return n;
}

static int64_t multiplications(const Op *dot)
{
    Type a = dot->operands[0]->type;
    int64_t work = mul_sat(most_elements(dot->results[0]->type), most_along(a, a->rank - 1));
    return mul_sat(work, rounds(dot));
}

RepackBenefit an_repack_benefit(const Op *dot, Type tensor)
{
    int64_t elements = most_elements(tensor), work = multiplications(dot);
    bool known = work < INT64_MAX && elements < INT64_MAX;
    return (RepackBenefit){known, known && work >= MIN_WORK && work / MIN_USES >= elements};
}

RepackBenefit an_repack_gain(const Op *dot, Type tensor, int64_t gain, int64_t cost)
{
    int64_t elements = most_elements(tensor), work = multiplications(dot);
    bool known = work < INT64_MAX && elements < INT64_MAX;
    double saved = (double)work * (double)gain, spent = (double)elements * (double)cost + LAUNCH;
    return (RepackBenefit){known, known && saved > spent};
}

/* How many times the product takes as long as its multiplications on a full device: tiles are
 * padded, and some multiprocessors have none, or fewer than others. */
static double padding(const Func *func, Type result)
{
    double sms = func->target->machine->num_sms, tiles = 1, elements = 1;
    int64_t rows = most_along(result, result->rank - 2);
    int64_t tile_rows = rows > FEW_ROWS ? TILE_ROWS : FEW_ROWS;
    for (int i = 0; i < result->rank; i++) {
        int64_t extent = max_i64(1, most_along(result, i));
        int64_t tile = i == result->rank - 2 ? tile_rows : 1;
        tile = i == result->rank - 1 ? TILE_COLUMNS : tile;
        tiles *= ceil((double)extent / (double)tile);
        elements *= (double)extent;
    }
    return ceil(tiles / sms) * sms * (double)(tile_rows * TILE_COLUMNS) / elements;
}

RepackBenefit an_repack_computed(const Func *func, const Op *dot, const ComputedOperand *operand,
                                 bool warpgroups)
{
    double written = dtype_bits(operand->value->type->dtype) / 8.0;
    double moved = COPIED_BYTE * (operand->bytes + written);
    double computed = COMPUTED * operand->instructions;
    double spent = (moved > computed ? moved : computed) +
                   COPIED_BYTE * (written > operand->bytes ? written - operand->bytes : 0);
    double gain = (warpgroups ? THROUGH_REGISTERS : THROUGH_REGISTERS_FMA) +
                  RECOMPUTED * operand->instructions;
    gain *= padding(func, dot->results[0]->type);
    return an_repack_gain(dot, operand->value->type, (int64_t)gain, (int64_t)spent);
}

void an_repack_consider(RepackDecision *decision, const RepackBenefit *copy)
{
    decision->any = true;
    decision->known = decision->known || copy->known;
    decision->pays = decision->pays || copy->pays;
}

void an_repack_decide(Func *func, const char *key, const RepackReasons *why,
                      RepackDecision *decision)
{
    if (decision->any) {
        const char *costs = decision->known ? why->costs : why->unknown;
        decision->given = schedule_user_entry(func, key, "") != NULL;
        decision->on =
            schedule_decide_on(func, key, decision->pays, "%s", decision->pays ? why->pays : costs);
    }
}

bool an_repack_is_made(const RepackDecision *decision, const RepackBenefit *copy)
{
    return decision->on && (decision->given || copy->pays);
}
