/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/target/device_rates.h"

#include "ir/target/target.h"
#include "support/text.h"

#define RATES(target, product16, unit_bytes, memory_bytes, lanes, meeting, start)                  \
    {target, product16, unit_bytes, memory_bytes, lanes, meeting, start},
static const Rates ROWS[] = {
#include "ir/target/device_rates.def"
};
#undef RATES

const Rates *rates_of(const struct Target *target)
{
    for (size_t i = 0; target && i < sizeof ROWS / sizeof *ROWS; i++) {
        if (text_same(ROWS[i].target, target->name)) {
            return &ROWS[i];
        }
    }
    return NULL;
}
