/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/repack_cost.h"

#include "ir/schedule.h"
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

RepackDecision an_repack_decide(Func *func, const char *key, bool pays, const char *reason)
{
    bool given = schedule_user_entry(func, key, "") != NULL;
    return (RepackDecision){given, schedule_decide_on(func, key, pays, "%s", reason)};
}

bool an_repack_is_made(const RepackDecision *line, const RepackBenefit *weight)
{
    return line->on && (line->given || weight->pays);
}
