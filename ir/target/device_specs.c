/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up the reference device of a target in device_specs.def. Only reports read these numbers;
 * generated code does not depend on them. */
#include "ir/target/device_specs.h"

#include "ir/target/target.h"
#include "support/text.h"

#define PART(target, name, memory, flops32, flops16, sm_warps, sm_blocks, sm_shared, shared_step,  \
             l2_mib, sector)                                                                       \
    {target,    name,      memory,      flops32, flops16, sm_warps,                                \
     sm_blocks, sm_shared, shared_step, l2_mib,  sector},
static const DeviceSpec ROWS[] = {
#include "ir/target/device_specs.def"
};
#undef PART

const DeviceSpec *device_spec_of(const struct Target *target)
{
    for (size_t i = 0; target && i < sizeof ROWS / sizeof *ROWS; i++) {
        if (text_equal(ROWS[i].target, target->name)) {
            return &ROWS[i];
        }
    }
    return NULL;
}
