/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point of the program `tessera`: finds the command that the first argument names, parses
 * the options and calls the command. */
#include "cli/commands/cmd_functions.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/terminal.h"

#include <string.h>

static CommandId find_command(const char *name)
{
    if (strcmp(name, "--version") == 0) {
        return COMMAND_VERSION;
    }
    bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    return help ? COMMAND_HELP : command_find(name);
}

static int run_command(CommandId command, int argc, char **argv)
{
    Options options;
    bool help = false;
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help = true;
            break;
        }
    }
    if (help) {
        help_command(command);
        return 0;
    }
    int code = options_read(command, argc - 2, argv + 2, &options);
    return code == 0 ? command_functions[command](&options) : code;
}

int main(int argc, char **argv)
{
    interrupts_begin();
    int code = diagnostics_read(argc, argv);
    code = code ? code : color_read(argc, argv);
    if (code != 0) {
        return code;
    }
    if (argc < 2) {
        return fail_code(FAIL_COMMAND, TESSERA_USAGE,
                         "no command is given: `tessera help` lists them");
    }
    CommandId command = find_command(argv[1]);
    if (command == N_COMMANDS || !command_functions[command]) {
        return fail_no_command(argv[1]);
    }
    code = run_command(command, argc, argv);
    /* Output that could not be written is a failure, too. */
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (lost && code == 0) {
        code = fail_code(FAIL_WRITE, TESSERA_ENVIRONMENT, "cannot write to standard output");
    }
    session_free();
    return code;
}
