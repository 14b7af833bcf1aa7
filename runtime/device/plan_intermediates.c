/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns memory offsets to the intermediates of a plan; intermediates whose live ranges do not
 * overlap share memory. */
#include "runtime/device/device_launch.h"

enum { SCRATCH_ALIGN = 256 };

/* Room behind the last row counts. */
static bool scratch_bytes(const DeviceTensor *tensor, size_t *bytes)
{
    DeviceTensor whole = *tensor;
    if (tensor->strided) {
        whole.strided = false;
        whole.rank = 2;
        whole.dims[1] = tensor->strides[0];
    }
    return plan_bytes(&whole, bytes);
}

bool plan_scratch_tensor(const Plan *plan, int index, const int64_t *sizes, DeviceTensor *tensor,
                         size_t *bytes, DeviceError *error)
{
    const PlanScratch *scratch = &plan->scratch[index];
    *tensor = (DeviceTensor){
        .dtype = scratch->dtype, .rank = scratch->rank, .strided = scratch->strides != NULL};
    bool fits = true;
    for (int i = 0; i < scratch->rank; i++) {
        fits = fits && plan_eval(&scratch->dims[i], sizes, &tensor->dims[i]);
        tensor->dims[i] = tensor->dims[i] < 0 ? 0 : tensor->dims[i];
        fits = fits &&
               (!scratch->strides || plan_eval(&scratch->strides[i], sizes, &tensor->strides[i]));
    }
    if (!fits || !scratch_bytes(tensor, bytes)) {
        return device_fail(error, DIAG_SOURCE, 0,
                           "%s: an intermediate has more bytes than memory can hold", plan->kernel);
    }
    *bytes = scratch->first > scratch->last ? 0 : *bytes;
    return true;
}

static bool live_together(const PlanScratch *a, const PlanScratch *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place that no intermediate has which lives at the same time. */
static size_t lowest_offset(const Plan *plan, const size_t *bytes, const size_t *offsets, int index)
{
    size_t offset = 0;
    for (int i = 0; i < index; i++) {
        if (live_together(&plan->scratch[i], &plan->scratch[index]) && bytes[i] &&
            offset < offsets[i] + bytes[i] && offsets[i] < offset + bytes[index]) {
            offset = (offsets[i] + bytes[i] + SCRATCH_ALIGN - 1) & -(size_t)SCRATCH_ALIGN;
            i = -1; /* what was passed before may lie here */
        }
    }
    return offset;
}

size_t plan_place_scratch(const Plan *plan, const size_t *bytes, size_t *offsets)
{
    size_t total = 0;
    for (int i = 0; i < plan->n_scratch; i++) {
        offsets[i] = lowest_offset(plan, bytes, offsets, i);
        size_t end = offsets[i] + bytes[i];
        total = bytes[i] && end > total ? end : total;
    }
    return total;
}
