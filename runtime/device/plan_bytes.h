/* SPDX-License-Identifier: Apache-2.0 */
/* Serialized plans, for code that outlives the process that generated it. */
#ifndef TESSERA_RUNTIME_DEVICE_PLAN_BYTES_H
#define TESSERA_RUNTIME_DEVICE_PLAN_BYTES_H

#include "runtime/device/plan.h"
#include "support/text.h"

/* Little-endian, 8 bytes a number; what it says is the same on every machine. */
void plan_to_bytes(const Plan *plan, Text *out);
/* False where the bytes are no plan; what counts and indices say is checked. The arena holds what
 * it points to. */
bool plan_from_bytes(Arena *arena, const char *bytes, size_t n, Plan *plan);

#endif
