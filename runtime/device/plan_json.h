/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a launch plan as JSON, for programs that launch the machine code themselves. */
#ifndef TESSERA_RUNTIME_DEVICE_PLAN_JSON_H
#define TESSERA_RUNTIME_DEVICE_PLAN_JSON_H

#include "runtime/device/plan.h"
#include "support/text.h"

void plan_json(const Plan *plan, Text *out);

#endif
