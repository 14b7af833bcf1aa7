/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which code of a bundle runs on a device, and which of several suitable variants is the
 * most specialized. */
#include "runtime/launch/bundle_format.h"
#include "support/host_cpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- parts ---- */

/* The psABI level of x86-64 if this CPU has it, else -1. */
static int suits_host(const char *target)
{
    if (text_equal(target, "x86-64-v4")) {
        return host_x86_level() >= 4 ? 4 : -1;
    }
    return text_equal(target, "x86-64-v3") && host_x86_level() >= 3 ? 3 : -1;
}

/* Parses "sm_90a" as 90; `alone` is set if code with that suffix runs on that part only. */
static bool nvidia_part(const char *target, int *part, bool *alone)
{
    char *end = NULL;
    bool is = strncmp(target, "sm_", 3) == 0;
    long number = is ? strtol(target + 3, &end, 10) : 0;
    if (!is || end == target + 3 || number <= 0 || number > 10000) {
        return false;
    }
    *part = (int)number;
    *alone = *end != '\0';
    return true;
}

/* NVIDIA's driver assembles PTX for an earlier part unless it uses extensions of that part. */
static int suits_later(const BundleVariant *variant, const BundlePart *part)
{
    int wants, has;
    bool alone, any;
    bool parts =
        nvidia_part(variant->target, &wants, &alone) && nvidia_part(part->target, &has, &any);
    return parts && variant->kind == BUNDLE_PTX && !alone && wants <= has ? wants : -1;
}

/* True if a block fits the part; an earlier part may allow more threads or shared memory. */
static bool fits_limits(const Plan *plan, const BundlePart *part)
{
    for (int i = 0; i < plan->n_launches; i++) {
        const PlanLaunch *launch = &plan->launches[i];
        if (launch->threads > part->max_threads || launch->shared_bytes > part->shared_bytes) {
            return false;
        }
    }
    return true;
}

int variant_suits(const BundleVariant *variant, const BundlePart *part)
{
    if (part->host || variant->kind == BUNDLE_HOST) {
        return part->host && variant->kind == BUNDLE_HOST ? suits_host(variant->target) : -1;
    }
    if (text_equal(variant->target, part->target)) {
        return INT32_MAX;
    }
    return fits_limits(&variant->plan, part) ? suits_later(variant, part) : -1;
}

/* ---- sizes ---- */

static int bits_of(int64_t number)
{
    return number > 1 ? 63 - __builtin_clzll((uint64_t)number) : 0;
}

static int special_size(const PlanSize *size)
{
    int bits = bits_of(size->multiple);
    if (size->stride || size->by > 0) {
        return size->stride ? bits : 0; /* a quotient of other sizes has no facts of its own */
    }
    if (size->most < INT64_MAX) {
        int64_t rest = size->most / size->multiple; /* how many multiples there are */
        bits += 62 - bits - bits_of(rest);
    }
    return bits + (size->least > 1);
}

static bool is_number(const PlanExpr *expr)
{
    return expr->n == 0 || (expr->n == 1 && expr->terms[0].n == 0);
}

static int special_param(const PlanParam *param)
{
    enum { BITS_OF_STRIDE = 16 };
    int bits = bits_of(param->align);
    for (int axis = 0; axis < param->rank; axis++) {
        bool fixed = !param->strides || is_number(&param->strides[axis]);
        bits += fixed ? BITS_OF_STRIDE : 0;
    }
    return param->rank < 0 ? 0 : bits;
}

int variant_special(const Plan *plan)
{
    int bits = 0;
    for (int i = 0; i < plan->n_sizes; i++) {
        bits += special_size(&plan->sizes[i]);
    }
    for (int i = 0; i < plan->n_params; i++) {
        bits += special_param(&plan->params[i]);
    }
    return bits;
}
