/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera manual [COMMAND]`: manual pages in roff, made of the tables of commands and options.
 * cmake/shells.cmake installs them. */
#include "cli/commands/cmd_functions.h"
#include "cli/options.h"
#include "cli/session.h"

#include <string.h>

/* A hyphen of an option is no hyphen of a text, and a line may not begin with `.` or `'`. */
static void roff(const char *text)
{
    if (*text == '.' || *text == '\'') {
        fputs("\\&", stdout);
    }
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') {
            fputs(*text == '-' ? "\\-" : "\\e", stdout);
        } else {
            putchar(*text);
        }
    }
}

static void heading(const char *name, const char *what)
{
    printf(".TH \"TESSERA%s%s\" 1 \"\" \"Tessera %s\" \"Tessera\"\n.SH NAME\ntessera%s%s \\- ",
           *name ? "\\-" : "", name, tessera_version(), *name ? "\\-" : "", name);
    roff(what);
    printf("\n.SH SYNOPSIS\n.B tessera%s%s\n", *name ? " " : "", name);
}

static void show_command(CommandId command)
{
    const CommandRow *row = &command_rows[command];
    heading(row->name, row->help);
    roff(row->arguments);
    puts("\n[options]\n.SH OPTIONS");
    for (size_t i = 0; i < n_option_rows; i++) {
        const OptionRow *option = &option_rows[i];
        if (option->commands >> command & 1 && option->help) {
            fputs(".TP\n.B ", stdout);
            roff(option->name);
            if (option->value) {
                fputs(" \\fR", stdout);
                roff(option->value);
            }
            putchar('\n');
            roff(option->help);
            putchar('\n');
        }
    }
    puts(".SH SEE ALSO\n.BR tessera (1)");
}

static void show_program(void)
{
    heading("", "compiles .tile files for NVIDIA, AMD and the CPU");
    puts(".I command\n[arguments] [options]\n.SH COMMANDS");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        printf(".TP\n.B %s\n", command_rows[i].name);
        roff(command_rows[i].help);
        putchar('\n');
    }
    puts(".SH EXIT STATUS");
#define EXIT_STATUS(number, meaning) puts(".TP\n" #number "\n" meaning);
#include "cli/commands/exit_statuses.def"
#undef EXIT_STATUS
    puts(".SH SEE ALSO");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        printf(".BR tessera\\-%s (1)%s\n", command_rows[i].name, i + 1 < N_COMMANDS ? "," : "");
    }
}

int cmd_manual(const Options *options)
{
    if (!options->path) {
        show_program();
        return 0;
    }
    CommandId command = command_find(options->path);
    if (command == N_COMMANDS) {
        return fail_no_command(options->path);
    }
    show_command(command);
    return 0;
}
