/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces cli/commands/command_table.c: the commands that the page calls. */
#include "cli/commands/cmd_functions.h"

CommandFunction *const command_functions[N_COMMANDS] = {
    [COMMAND_RUN] = cmd_run, [COMMAND_COMPILE] = cmd_compile, [COMMAND_EXPLAIN] = cmd_explain,
    [COMMAND_FMT] = cmd_fmt, [COMMAND_VERSION] = cmd_version,
};
