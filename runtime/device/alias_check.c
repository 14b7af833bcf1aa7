/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether tensors overlap in memory. The test is exact for contiguous tensors. Strided
 * tensors may be reported as overlapping although they do not; the launch is then refused. */
#include "runtime/device/device_launch.h"

#include <string.h>

enum { MAX_RANK = PLAN_MAX_RANK }; /* intermediates are never compared */

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? -(uint64_t)value : (uint64_t)value;
}

/* ---- elements of one tensor ---- */

typedef struct Axis {
    uint64_t stride, dim;
} Axis;

/* True if no two elements of the tensor share memory: with the axes of several elements sorted by
 * stride, each stride must exceed the distance that the axes before it span. */
static bool is_disjoint(const DeviceTensor *tensor)
{
    Axis axes[MAX_RANK];
    uint64_t reach = 0; /* it fits, by plan_reach */
    int n = 0;
    for (int i = 0; i < tensor->rank; i++) {
        Axis axis = {magnitude(plan_stride(tensor, i)), (uint64_t)tensor->dims[i]};
        int at = n;
        for (; axis.dim > 1 && at > 0 && axes[at - 1].stride > axis.stride; at--) {
            axes[at] = axes[at - 1];
        }
        if (axis.dim > 1) {
            axes[at] = axis;
            n++;
        }
    }
    for (int i = 0; i < n; i++) {
        if (axes[i].stride <= reach) {
            return false;
        }
        reach += axes[i].stride * (axes[i].dim - 1);
    }
    return true;
}

/* ---- two tensors ---- */

/* The address range of a tensor modulo a distance; axes whose stride is a multiple of the distance
 * do not widen it. */
typedef struct Window {
    uintptr_t first;
    uint64_t bytes;
} Window;

static Window window_of(const DeviceTensor *tensor, uint64_t modulus)
{
    uint64_t each = (uint64_t)dtype_bytes(tensor->dtype);
    Window window = {(uintptr_t)tensor->data, each};
    for (int i = 0; i < tensor->rank; i++) {
        int64_t stride = plan_stride(tensor, i);
        uint64_t step = magnitude(stride) * each, far = step * (uint64_t)(tensor->dims[i] - 1);
        if (modulus && step % modulus == 0) {
            continue;
        }
        window.bytes += far;
        window.first -= stride < 0 ? (uintptr_t)far : 0;
    }
    return window;
}

/* True if the tensors occupy disjoint parts of every `modulus` bytes, as columns of a matrix do. */
static bool interleave(const DeviceTensor *a, const DeviceTensor *b, uint64_t modulus)
{
    Window p = window_of(a, modulus), q = window_of(b, modulus);
    uint64_t between = q.first >= p.first ? (q.first - p.first) % modulus
                                          : modulus - (p.first - q.first) % modulus;
    between = between == modulus ? 0 : between;
    return p.bytes <= between && q.bytes <= modulus - between;
}

static bool overlap(const DeviceTensor *a, const DeviceTensor *b)
{
    size_t before, n = 0, m = 0;
    bool sized = plan_reach(a, &before, &n);
    uintptr_t p = (uintptr_t)a->data - before;
    sized = plan_reach(b, &before, &m) && sized;
    uintptr_t q = (uintptr_t)b->data - before;
    if (!sized || !n || !m || p >= q + m || q >= p + n) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        uint64_t step = magnitude(plan_stride(a, i)) * (uint64_t)dtype_bytes(a->dtype);
        if (a->strided && !dtype_is_packed(a->dtype) && step && interleave(a, b, step)) {
            return false;
        }
    }
    return true;
}

bool plan_check_overlaps(const Plan *plan, const LaunchArg *args, DeviceError *error)
{
    for (int i = 0; i < plan->n_params; i++) {
        bool written = plan->params[i].rank >= 0 && plan->params[i].io != PLAN_IN;
        if (!written) {
            continue;
        }
        /* The elements of a written tensor must not overlap, nor may another argument share
         * memory with it. */
        size_t before, bytes;
        bool empty = plan_reach(&args[i].tensor, &before, &bytes) && bytes == 0;
        if (!empty && !is_disjoint(&args[i].tensor)) {
            return device_fail(
                error, DIAG_USAGE, 0,
                "%s: elements of '%s', which is written, may share memory by its strides",
                plan->kernel, plan->params[i].name);
        }
        for (int j = 0; j < plan->n_params; j++) {
            if (i != j && plan->params[j].rank >= 0 && overlap(&args[i].tensor, &args[j].tensor)) {
                return device_fail(error, DIAG_USAGE, 0,
                                   "%s: '%s', which is written, shares memory with '%s'",
                                   plan->kernel, plan->params[i].name, plan->params[j].name);
            }
        }
    }
    return true;
}
