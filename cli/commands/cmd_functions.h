/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the program `tessera`, one function cmd_<name> for each row of commands.def, and
 * the functions that their files share. A command returns its exit code. */
#ifndef TESSERA_CLI_COMMANDS_CMD_FUNCTIONS_H
#define TESSERA_CLI_COMMANDS_CMD_FUNCTIONS_H

#include "cli/options.h"
#include "cli/session.h"

typedef int CommandFunction(const Options *options);
#define COMMAND(id, name, ...) CommandFunction cmd_##name;
#include "cli/commands.def"
#undef COMMAND

/* The functions, by command; NULL: this program does not have it (command_table.c). */
extern CommandFunction *const command_functions[];

/* The commit that the program is built of, with "+changes" where files differ from it; empty where
 * it is not known. cmake/commit.cmake makes it. */
extern const char program_commit[];

/* Prints the arguments and options of a command, or reports that there is none of this name
 * (cmd_help.c). */
void help_command(CommandId command);
int fail_no_command(const char *name);

/* `compile` of several targets or variants into one object (cmd_bundle.c). */
int check_bundle(const Options *options);
int compile_bundle(const Options *options, Session *session);

/* `explain E0412`, and `explain` without an argument (cmd_explain_code.c). */
bool is_code(const char *text);
int explain_code(const Options *options);

/* Prints the signatures of the kernels (cmd_describe.c). */
void describe(const Options *options, const Session *session, FILE *to);
/* "in", "out" or "inout". */
const char *io_name(TesseraIo io);

#endif
