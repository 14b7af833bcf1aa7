/* SPDX-License-Identifier: Apache-2.0 */
/* Converts tensors of other libraries to ours and back, through DLPack. */
#include "runtime/launch/dlpack.h"

#include <stdlib.h>
#include <string.h>

typedef struct DLManagedTensor {
    DLTensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

enum {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_BOOL = 6,
    DL_E4M3 = 10,
    DL_E5M2 = 12
};
enum {
    DL_CPU = 1,
    DL_CUDA = 2,
    DL_CUDA_HOST = 3,
    DL_ROCM = 10,
    DL_ROCM_HOST = 11,
    DL_CUDA_MANAGED = 13
};

static const struct {
    TesseraType type;
    uint8_t code, bits;
} TYPES[] = {
    {TESSERA_BOOL, DL_BOOL, 8},  {TESSERA_I8, DL_INT, 8},       {TESSERA_I16, DL_INT, 16},
    {TESSERA_I32, DL_INT, 32},   {TESSERA_I64, DL_INT, 64},     {TESSERA_U8, DL_UINT, 8},
    {TESSERA_U16, DL_UINT, 16},  {TESSERA_U32, DL_UINT, 32},    {TESSERA_U64, DL_UINT, 64},
    {TESSERA_F16, DL_FLOAT, 16}, {TESSERA_BF16, DL_BFLOAT, 16}, {TESSERA_F32, DL_FLOAT, 32},
    {TESSERA_F64, DL_FLOAT, 64}, {TESSERA_F8E4M3, DL_E4M3, 8},  {TESSERA_F8E5M2, DL_E5M2, 8},
};

static const struct {
    int32_t dl;
    const char *kind;
} KINDS[] = {
    {DL_CPU, "cpu"},       {DL_CUDA, "cuda"},     {DL_ROCM, "hip"},
    {DL_CUDA_HOST, "cpu"}, {DL_ROCM_HOST, "cpu"}, {DL_CUDA_MANAGED, "cuda"},
};

/* ---- in ---- */

static bool find_type(DLDataType dtype, TesseraType *type)
{
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (TYPES[i].code == dtype.code && TYPES[i].bits == dtype.bits && dtype.lanes == 1) {
            *type = TYPES[i].type;
            return true;
        }
    }
    return false;
}

TesseraStatus tessera_dlpack_in(TesseraContext *context, const struct DLManagedTensor *managed,
                                TesseraTensor *tensor, const char **kind, int *ordinal)
{
    const char *null = NULL_ARGUMENT({managed, "managed"}, {tensor, "tensor"});
    if (!context || null) {
        return context_null(context, __func__, null ? null : "context");
    }
    const DLTensor *from = &managed->tensor;
    const char *place = NULL;
    *tensor = (TesseraTensor){.rank = from->rank, .strides = from->strides};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        place = KINDS[i].dl == from->device.type ? KINDS[i].kind : place;
    }
    if (!place || !find_type(from->dtype, &tensor->type)) {
        return context_usage(context, "%s: elements %d:%d on a device of type %d are not known",
                             __func__, from->dtype.code, from->dtype.bits, (int)from->device.type);
    }
    if (from->rank < 0 || from->rank > TESSERA_MAX_RANK || (from->rank > 0 && !from->shape)) {
        return context_usage(context, "%s: rank %d; 0 to %d are possible", __func__,
                             (int)from->rank, TESSERA_MAX_RANK);
    }
    for (int i = 0; i < from->rank; i++) {
        tensor->dims[i] = from->shape[i];
    }
    tensor->data = from->data ? (char *)from->data + from->byte_offset : NULL;
    if (kind) {
        *kind = place;
    }
    if (ordinal) {
        *ordinal = text_equal(place, "cpu") ? 0 : from->device.id;
    }
    return TESSERA_OK;
}

/* ---- out ---- */

/* Others may keep it for longer than the context lives: its memory is malloc's. */
typedef struct Given {
    DLManagedTensor managed;
    int64_t shape[TESSERA_MAX_RANK], strides[TESSERA_MAX_RANK];
    void (*release)(void *user);
    void *user;
} Given;

static void give_back(DLManagedTensor *self)
{
    Given *given = self->context;
    if (given->release) {
        given->release(given->user);
    }
    free(given);
}

bool dlpack_type(TesseraType type, DLDataType *dtype)
{
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (TYPES[i].type == type) {
            *dtype = (DLDataType){TYPES[i].code, TYPES[i].bits, 1};
            return true;
        }
    }
    return false;
}

bool dlpack_is_on(const DLTensor *tensor, const TesseraDevice *device)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (KINDS[i].dl == tensor->device.type) {
            return text_equal(KINDS[i].kind, device->info.kind) &&
                   (text_equal(KINDS[i].kind, "cpu") ||
                    tensor->device.id == device->device->facts.ordinal);
        }
    }
    return false;
}

static DLDevice place_of(const TesseraDevice *device)
{
    DLDevice place = {DL_CPU, 0};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (i < 3 && text_equal(KINDS[i].kind, device->info.kind)) {
            place = (DLDevice){KINDS[i].dl, device->device->facts.ordinal};
        }
    }
    return place;
}

TesseraStatus tessera_dlpack_out(TesseraDevice *device, const TesseraTensor *tensor,
                                 void (*release)(void *user), void *user,
                                 struct DLManagedTensor **managed)
{
    DLDataType dtype;
    TesseraContext *context = device ? device->context : NULL;
    const char *null = NULL_ARGUMENT({device, "device"}, {tensor, "tensor"}, {managed, "managed"});
    if (managed) {
        *managed = NULL;
    }
    REFUSE_FREED(device);
    if (null) {
        return context_null(context, __func__, null);
    }
    if (tensor->rank < 0 || tensor->rank > TESSERA_MAX_RANK || !dlpack_type(tensor->type, &dtype)) {
        return context_usage(context, "%s: DLPack has no such elements, or there are %d axes",
                             __func__, tensor->rank);
    }
    Given *given = calloc(1, sizeof *given);
    if (!given) {
        return context_fail(context, TESSERA_ENVIRONMENT, 0, "out of memory");
    }
    given->release = release;
    given->user = user;
    tensor_strides(tensor, given->strides);
    for (int i = 0; i < tensor->rank; i++) {
        given->shape[i] = tensor->dims[i];
    }
    given->managed = (DLManagedTensor){.tensor = {.data = tensor->data,
                                                  .device = place_of(device),
                                                  .rank = tensor->rank,
                                                  .dtype = dtype,
                                                  .shape = given->shape,
                                                  .strides = given->strides},
                                       .context = given,
                                       .deleter = give_back};
    *managed = &given->managed;
    return TESSERA_OK;
}
