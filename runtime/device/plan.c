/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the size expressions of a plan and solves for the sizes of a launch from the shapes of
 * its tensors. It also checks the shapes, strides and size facts that the compiled code assumes. */
#include "runtime/device/device_launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool plan_eval(const PlanExpr *expr, const int64_t *sizes, int64_t *out)
{
    int64_t sum = 0;
    for (int i = 0; i < expr->n; i++) {
        const PlanTerm *term = &expr->terms[i];
        int64_t product = term->coef;
        for (int v = 0; v < term->n; v++) {
            if (__builtin_mul_overflow(product, sizes[term->vars[v]], &product)) {
                return false;
            }
        }
        if (__builtin_add_overflow(sum, product, &sum)) {
            return false;
        }
    }
    *out = sum;
    return true;
}

/* The size variable if the expression is one size variable alone, else -1. */
static int expr_as_size(const PlanExpr *expr)
{
    bool one = expr->n == 1 && expr->terms[0].n == 1 && expr->terms[0].coef == 1;
    return one ? expr->terms[0].vars[0] : -1;
}

typedef struct Solver {
    const Plan *plan;
    const LaunchArg *args;
    int64_t *sizes;
    DeviceError *error;
} Solver;

static bool check_rank(Solver *s, const PlanParam *param, const DeviceTensor *tensor)
{
    if (tensor->rank != param->rank) {
        return device_fail(s->error, DIAG_SOURCE, 0, "%s: '%s' has rank %d here, %d in the kernel",
                           s->plan->kernel, param->name, tensor->rank, param->rank);
    }
    if (tensor->dtype != param->dtype) {
        return device_fail(s->error, DIAG_SOURCE, 0, "%s: '%s' holds %s here, %s in the kernel",
                           s->plan->kernel, param->name, dtype_name(tensor->dtype),
                           dtype_name(param->dtype));
    }
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (tensor->dims[axis] < 0) {
            return device_fail(s->error, DIAG_SOURCE, 0, "%s: axis %d of '%s' has size %" PRId64,
                               s->plan->kernel, axis, param->name, tensor->dims[axis]);
        }
    }
    return true;
}

/* Splits a term into factor * sizes[unknown]; unknown is -1 if all its sizes are known. False if it
 * has two unknown sizes or overflows. */
static bool term_split(const PlanTerm *term, const int64_t *sizes, int *unknown, int64_t *factor)
{
    *unknown = -1;
    *factor = term->coef;
    for (int i = 0; i < term->n; i++) {
        int64_t size = sizes[term->vars[i]];
        if ((size < 0 && *unknown >= 0) ||
            (size >= 0 && __builtin_mul_overflow(*factor, size, factor))) {
            return false;
        }
        *unknown = size < 0 ? term->vars[i] : *unknown;
    }
    return true;
}

/* Rewrites `expression = value` as slope * sizes[unknown] = rest. False if the expression does not
 * have exactly one unknown size, or not linearly. */
static bool expr_split(const PlanExpr *expr, const int64_t *sizes, int64_t value, int *unknown,
                       int64_t *slope, int64_t *rest)
{
    *unknown = -1;
    *slope = 0;
    *rest = value;
    for (int i = 0; i < expr->n; i++) {
        int size;
        int64_t factor;
        if (!term_split(&expr->terms[i], sizes, &size, &factor) ||
            (size >= 0 && *unknown >= 0 && size != *unknown) ||
            (size >= 0 ? __builtin_add_overflow(*slope, factor, slope)
                       : __builtin_sub_overflow(*rest, factor, rest))) {
            return false;
        }
        *unknown = size >= 0 ? size : *unknown;
    }
    return *unknown >= 0 && *slope != 0;
}

/* Solves an axis with one unknown size for that size. */
static bool solve_axis(Solver *s, const PlanParam *param, const DeviceTensor *tensor, int axis,
                       bool *found)
{
    int size;
    int64_t slope, rest, value = tensor->dims[axis];
    if (!expr_split(&param->dims[axis], s->sizes, value, &size, &slope, &rest)) {
        return true;
    }
    bool divides = slope == -1 ? rest > INT64_MIN : rest % slope == 0;
    if (!divides || rest / slope < 0) {
        return device_fail(s->error, DIAG_SOURCE, 0,
                           "%s: axis %d of '%s' has %" PRId64 " elements, which no size %s gives",
                           s->plan->kernel, axis, param->name, value, s->plan->sizes[size].name);
    }
    s->sizes[size] = rest / slope;
    *found = true;
    return true;
}

