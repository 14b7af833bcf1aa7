/* SPDX-License-Identifier: Apache-2.0 */
/* Compares our declarations of the CUDA driver with its own header, if that is installed: the type
 * of each call, the layout of each structure, each constant. */
#include "tests/unit.h"

#if __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#include "runtime/device/cuda_driver.h"

#include <stdio.h>

#define SAME_NUMBER(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #theirs)
#define SAME_PLACE(ours, theirs)                                                                   \
    _Static_assert(offsetof(CuLaunchConfig, ours) == offsetof(CUlaunchConfig, theirs), #theirs)

SAME_NUMBER(CU_JIT_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME_NUMBER(CU_JIT_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_NUMBER(CU_JIT_LINES, CU_JIT_GENERATE_LINE_INFO);
SAME_NUMBER(CU_FUNCTION_SHARED_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_NUMBER(CU_FUNCTION_LARGE_CLUSTERS, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME_NUMBER(CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_NUMBER(CU_DEVICE_MAX_THREADS, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_NUMBER(CU_DEVICE_WARP, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME_NUMBER(CU_DEVICE_UNITS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(CU_DEVICE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(CU_DEVICE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(CU_DEVICE_PAGEABLE, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
SAME_NUMBER(CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_NUMBER(CU_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME_NUMBER(CU_DEVICE_SHARED_BYTES, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_NUMBER(CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_NUMBER(CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(CU_MAP_U8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME_NUMBER(CU_MAP_U16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
SAME_NUMBER(CU_MAP_U32, CU_TENSOR_MAP_DATA_TYPE_UINT32);
SAME_NUMBER(CU_MAP_I32, CU_TENSOR_MAP_DATA_TYPE_INT32);
SAME_NUMBER(CU_MAP_U64, CU_TENSOR_MAP_DATA_TYPE_UINT64);
SAME_NUMBER(CU_MAP_I64, CU_TENSOR_MAP_DATA_TYPE_INT64);
SAME_NUMBER(CU_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME_NUMBER(CU_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME_NUMBER(CU_MAP_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME_NUMBER(CU_MAP_F64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
SAME_NUMBER(CU_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME_NUMBER(CU_MAP_SWIZZLE_32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME_NUMBER(CU_MAP_SWIZZLE_64, CU_TENSOR_MAP_SWIZZLE_64B);
SAME_NUMBER(CU_MAP_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME_NUMBER(CU_MAP_PROMOTE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME_NUMBER(CU_MAP_PROMOTE_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME_NUMBER(CU_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME_NUMBER(CU_ERROR_NO_ASSEMBLER, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME_NUMBER(CU_ERROR_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_NUMBER(CU_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_NUMBER(CU_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_NUMBER(CU_ERROR_ASSERT, CUDA_ERROR_ASSERT);
SAME_NUMBER(CU_ERROR_FIRST_FAULT, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME_NUMBER(CU_ERROR_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME_NUMBER(sizeof(CuTensorMap), sizeof(CUtensorMap));
SAME_NUMBER(sizeof(CuLaunchConfig), sizeof(CUlaunchConfig));
SAME_NUMBER(sizeof(CuLaunchAttribute), sizeof(CUlaunchAttribute));
SAME_NUMBER(offsetof(CuLaunchAttribute, value), offsetof(CUlaunchAttribute, value));
SAME_PLACE(grid_x, gridDimX);
SAME_PLACE(block_x, blockDimX);
SAME_PLACE(shared_bytes, sharedMemBytes);
SAME_PLACE(stream, hStream);
SAME_PLACE(attributes, attrs);
SAME_PLACE(n_attributes, numAttrs);

/* The table once more, in the header's own names of types: equal calls have compatible types. */
#define CuResult CUresult
#define CuDevice CUdevice
#define CuDeviceAttribute CUdevice_attribute
#define CuFunctionAttribute CUfunction_attribute
#define CuJitOption CUjit_option
#define CuPointerAttribute CUpointer_attribute
#define CuAddress CUdeviceptr
#define CuU32 cuuint32_t
#define CuU64 cuuint64_t
#define CuContext CUcontext
#define CuModule CUmodule
#define CuFunction CUfunction
#define CuStream CUstream
#define CuEvent CUevent
#define CuLaunchConfig CUlaunchConfig
#define CuTensorMap CUtensorMap
#define CuTensorMapType CUtensorMapDataType
#define CuTensorMapInterleave CUtensorMapInterleave
#define CuTensorMapSwizzle CUtensorMapSwizzle
#define CuTensorMapPromotion CUtensorMapL2promotion
#define CuTensorMapFill CUtensorMapFloatOOBfill
#define CUDA_CALL(need, field, symbol, params)                                                     \
    typedef CUresult CUDAAPI ours_##field params;                                                  \
    _Static_assert(__builtin_types_compatible_p(ours_##field, __typeof__(symbol)), #symbol);
#include "runtime/device/cuda.def"
#undef CUDA_CALL

START_TEST(declarations)
{
    int calls = 0;
#define CUDA_CALL(need, field, symbol, params) calls++;
#include "runtime/device/cuda.def"
#undef CUDA_CALL
    printf("%d calls are as cuda.h of CUDA %d.%d declares them\n", calls, CUDA_VERSION / 1000,
           CUDA_VERSION % 1000 / 10);
    ck_assert_int_gt(calls, 0);
}
END_TEST
#else
START_TEST(declarations)
{
}
END_TEST
#endif

UNIT_TESTS(device_cuda_header)
{
    TCase *tests = tcase_create("cuda.h");
    tcase_add_test(tests, declarations);
    return tests;
}
