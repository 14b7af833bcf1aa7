/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of the reference device of a target, in cycles of its multiprocessors, for the cost models
 * of the passes. Facts that only reports use are in device_specs.h. */
#ifndef TESSERA_IR_TARGET_DEVICE_RATES_H
#define TESSERA_IR_TARGET_DEVICE_RATES_H

struct Target;

typedef struct DeviceRates {
    const char *target;
    int product16;    /* FLOP of a multiprocessor, by its matrix units, of f16 and bf16 */
    int sm_bytes;     /* that the second-level cache brings to one multiprocessor */
    int memory_bytes; /* that memory brings to all of them */
    int lanes;        /* threads of a multiprocessor that are issued to: element-wise work */
    int step_overhead; /* cycles of a step of a product's loop beside what it moves and
                        * multiplies */
    int start;        /* cycles from one launch to the next one's first product */
} DeviceRates;

/* NULL: nothing is known. */
const DeviceRates *device_rates_of(const struct Target *target);

#endif
