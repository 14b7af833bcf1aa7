/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of `tessera check`. Each backend gets its own copies of the inputs and outputs,
 * with the strides of the arrays, so that one backend cannot hide the errors of another. */
#include "cli/commands/cmd_check.h"
#include "cli/data/array_args.h"
#include "cli/options.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

bool check_is_result(const Array *array)
{
    return array->param->rank >= 0 && array->param->io != TESSERA_IN;
}

/* The block of which array_moved made the tensor's data. */
static void *block_of(const Array *array, const TesseraArg *arg)
{
    ptrdiff_t before = (char *)array->tensor.data - (char *)array->block;
    return (char *)arg->tensor.data - (arg->tensor.strides ? before : 0);
}

static bool is_own(const Array *array, const TesseraArg *arg)
{
    return array->param->rank >= 0 && arg->tensor.data != array->tensor.data;
}

/* ---- on a device ---- */

bool check_upload(TesseraDevice *device, const Arrays *arrays, TesseraArg *args)
{
    for (size_t i = 0; i < arrays->n; i++) {
        const Array *array = &arrays->items[i];
        void *block;
        if (array->param->rank < 0) {
            continue;
        }
        if (tessera_alloc(device, array->bytes, &block) != TESSERA_OK) {
            return false;
        }
        args[i].tensor.data = array_moved(array, block);
        if (tessera_copy_in(device, block, array->block, array->bytes) != TESSERA_OK) {
            return false;
        }
    }
    return true;
}

void check_release(TesseraDevice *device, const Arrays *arrays, TesseraArg *args)
{
    for (size_t i = 0; i < arrays->n; i++) {
        if (is_own(&arrays->items[i], &args[i])) {
            tessera_release(device, block_of(&arrays->items[i], &args[i]));
        }
    }
}

void *check_download(TesseraDevice *device, const Array *array, const TesseraArg *arg)
{
    void *block = alloc_or_exit(array->bytes), *packed = NULL;
    TesseraTensor tensor = array->tensor;
    tensor.data = array_moved(array, block);
    if (tessera_copy_out(device, block, block_of(array, arg), array->bytes) == TESSERA_OK) {
        packed = tensor_packed(&tensor);
    }
    free(block);
    return packed;
}

/* ---- the interpreter's ---- */

void check_random(Array *array, uint64_t seed)
{
    size_t elements, bytes;
    TesseraTensor packed = array->tensor;
    tensor_bytes(&array->tensor, &elements, &bytes);
    packed.strides = NULL;
    packed.data = alloc_or_exit(bytes);
    tensor_random(&packed, seed, array->param->name, false);
    tensor_spread(&array->tensor, packed.data);
    free(packed.data);
}

static void widen(const Array *array, size_t elements, TesseraArg *arg)
{
    double *data = alloc_or_exit(elements * sizeof *data);
    void *packed = tensor_packed(&array->tensor);
    for (size_t i = 0; i < elements; i++) {
        data[i] = tessera_get(array->tensor.type, packed, i);
    }
    free(packed);
    arg->tensor.data = data;
    arg->tensor.type = TESSERA_F64;
    arg->tensor.strides = NULL;
}

TesseraArg *check_own(const Arrays *arrays, bool wide)
{
    TesseraArg *args = arrays_args(arrays, false);
    for (size_t i = 0; i < arrays->n; i++) {
        const Array *array = &arrays->items[i];
        size_t elements = 0, bytes;
        bool is_tensor = array->param->rank >= 0 && tensor_bytes(&array->tensor, &elements, &bytes);
        if (is_tensor && wide && tessera_type_is_float(array->tensor.type)) {
            widen(array, elements, &args[i]);
        } else if (check_is_result(array)) {
            void *block = alloc_or_exit(array->bytes);
            memcpy(block, array->block, array->bytes);
            args[i].tensor.data = array_moved(array, block);
            args[i].bound = wide ? NULL : alloc_or_exit(elements * sizeof(double));
        }
    }
    return args;
}

void check_drop(const Arrays *arrays, TesseraArg *args)
{
    for (size_t i = 0; args && i < arrays->n; i++) {
        if (is_own(&arrays->items[i], &args[i])) {
            free(block_of(&arrays->items[i], &args[i]));
        }
        free(args[i].bound);
    }
    free(args);
}
