/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune`: schedules that are measured. */
#include "cli/sweep.h"
#include "cli/tune.h"

int verb_tune(const Options *options)
{
    int code;
    return tune_verb(options, &code) ? code : tune_sweep(options);
}
