/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of all commands, for the program `tessera`. */
#include "cli/commands/cmd_functions.h"

CommandFunction *const command_functions[N_COMMANDS] = {
#define COMMAND(id, name, ...) cmd_##name,
#include "cli/commands.def"
#undef COMMAND
};
