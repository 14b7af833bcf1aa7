/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of the reference device of a target, in cycles of its multiprocessors, for the cost models
 * of the passes. Facts that only reports use are in device_specs.h. */
#ifndef TESSERA_IR_TARGET_DEVICE_RATES_H
#define TESSERA_IR_TARGET_DEVICE_RATES_H

struct Target;

typedef struct DeviceRates {
    const char *target;
    int product16;     /* FLOP per cycle of the matrix units of one multiprocessor, f16 and bf16 */
    int sm_bytes;      /* bytes per cycle from the L2 cache to one multiprocessor */
    int memory_bytes;  /* bytes per cycle from global memory to all multiprocessors */
    int lanes;         /* lanes of a multiprocessor that execute an element-wise op per cycle */
    int step_overhead; /* cycles per step of a loop of dots in addition to its copies and
                        * multiplications */
    int start;         /* cycles from the end of a launch to the first dot of the next one */
} DeviceRates;

/* NULL: the table has no row for the target. */
const DeviceRates *device_rates_of(const struct Target *target);

#endif
