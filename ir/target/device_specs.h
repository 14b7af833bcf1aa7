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
    int sm_warps, sm_blocks, sm_shared;       /* most that a multiprocessor holds at once */
    int block_shared;                         /* bytes that each block takes besides its own */
    int shared_step;                          /* bytes in which shared memory is handed out */
    int schedulers;    /* of a multiprocessor: each has its share of the registers */
    int register_step; /* registers of a thread come in multiples of this */
    int l2_mib;
    int sector; /* bytes that memory moves at least */
} DeviceSpec;

/* NULL for targets without one: CPUs. */
const DeviceSpec *device_spec_of(const struct Target *target);

#endif
