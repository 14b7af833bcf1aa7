/* SPDX-License-Identifier: Apache-2.0 */
/* The structures of DLPack's dlpack.h, whose members and numbers its specification fixes. */
#ifndef TESSERA_RUNTIME_LAUNCH_DLPACK_H
#define TESSERA_RUNTIME_LAUNCH_DLPACK_H

#include "runtime/launch/launch_context.h"

typedef struct DLDevice {
    int32_t type, id;
} DLDevice;

typedef struct DLDataType {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;

typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t rank;
    DLDataType dtype;
    int64_t *shape, *strides; /* strides in elements; NULL: contiguous */
    uint64_t byte_offset;
} DLTensor;

/* False: DLPack has no such elements. */
bool dlpack_type(TesseraType type, DLDataType *dtype);
bool dlpack_is_on(const DLTensor *tensor, const TesseraDevice *device);

#endif
