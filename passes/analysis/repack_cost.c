/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/repack_cost.h"

#include <math.h>

#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/cost_model.h"
#include "support/int_math.h"
#include "support/text.h"

/* Products through registers, or by single warps, reach 0.13 to 0.25 of the matrix unit's rate, and
 * products of what TMA loads half of it and more (docs/lab/products.md): thresholds for operands
 * whose gain is not measured. */
enum {
    MIN_USES = 128,    /* of each element */
    MIN_WORK = 1 << 28 /* multiplications */
};
/* Cycles of a multiprocessor that each multiplication of a product takes longer if an operand is
 * computed in it: because it goes through registers to shared memory, between barriers, and for
 * each instruction of an element. Measured on the H200 (docs/lab/products.md). */
static const double THROUGH_REGISTERS = 1.06e-3, THROUGH_REGISTERS_FMA = 2.11e-3,
                    RECOMPUTED = 1.98e-4;
/* Of a tile whose operand is computed. */
enum { TILE_ROWS = 128, FEW_ROWS = 64, TILE_COLUMNS = 128 };

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

RepackBenefit an_repack_gain(const Func *func, const Op *dot, Type tensor, double gain, double cost)
{
    int64_t elements = most_elements(tensor), work = multiplications(dot);
    bool known = work < INT64_MAX && elements < INT64_MAX;
    const Machine *machine = func->target->machine;
    double saved = (double)work * gain;
    double spent = (double)elements * cost + cost_launches(machine, 1) * machine->num_sms;
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
    const Machine *machine = func->target->machine;
    double moved = cost_copy_each(machine, operand->bytes + written);
    double computed = cost_compute_each(machine, operand->instructions);
    double spent =
        fmax(moved, computed) + cost_copy_each(machine, fmax(0, written - operand->bytes));
    double gain = (warpgroups ? THROUGH_REGISTERS : THROUGH_REGISTERS_FMA) +
                  RECOMPUTED * operand->instructions;
    gain *= padding(func, dot->results[0]->type);
    return an_repack_gain(func, dot, operand->value->type, gain, spent);
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
