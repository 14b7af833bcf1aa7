/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, for the Python package, a prepared launch whose tensors have the same types, shapes,
 * strides and alignment as those of a call, so that a repeated call prepares nothing. */
#include "runtime/launch/dlpack.h"

enum { MAX_OBJECTS = 64, ALIGNED = 16 };

static bool same_type(const DLTensor *tensor, DType dtype)
{
    DLDataType wanted;
    return dlpack_type((TesseraType)dtype, &wanted) && wanted.code == tensor->dtype.code &&
           wanted.bits == tensor->dtype.bits && wanted.lanes == tensor->dtype.lanes;
}

/* Distances along axes of one element, and of nothing, do not count. The arguments' axes are in the
 * order of the plan. */
static bool same_shape(const DLTensor *tensor, const PlanParam *param, const DeviceTensor *given)
{
    int64_t distance = 1, distances[TESSERA_MAX_RANK];
    bool empty = false;
    if (tensor->rank != given->rank || tensor->rank != param->rank) {
        return false;
    }
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        distances[axis] = tensor->strides ? tensor->strides[axis] : distance;
        distance = (int64_t)((uint64_t)distance * (uint64_t)tensor->shape[axis]);
        empty = empty || tensor->shape[axis] == 0;
    }
    for (int axis = 0; axis < tensor->rank; axis++) {
        int at = param->order[axis];
        int64_t extent = tensor->shape[at];
        if (extent != given->dims[axis] ||
            (extent > 1 && !empty && distances[at] != given->strides[axis])) {
            return false;
        }
    }
    return true;
}

static void *address_of(const DLTensor *tensor)
{
    return tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL;
}

static bool same_alignment(const void *a, const void *b)
{
    return (uintptr_t)a % ALIGNED == (uintptr_t)b % ALIGNED;
}

static bool suits(const TesseraLaunch *launch, const DLTensor *tensors, size_t n)
{
    const LaunchArg *given = launch_given(launch->prepared);
    size_t at = 0;
    for (int i = 0; i < launch->plan->n_params && at < n; i++) {
        const PlanParam *param = &launch->plan->params[i];
        const DLTensor *tensor = &tensors[at];
        if (param->rank < 0) {
            continue;
        }
        if (!same_type(tensor, given[i].tensor.dtype) || !dlpack_is_on(tensor, launch->device) ||
            !same_shape(tensor, param, &given[i].tensor) ||
            !same_alignment(address_of(tensor), given[i].tensor.data)) {
            return false;
        }
        at++;
    }
    return at == n;
}

int tessera_launch_find(const TesseraSearch *search, void *const *objects)
{
    DLTensor described[MAX_OBJECTS];
    if (!search || !objects || !search->launches || !search->describe || !search->tensors ||
        search->n_objects > MAX_OBJECTS) {
        return -1;
    }
    for (size_t i = 0; i < search->n_objects; i++) {
        if (search->describe(objects[i], &described[i]) != 0) {
            return -1;
        }
        search->tensors[i] = address_of(&described[i]);
    }
    for (size_t i = 0; i < search->n_launches; i++) {
        const TesseraLaunch *launch = search->launches[i];
        if (launch && launch->prepared && suits(launch, described, search->n_objects)) {
            return (int)i;
        }
    }
    return -1;
}
