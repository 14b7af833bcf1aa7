/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of `tessera check`, and of sweeps that check their candidates. Each backend gets
 * its own copies of the inputs and outputs, with the strides of the arrays, so that one backend
 * cannot hide the errors of another. */
#include "cli/data/backend_args.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

bool array_is_result(const Array *array)
{
    return array->param->rank >= 0 && array->param->io != TESSERA_IN;
}

/* The start of the memory block that holds the tensor; array_moved gave its data. */
static void *block_of(const Array *array, const TesseraArg *arg)
{
    ptrdiff_t before = (char *)array->tensor.data - (char *)array->block;
    return (char *)arg->tensor.data - (arg->tensor.strides ? before : 0);
}

static bool has_copy(const Array *array, const TesseraArg *arg)
{
    return array->param->rank >= 0 && arg->tensor.data != array->tensor.data;
}

/* ---- on a device ---- */

bool args_upload(TesseraDevice *device, const Arrays *arrays, TesseraArg *args)
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

void args_release(TesseraDevice *device, const Arrays *arrays, TesseraArg *args)
{
    for (size_t i = 0; i < arrays->n; i++) {
        if (has_copy(&arrays->items[i], &args[i])) {
            tessera_release(device, block_of(&arrays->items[i], &args[i]));
        }
    }
}

void *args_download(TesseraDevice *device, const Array *array, const TesseraArg *arg)
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

/* ---- on the host ---- */

void array_randomize(Array *array, uint64_t seed)
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

TesseraArg *args_for_interpreter(const Arrays *arrays, bool as_f64)
{
    TesseraArg *args = arrays_args(arrays, false);
    for (size_t i = 0; i < arrays->n; i++) {
        const Array *array = &arrays->items[i];
        size_t elements = 0, bytes;
        bool is_tensor = array->param->rank >= 0 && tensor_bytes(&array->tensor, &elements, &bytes);
        if (is_tensor && as_f64 && tessera_type_is_float(array->tensor.type)) {
            /* A float input of the f64 reference is a row-major copy in f64. */
            TesseraArg *arg = &args[i];
            double *data = alloc_or_exit(elements * sizeof *data);
            void *packed = tensor_packed(&array->tensor);
            for (size_t k = 0; k < elements; k++) {
                data[k] = tessera_get(array->tensor.type, packed, k);
            }
            free(packed);
            arg->tensor.data = data;
            arg->tensor.type = TESSERA_F64;
            arg->tensor.strides = NULL;
        } else if (array_is_result(array)) {
            void *block = alloc_or_exit(array->bytes);
            memcpy(block, array->block, array->bytes);
            args[i].tensor.data = array_moved(array, block);
            args[i].bound = as_f64 ? NULL : alloc_or_exit(elements * sizeof(double));
        }
    }
    return args;
}

void args_free(const Arrays *arrays, TesseraArg *args)
{
    for (size_t i = 0; args && i < arrays->n; i++) {
        if (has_copy(&arrays->items[i], &args[i])) {
            free(block_of(&arrays->items[i], &args[i]));
        }
        free(args[i].bound);
    }
    free(args);
}
