/* SPDX-License-Identifier: Apache-2.0 */
/* Builds tensor maps, the descriptors of TMA: boxes of a tensor, and im2col views. */
#include "runtime/device/cuda_device.h"

#include "runtime/device/device_launch.h"

static CuTensorMapType map_type(DType dtype)
{
    switch (dtype) {
    case DT_F16: return CU_MAP_F16;
    case DT_BF16: return CU_MAP_BF16;
    case DT_F32: return CU_MAP_F32;
    case DT_F64: return CU_MAP_F64;
    default: break;
    }
    switch (dtype_bytes(dtype)) {
    case 1: return CU_MAP_U8;
    case 2: return CU_MAP_U16;
    case 4: return CU_MAP_U32;
    default: return CU_MAP_U64;
    }
}

static CuTensorMapSwizzle map_swizzle(int bytes)
{
    switch (bytes) {
    case 128: return CU_MAP_SWIZZLE_128;
    case 64: return CU_MAP_SWIZZLE_64;
    case 32: return CU_MAP_SWIZZLE_32;
    default: return CU_MAP_SWIZZLE_NONE;
    }
}

/* A box in the driver's form: axes from the fastest; strides of axes 1 and up, in bytes. */
typedef struct CudaBox {
    CuU64 dims[8], strides[8];
    CuU32 box[8], steps[8];
    int lower[PLAN_MAX_SPATIAL], upper[PLAN_MAX_SPATIAL]; /* corners, from both ends of an axis */
} CudaBox;

bool cuda_map(Device *device, const PlanTensorMap *map, const DeviceTensor *tensor,
              const DeviceWindows *windows, void *bytes, DeviceError *error)
{
    Cuda *cuda = device->state;
    CuTensorMapType type = map->tf32 ? CU_MAP_TF32 : map_type(tensor->dtype);
    CuTensorMapSwizzle swizzle = map_swizzle(map->swizzle);
    CuTensorMapPromotion promote = map->wide_l2 ? CU_MAP_PROMOTE_256 : CU_MAP_PROMOTE_NONE;
    CuU32 rank = (CuU32)tensor->rank;
    bool pixels = map->n_windows > 0;
    const char *name = pixels ? "cuTensorMapEncodeIm2col" : "cuTensorMapEncodeTiled";
    if (pixels ? !cuda->driver.encode_im2col : !cuda->driver.encode_tiled) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "the CUDA driver has no %s: it is too old",
                           name);
    }
    /* The driver counts axes from the fastest one and a box of packed types in bytes. */
    CudaBox box = {.steps = {1}};
    CuU64 bits = (CuU64)dtype_bits(tensor->dtype);
    CuU64 in_byte = bits < 8 ? 8 / bits : 1;
    for (int i = 0; i < tensor->rank; i++) {
        int axis = tensor->rank - 1 - i;
        box.dims[i] = (CuU64)tensor->dims[axis];
        bool few = axis + 1 == map->few && tensor->dims[axis] < map->box[axis];
        box.box[i] = (CuU32)(few ? tensor->dims[axis] : map->box[axis]);
        box.steps[i] = 1;
        box.dims[i] = i == 0 ? (box.dims[i] + in_byte - 1) / in_byte : box.dims[i];
        box.strides[i] = axis ? bits * (CuU64)plan_stride(tensor, axis - 1) / 8 : 0;
    }
    for (int i = 0; i < map->n_windows; i++) {
        int at = map->n_windows - 1 - i;
        int64_t step = map->windows[at].step, first = windows[at].first;
        int64_t last = first + (windows[at].places - 1) * step;
        box.lower[i] = (int)first;
        box.upper[i] = (int)(last - (tensor->dims[1 + at] - 1));
        box.steps[1 + i] = (CuU32)step;
    }
    CudaEntered in = cuda_enter(cuda, error);
    CuResult result = 0;
    if (in.ok && pixels) {
        result = cuda->driver.encode_im2col(bytes, type, rank, tensor->data, box.dims, box.strides,
                                            box.lower, box.upper, (CuU32)map->box[rank - 1],
                                            (CuU32)map->box[0], box.steps, 0, swizzle, promote, 0);
    } else if (in.ok) {
        result = cuda->driver.encode_tiled(bytes, type, rank, tensor->data, box.dims, box.strides,
                                           box.box, box.steps, 0, swizzle, promote, 0);
    }
    bool ok = in.ok && cuda_check(cuda, result, name, "", error);
    cuda_leave(cuda, in);
    return ok;
}
