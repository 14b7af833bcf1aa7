/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the reference device of a target: its speed, and how many blocks its multiprocessors
 * hold. They are for reports only; code does not depend on them. */
#ifndef TESSERA_IR_TARGET_DEVICE_SPECS_H
#define TESSERA_IR_TARGET_DEVICE_SPECS_H

struct Target;

typedef struct DeviceSpec {
    const char *target, *name; /* "sm_90a", "NVIDIA H200" */
    double memory;             /* GB/s */
    double flops32, flops16;   /* TFLOP/s: f32 without, f16 and bf16 with the matrix units */
    int sm_warps, sm_blocks, sm_shared; /* maximum of a multiprocessor at once */
    int shared_step;                    /* allocation granularity, in bytes */
    int l2_mib;
    int sector; /* bytes of the smallest memory transfer */
} DeviceSpec;

/* NULL for targets without one: CPUs. */
const DeviceSpec *device_spec_of(const struct Target *target);

#endif
