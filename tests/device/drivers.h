/* SPDX-License-Identifier: Apache-2.0 */
/* A launch plan, and the steps that the tests on mock drivers perform with it (drivers.c). */
#ifndef TESSERA_TESTS_DEVICE_DRIVERS_H
#define TESSERA_TESTS_DEVICE_DRIVERS_H

#include "tests/mock_driver/mock.h"
#include "tests/unit.h"

/* out[M, N] = in[M, N] * scale, by bulk copies. */
extern const Plan PLAN;
/* The same without. */
Plan plan_without_map(PlanLaunch *launch);

enum { ROWS = 100, COLUMNS = 24, PITCH = 32, BYTES = ROWS * PITCH * 2 };
extern int64_t pitch; /* of both tensors; 0: they are contiguous */
LaunchArg tensor_arg(void *data);

typedef struct Counting {
    int allocations, fail_at, open;
} Counting;
void *counting_alloc(void *user, size_t bytes);
void counting_release(void *user, void *memory);

/* Opens a device, takes memory, copies, launches and measures. */
bool scenario(const DeviceOps *ops, const void *driver, const Plan *plan, Counting *counting,
              DeviceError *error);
void check_given_back(const Counting *counting);

#endif
