/* SPDX-License-Identifier: Apache-2.0 */
/* Our own declarations of HIP's types, so that no ROCm is needed to build. */
#ifndef TESSERA_RUNTIME_DEVICE_HIP_DRIVER_H
#define TESSERA_RUNTIME_DEVICE_HIP_DRIVER_H

#include <stddef.h>

typedef unsigned int HipResult;

enum {
    HIP_OK = 0,
    HIP_ERROR_ILLEGAL_ADDRESS = 700,
    HIP_ERROR_LAUNCH_TIMEOUT = 702,
    HIP_ERROR_INVALID_HANDLE = 400, /* a stream or event of another device, or none */
    HIP_ERROR_ASSERT = 710,
    HIP_ERROR_LAUNCH_FAILED = 719,
    HIP_STREAM_FLAG_NON_BLOCKING = 1,
    HIP_HOST_PORTABLE = 1,
    HIP_CAPTURE_THREAD_LOCAL = 1,
    HIP_CAPTURE_RELAXED = 2,
    HIP_PROPERTIES_BYTES = 4096, /* more than any version writes */
};

/* Where the properties that we read stand: hipGetDeviceProperties has the layout of ROCm 5 in all
 * versions; from ROCm 6 on the other symbol has a new one. */
typedef struct HipLayout {
    size_t memory, shared, warp, threads, units, arch;
} HipLayout;
#define HIP_LAYOUT_OLD ((HipLayout){256, 264, 276, 280, 336, 396})
#define HIP_LAYOUT_NEW ((HipLayout){288, 296, 308, 320, 388, 1160})

typedef struct HipDriver {
#define HIP_CALL(need, field, symbol, params) HipResult(*field) params;
#define HIP_TEXT(need, field, symbol, params) const char *(*field)params;
#include "runtime/device/hip.def"
#undef HIP_CALL
#undef HIP_TEXT
} HipDriver;

#endif
