/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the CUDA device share. */
#ifndef TESSERA_RUNTIME_DEVICE_CUDA_DEVICE_H
#define TESSERA_RUNTIME_DEVICE_CUDA_DEVICE_H

#include "runtime/device/cuda_driver.h"
#include "runtime/device/device.h"

enum { MAX_CUDA_PEERS = 16 }; /* of one machine; the access of more is enabled again and again */

typedef struct Cuda {
    CudaDriver driver;
    CuDevice device;
    CuContext context;
    bool is_wrapped;                 /* the context is the caller's */
    CuContext peers[MAX_CUDA_PEERS]; /* between them and this one access has been enabled */
    unsigned int n_peers;
} Cuda;

/* True when the call succeeded. `what`: the kernel or thing that it was for; may be empty. */
bool cuda_check(const Cuda *cuda, CuResult result, const char *call, const char *what,
                DeviceError *error);
/* The same of a call that waits for what was launched: a kernel's fault is reported there. */
bool cuda_check_wait(Device *device, CuResult result, const char *call, DeviceError *error);

typedef struct CudaEntered {
    bool ok, pushed;
} CudaEntered;
CudaEntered cuda_enter(const Cuda *cuda, DeviceError *error);
void cuda_leave(const Cuda *cuda, CudaEntered in);

/* DeviceOps.map (cuda_tensor_maps.c). */
bool cuda_map(Device *device, const PlanTensorMap *map, const DeviceTensor *tensor,
              const DeviceWindows *windows, void *bytes, DeviceError *error);

extern const DeviceStreams cuda_streams;

#endif
