/* SPDX-License-Identifier: Apache-2.0 */
/* Our own declarations of the CUDA driver's types, so that no toolkit is needed to build. */
#ifndef TESSERA_RUNTIME_DEVICE_CUDA_DRIVER_H
#define TESSERA_RUNTIME_DEVICE_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned int CuResult, CuDeviceAttribute, CuFunctionAttribute, CuJitOption,
    CuPointerAttribute;
typedef unsigned int CuTensorMapType, CuTensorMapInterleave, CuTensorMapSwizzle;
typedef unsigned int CuTensorMapPromotion, CuTensorMapFill, CuCaptureMode;
typedef int CuDevice;
typedef unsigned long long CuAddress;
typedef uint32_t CuU32;
typedef uint64_t CuU64;
typedef struct CUctx_st *CuContext;
typedef struct CUmod_st *CuModule;
typedef struct CUfunc_st *CuFunction;
typedef struct CUstream_st *CuStream;
typedef struct CUevent_st *CuEvent;
typedef struct CUgraph_st *CuGraph;
typedef struct CUgraphExec_st *CuGraphExec;

typedef struct CuTensorMap {
    _Alignas(64) uint64_t words[16]; /* the header asks for 128, the driver for 64 */
} CuTensorMap;

typedef struct CuLaunchAttribute {
    unsigned int id;
    char pad[4];
    union {
        char pad[64];
        struct {
            unsigned int x, y, z;
        } cluster;
        int early; /* programmaticStreamSerializationAllowed */
    } value;
} CuLaunchAttribute;

typedef struct CuLaunchConfig {
    unsigned int grid_x, grid_y, grid_z;
    unsigned int block_x, block_y, block_z;
    unsigned int shared_bytes;
    CuStream stream;
    CuLaunchAttribute *attributes;
    unsigned int n_attributes;
} CuLaunchConfig;

enum {
    CU_OK = 0,
    CU_JIT_LOG = 5,
    CU_JIT_LOG_BYTES = 6,
    CU_JIT_LINES = 13,
    CU_FUNCTION_SHARED_BYTES = 8,
    CU_FUNCTION_LARGE_CLUSTERS = 14,
    CU_LAUNCH_CLUSTER = 4,
    CU_LAUNCH_EARLY = 6, /* PROGRAMMATIC_STREAM_SERIALIZATION */
    CU_STREAM_FLAG_NON_BLOCKING = 1,
    CU_HOST_PORTABLE = 1,
    CU_CAPTURE_THREAD_LOCAL = 1,
    CU_CAPTURE_RELAXED = 2,
    CU_DEVICE_MAX_THREADS = 1,
    CU_DEVICE_WARP = 10,
    CU_DEVICE_CLOCK = 13, /* kHz */
    CU_DEVICE_UNITS = 16,
    CU_DEVICE_MAJOR = 75,
    CU_DEVICE_MINOR = 76,
    CU_DEVICE_PAGEABLE = 88, /* kernels reach all memory of the process */
    CU_DEVICE_SHARED_BYTES = 97,
    CU_POINTER_MEMORY_TYPE = 2,
    CU_MAP_U8 = 0,
    CU_MAP_U16 = 1,
    CU_MAP_U32 = 2,
    CU_MAP_I32 = 3,
    CU_MAP_U64 = 4,
    CU_MAP_I64 = 5,
    CU_MAP_F16 = 6,
    CU_MAP_F32 = 7,
    CU_MAP_F64 = 8,
    CU_MAP_BF16 = 9,
    CU_MAP_TF32 = 11,
    CU_MAP_SWIZZLE_NONE = 0,
    CU_MAP_SWIZZLE_32 = 1,
    CU_MAP_SWIZZLE_64 = 2,
    CU_MAP_SWIZZLE_128 = 3,
    CU_MAP_PROMOTE_NONE = 0,
    CU_MAP_PROMOTE_256 = 3,
};

/* A stream or event of another context, or none. */
enum { CU_ERROR_INVALID_HANDLE = 400 };

/* Errors of assembling PTX. */
enum {
    CU_ERROR_INVALID_PTX = 218,
    CU_ERROR_NO_ASSEMBLER = 221,
    CU_ERROR_PTX_VERSION = 222,
};

/* Errors that a running kernel causes; they leave the context unusable. */
enum {
    CU_ERROR_INVALID_VALUE = 1,
    CU_ERROR_ILLEGAL_ADDRESS = 700,
    CU_ERROR_LAUNCH_TIMEOUT = 702,
    CU_ERROR_ASSERT = 710,
    CU_ERROR_FIRST_FAULT = 714, /* stack, instruction, alignment, address space, counter */
    CU_ERROR_LAUNCH_FAILED = 719,
};

typedef struct CudaDriver {
#define CUDA_CALL(need, field, symbol, params) CuResult(*field) params;
#include "runtime/device/cuda.def"
#undef CUDA_CALL
} CudaDriver;

#endif
