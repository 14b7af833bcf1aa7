/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns memory offsets to the intermediates of a plan; intermediates whose live ranges do not
 * overlap share memory. */
#include "runtime/device/device_launch.h"

enum { SCRATCH_ALIGN = 256 };

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
    DeviceTensor whole = *tensor; /* the padding after the last row takes memory, too */
    if (tensor->strided) {
        whole.strided = false;
        whole.rank = 2;
        whole.dims[1] = tensor->strides[0];
    }
    if (!fits || !plan_bytes(&whole, bytes)) {
        return device_fail(error, DIAG_SOURCE, 0,
                           "%s: an intermediate has more bytes than memory can hold", plan->kernel);
    }
    *bytes = scratch->first > scratch->last ? 0 : *bytes;
    return true;
}

size_t plan_place_scratch(const Plan *plan, const size_t *bytes, size_t *offsets)
{
    /* Each intermediate gets the lowest offset at which it overlaps no earlier intermediate that is
     * live at the same time. */
    size_t total = 0;
    for (int index = 0; index < plan->n_scratch; index++) {
        const PlanScratch *scratch = &plan->scratch[index];
        size_t offset = 0;
        for (int i = 0; i < index; i++) {
            const PlanScratch *other = &plan->scratch[i];
            bool both_live = other->first <= scratch->last && scratch->first <= other->last;
            if (both_live && bytes[i] && offset < offsets[i] + bytes[i] &&
                offsets[i] < offset + bytes[index]) {
                offset = (offsets[i] + bytes[i] + SCRATCH_ALIGN - 1) & -(size_t)SCRATCH_ALIGN;
                i = -1; /* the new offset may overlap one that was tested before */
            }
        }
        offsets[index] = offset;
        size_t end = offset + bytes[index];
        total = bytes[index] && end > total ? end : total;
    }
    return total;
}
