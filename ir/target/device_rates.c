/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up the rates of a target's multiprocessors in device_rates.def. The cost models of the
 * passes depend on these numbers. */
#include "ir/target/device_rates.h"

#include "ir/target/target.h"
#include "support/text.h"

#define RATES(target, product16, sm_bytes, memory_bytes, lanes, step_overhead, start)              \
    {target, product16, sm_bytes, memory_bytes, lanes, step_overhead, start},
static const DeviceRates ROWS[] = {
#include "ir/target/device_rates.def"
};
#undef RATES

const DeviceRates *device_rates_of(const struct Target *target)
{
    for (size_t i = 0; target && i < sizeof ROWS / sizeof *ROWS; i++) {
        if (text_equal(ROWS[i].target, target->name)) {
            return &ROWS[i];
        }
    }
    return NULL;
}
