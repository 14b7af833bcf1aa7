/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune`: schedules that are measured. */
#include "cli/tune.h"

int verb_tune(const Options *options)
{
    int code;
    if (tune_verb(options, &code)) {
        return code;
    }
    return fail_code(FAIL_VERB, TESSERA_USAGE, "tune has show, diff, export, pin, merge, report");
}
