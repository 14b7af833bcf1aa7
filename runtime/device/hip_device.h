/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the HIP device share. */
#ifndef TESSERA_RUNTIME_DEVICE_HIP_DEVICE_H
#define TESSERA_RUNTIME_DEVICE_HIP_DEVICE_H

#include "runtime/device/device.h"
#include "runtime/device/hip_driver.h"

enum { MAX_HIP_PEERS = 64 }; /* device numbers; the access of later ones is enabled each time */

typedef struct Hip {
    HipDriver driver;
    int ordinal;
    uint64_t peers; /* a bit for each device with which access has been enabled, both ways */
} Hip;

/* As cuda_check and its kin. */
bool hip_check(const Hip *hip, HipResult result, const char *call, const char *what,
               DeviceError *error);
bool hip_check_wait(Device *device, HipResult result, const char *call, DeviceError *error);

typedef struct HipEntered {
    bool ok;
    int before; /* the caller's device */
} HipEntered;
HipEntered hip_enter(const Hip *hip, DeviceError *error);
void hip_leave(const Hip *hip, HipEntered in);

extern const DeviceStreams hip_streams;

#endif
