/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune`: calls the subcommand that the first argument names, or starts a sweep if it is a
 * source file. */
#include "cli/tune/cmd_tune.h"
#include "cli/tune/cmd_tune_sweep.h"

#include <string.h>

static const struct {
    const char *name;
    int (*run)(const Options *options);
} SUBCOMMANDS[] = {
    {"show", tune_show}, {"diff", tune_diff},   {"export", tune_export},
    {"pin", tune_pin},   {"merge", tune_merge}, {"report", tune_report},
};

int cmd_tune(const Options *options)
{
    for (size_t i = 0; i < sizeof SUBCOMMANDS / sizeof *SUBCOMMANDS; i++) {
        if (options->path && !options->kernel && strcmp(options->path, SUBCOMMANDS[i].name) == 0) {
            return SUBCOMMANDS[i].run(options);
        }
    }
    return tune_sweep(options);
}
