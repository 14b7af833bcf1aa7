/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of public arguments that need no compiler: NULL, unknown element types, impossible ranks
 * and strides. libtessera and libtessera-launch share them. */
#include "runtime/launch/launch_context.h"

#include <inttypes.h>

const char *null_argument(const NamedArgument *arguments, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!arguments[i].value) {
            return arguments[i].name;
        }
    }
    return NULL;
}

TesseraStatus context_null(TesseraContext *context, const char *call, const char *what)
{
    return context_usage(context, "%s: %s is NULL", call, what);
}

bool type_is_known(TesseraType type)
{
    return (int)type >= 0 && (int)type < DT_COUNT;
}

TesseraStatus tensor_check(TesseraContext *context, const char *kernel, const char *name,
                           const TesseraTensor *tensor)
{
    if (!type_is_known(tensor->type)) {
        return context_usage(context, "%s: '%s' has an unknown element type, %d", kernel, name,
                             (int)tensor->type);
    }
    if (tensor->rank < 0 || tensor->rank > TESSERA_MAX_RANK) {
        return context_usage(context, "%s: '%s' has rank %d; 0 to %d are possible", kernel, name,
                             tensor->rank, TESSERA_MAX_RANK);
    }
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (tensor->dims[axis] < 0) {
            return context_usage(context, "%s: axis %d of '%s' has size %" PRId64, kernel, axis,
                                 name, tensor->dims[axis]);
        }
    }
    return TESSERA_OK;
}

void tensor_strides(const TesseraTensor *tensor, int64_t *strides)
{
    int64_t stride = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        strides[axis] = tensor->strides ? tensor->strides[axis] : stride;
        stride = (int64_t)((uint64_t)stride * (uint64_t)tensor->dims[axis]);
    }
}