/* Computes a size that is a quotient of other sizes as soon as those are known. A tensor never
 * determines such a size. */
static bool derive(Solver *s, int i, bool *found)
{
    const PlanSize *size = &s->plan->sizes[i];
    int64_t of;
    for (int k = 0; k < size->of.n; k++) {
        for (int j = 0; j < size->of.terms[k].n; j++) {
            if (s->sizes[size->of.terms[k].vars[j]] < 0) {
                return true;
            }
        }
    }
    bool known = plan_eval(&size->of, s->sizes, &of);
    int64_t value = known ? of / size->by - (of % size->by < 0) : -1;
    if (value < 0) {
        return device_fail(s->error, DIAG_SOURCE, 0,
                           "%s: the size %s would be negative, or overflows", s->plan->kernel,
                           size->name);
    }
    *found = *found || s->sizes[i] != value;
    s->sizes[i] = value;
    return true;
}

static bool derive_sizes(Solver *s, bool *found)
{
    for (int i = 0; i < s->plan->n_sizes; i++) {
        if (s->plan->sizes[i].by > 0 && !derive(s, i, found)) {
            return false;
        }
    }
    return true;
}

/* Solves for the sizes that are no axis by themselves, until no axis determines another one. */
static bool solve_rest(Solver *s)
{
    for (bool found = true; found;) {
        found = false;
        if (!derive_sizes(s, &found)) {
            return false;
        }
        for (int i = 0; i < s->plan->n_params; i++) {
            const PlanParam *param = &s->plan->params[i];
            for (int axis = 0; axis < param->rank; axis++) {
                if (!solve_axis(s, param, &s->args[i].tensor, axis, &found)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Takes all sizes that no tensor determines, as of `Q + P`, from the caller's values at once. True
 * if there was one. */
static bool take_given(Solver *s)
{
    bool any = false;
    for (int i = 0; i < s->plan->n_sizes; i++) {
        const PlanSize *size = &s->plan->sizes[i];
        bool open = size->is_given && s->sizes[i] < 0;
        s->sizes[i] = open ? size->given : s->sizes[i];
        any = any || open;
    }
    return any;
}

/* The tensor and the axis that determined a size; NULL if no axis did. */
static const PlanParam *giver_of(const Plan *plan, int size, int *axis)
{
    for (int i = 0; i < plan->n_params; i++) {
        for (*axis = 0; *axis < plan->params[i].rank; ++*axis) {
            if (expr_as_size(&plan->params[i].dims[*axis]) == size) {
                return &plan->params[i];
            }
        }
    }
    return NULL;
}

static bool is_constant(const PlanExpr *expr)
{
    return expr->n == 0 || (expr->n == 1 && expr->terms[0].n == 0);
}

static bool check_dims(Solver *s, const PlanParam *param, const DeviceTensor *tensor)
{
    for (int axis = 0; axis < param->rank; axis++) {
        int64_t want;
        if (!plan_eval(&param->dims[axis], s->sizes, &want)) {
            return device_fail(s->error, DIAG_SOURCE, 0,
                               "%s: the size of axis %d of '%s' overflows 64 bits", s->plan->kernel,
                               axis, param->name);
        }
        if (tensor->dims[axis] != want) {
            int64_t got = tensor->dims[axis];
            int size = expr_as_size(&param->dims[axis]), other_axis = 0;
            bool derived = size >= 0 && s->plan->sizes[size].by > 0;
            const PlanParam *giver =
                size >= 0 && !derived ? giver_of(s->plan, size, &other_axis) : NULL;
            if (!giver) {
                return device_fail(s->error, DIAG_SOURCE, 0,
                                   "%s: axis %d of '%s' has %" PRId64
                                   " elements, but it must have %" PRId64 " by the %s",
                                   s->plan->kernel, axis, param->name, got, want,
                                   is_constant(&param->dims[axis]) ? "kernel" : "other tensors");
            }
            return device_fail(s->error, DIAG_SOURCE, 0,
                               "%s: axis %d of '%s' has %" PRId64 " elements, but %s is %" PRId64
                               " by axis %d of '%s'",
                               s->plan->kernel, axis, param->name, got, s->plan->sizes[size].name,
                               want, other_axis, giver->name);
        }
    }
    return true;
}

static bool check_facts(Solver *s)
{
    for (int i = 0; i < s->plan->n_sizes; i++) {
        const PlanSize *size = &s->plan->sizes[i];
        int64_t value = s->sizes[i];
        if (size->stride) {
            continue;
        }
        if (value < 0) {
            return device_fail(s->error, DIAG_SOURCE, 0, "%s: no tensor determines the size %s",
                               s->plan->kernel, size->name);
        }
        char rule[96] = "";
        if (size->multiple > 1 && value % size->multiple != 0) {
            snprintf(rule, sizeof rule, "%s %% %" PRId64 " == 0", size->name, size->multiple);
        } else if (value < size->least) {
            snprintf(rule, sizeof rule, "%s >= %" PRId64, size->name, size->least);
        } else if (value > size->most) {
            snprintf(rule, sizeof rule, "%s <= %" PRId64, size->name, size->most);
        }
        if (*rule) {
            return device_fail(s->error, DIAG_SOURCE, 0,
                               "%s: %s is %" PRId64 ", but this code was compiled for %s",
                               s->plan->kernel, size->name, value, rule);
        }
    }
    return true;
}

/* ---- strides ---- */

static bool wrong_stride(Solver *s, const PlanParam *param, int axis, int64_t got,
                         const char *wanted)
{
    return device_fail(s->error, DIAG_USAGE, 0,
                       "%s: axis %d of '%s' has stride %" PRId64 ", but this code was compiled for "
                       "%s: strides are said when it is compiled, by the arguments themselves, "
                       "options.strides or --strides",
                       s->plan->kernel, param->order[axis], param->name, got, wanted);
}

/* The stride that is assumed for an axis of one element or an empty tensor, which affects no
 * address. */
static int64_t free_stride(const PlanSize *size)
{
    return size->most < 0 ? -size->multiple : size->multiple;
}

static bool check_stride(Solver *s, const PlanParam *param, const DeviceTensor *tensor, int axis,
                         bool counts)
{
    const PlanExpr *expr = &param->strides[axis];
    int64_t stride = plan_stride(tensor, axis), want = 0;
    int which = expr_as_size(expr);
    char wanted[96];
    if (which >= 0 && s->plan->sizes[which].stride) {
        const PlanSize *size = &s->plan->sizes[which];
        stride = counts ? stride : free_stride(size);
        const char *sign = size->most < 0 ? "negative" : "any";
        snprintf(wanted, sizeof wanted, "%s multiples of %" PRId64,
                 size->least > 0 ? "positive" : sign, size->multiple);
        s->sizes[which] = stride;
        return (stride % size->multiple == 0 && stride >= size->least && stride <= size->most) ||
               wrong_stride(s, param, axis, stride, wanted);
    }
    if (!counts || (plan_eval(expr, s->sizes, &want) && stride == want)) {
        return true;
    }
    snprintf(wanted, sizeof wanted, "%" PRId64, want);
    return wrong_stride(s, param, axis, stride, wanted);
}

static bool check_strides(Solver *s, const PlanParam *param, const DeviceTensor *tensor)
{
    bool empty = false;
    int64_t next = 1;
    for (int axis = 0; axis < param->rank; axis++) {
        empty = empty || tensor->dims[axis] == 0;
    }
    for (int axis = param->rank - 1; axis >= 0; axis--) {
        bool counts = !empty && tensor->dims[axis] > 1;
        int64_t stride = plan_stride(tensor, axis);
        if (param->strides && !check_stride(s, param, tensor, axis, counts)) {
            return false;
        }
        if (!param->strides && counts && stride != next) {
            return wrong_stride(s, param, axis, stride, "a contiguous tensor");
        }
        next = (int64_t)((uint64_t)next * (uint64_t)tensor->dims[axis]);
    }
    return true;
}

static bool for_tensors(Solver *s, bool (*check)(Solver *, const PlanParam *, const DeviceTensor *))
{
    for (int i = 0; i < s->plan->n_params; i++) {
        if (s->plan->params[i].rank >= 0 && !check(s, &s->plan->params[i], &s->args[i].tensor)) {
            return false;
        }
    }
    return true;
}

bool plan_solve(const Plan *plan, const LaunchArg *args, int64_t *sizes, DeviceError *error)
{
    Solver s = {plan, args, sizes, error};
    for (int i = 0; i < plan->n_sizes; i++) {
        sizes[i] = plan->sizes[i].stride ? 0 : -1;
    }
    if (!for_tensors(&s, check_rank)) {
        return false;
    }
    for (int i = 0; i < plan->n_params; i++) {
        /* The first axis that is a size variable by itself determines its value. */
        const PlanParam *param = &plan->params[i];
        const DeviceTensor *tensor = &args[i].tensor;
        for (int axis = 0; axis < param->rank; axis++) {
            int size = expr_as_size(&param->dims[axis]);
            if (size >= 0 && s.plan->sizes[size].by == 0 && s.sizes[size] < 0) {
                s.sizes[size] = tensor->dims[axis];
            }
        }
    }
    return solve_rest(&s) && (!take_given(&s) || solve_rest(&s)) && check_facts(&s) &&
           for_tensors(&s, check_dims) && for_tensors(&s, check_strides);
}

bool plan_blocks(const PlanLaunch *launch, const int64_t *sizes, int64_t *blocks)
{
    int64_t product = 1;
    for (int i = 0; i < launch->n_axes; i++) {
        int64_t extent, step = launch->axes[i].step;
        if (!plan_eval(&launch->axes[i].extent, sizes, &extent)) {
            return false;
        }
        int64_t from = launch->axes[i].from, upto = launch->axes[i].upto;
        extent = upto > 0 && upto < extent ? upto : extent;
        extent = extent < from ? 0 : extent - from;
        int64_t tiles = step > 1 ? extent / step + (extent % step != 0) : extent;
        if (tiles == 0) {
            *blocks = 0;
            return true;
        }
        if (__builtin_mul_overflow(product, tiles, &product)) {
            return false;
        }
    }
    *blocks = product;
    return true;
}

int64_t plan_resident(const PlanLaunch *launch, int64_t blocks, int64_t units)
{
    int64_t cluster = launch->cluster > 1 ? launch->cluster : 1;
    int64_t most = units * launch->blocks_per_unit / cluster, each = launch->most_tiles;
    int64_t tiles = blocks / cluster; /* of whole clusters */
    int64_t least = each ? tiles / each + (tiles % each != 0) : 0;
    if (most <= least) {
        most = least > 0 ? least : 1;
    }
    most *= cluster;
    return launch->persistent && blocks > most ? most : blocks;
}

bool plan_bytes(const DeviceTensor *tensor, size_t *bytes)
{
    size_t each = (size_t)dtype_bytes(tensor->dtype), product = each;
    bool over = false, empty = false;
    for (int i = 0; i < tensor->rank; i++) {
        empty |= tensor->dims[i] == 0;
        over |= __builtin_mul_overflow(product, (size_t)tensor->dims[i], &product);
    }
    *bytes = empty ? 0 : dtype_size(tensor->dtype, product / each);
    return empty || (!over && product <= PTRDIFF_MAX);
}

int64_t plan_stride(const DeviceTensor *tensor, int axis)
{
    if (tensor->strided) {
        return tensor->strides[axis];
    }
    uint64_t stride = 1;
    for (int i = axis + 1; i < tensor->rank; i++) {
        stride *= (uint64_t)tensor->dims[i];
    }
    return (int64_t)stride;
}

bool plan_reach(const DeviceTensor *tensor, size_t *before, size_t *bytes)
{
    int64_t each = dtype_bytes(tensor->dtype), low = 0, high = each;
    *before = 0;
    if (!tensor->strided || dtype_is_packed(tensor->dtype)) {
        return plan_bytes(tensor, bytes);
    }
    for (int i = 0; i < tensor->rank; i++) {
        int64_t far, *end = tensor->strides[i] < 0 ? &low : &high;
        if (tensor->dims[i] == 0) {
            *bytes = 0;
            return true;
        }
        if (__builtin_mul_overflow(tensor->strides[i], tensor->dims[i] - 1, &far) ||
            __builtin_mul_overflow(far, each, &far) || __builtin_add_overflow(*end, far, end)) {
            return false;
        }
    }
    int64_t all;
    *before = (size_t) - (uint64_t)low;
    bool fits = !__builtin_sub_overflow(high, low, &all);
    *bytes = (size_t)all;
    return fits;
}
