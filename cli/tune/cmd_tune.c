/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune`: calls the subcommand, or starts a sweep if the first argument is a source file.
 */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/tune/cmd_tune.h"
#include "cli/tune/cmd_tune_sweep.h"

int cmd_tune(const Options *options)
{
    int code;
    return tune_verb(options, &code) ? code : tune_sweep(options);
}
