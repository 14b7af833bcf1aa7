/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera completion SHELL`: scripts by which bash, zsh and fish complete the command line. They
 * are made of the tables of commands and options, so that they know each option of each command and
 * the words that it takes. */
#include "cli/commands/cmd_functions.h"
#include "cli/options.h"
#include "cli/session.h"

#include <ctype.h>
#include <string.h>

/* ---- what the tables say ---- */

/* Calls `each` for the lower-case words of a text that stand between `|`, `[` and `]`: the
 * subcommands of `[info | list]`, the choices of `auto|always|never`. */
static void each_word(const char *text, void (*each)(const char *word, size_t n))
{
    for (const char *at = text; *at;) {
        at += strspn(at, " [|");
        size_t n = 0;
        while (islower((unsigned char)at[n]) || isdigit((unsigned char)at[n])) {
            n++;
        }
        if (n > 0 && strchr(" |]", at[n])) {
            each(at, n);
        }
        at += strcspn(at, "|");
    }
}

static void print_word(const char *word, size_t n)
{
    printf("%.*s ", (int)n, word);
}

/* The words that an option takes, as far as they are known. */
static void print_values(const OptionRow *option)
{
    if (strcmp(option->name, "--target") == 0) {
        TesseraContext *context;
        const TesseraTarget *row;
        bool open = tessera_context_new(NULL, &context) == TESSERA_OK;
        for (size_t i = 0; open && (row = tessera_target(context, i)); i++) {
            printf("%s ", row->name);
        }
        if (open) {
            tessera_context_free(context);
        }
    } else if (option->type == OPTION_CHOICE || strchr(option->value, '|')) {
        each_word(option->value, print_word);
    }
}

/* True if the value is a file. */
static bool takes_file(const OptionRow *option)
{
    return option->value && strstr(option->value, "FILE");
}

static void print_operands(CommandId command)
{
    if (command == COMMAND_HELP || command == COMMAND_MANUAL) {
        for (size_t i = 0; i < N_COMMANDS; i++) {
            printf("%s ", command_rows[i].name);
        }
    } else {
        each_word(command_rows[command].arguments, print_word);
    }
}

/* Calls `each` for the options of a command, each name once. */
static void each_option(CommandId command, void (*each)(CommandId command, const OptionRow *option))
{
    for (size_t i = 0; i < n_option_rows; i++) {
        const OptionRow *option = &option_rows[i];
        bool listed = option->commands >> command & 1 && option->help;
        for (size_t k = 0; k < i && listed; k++) {
            const OptionRow *before = &option_rows[k];
            listed = !(before->commands >> command & 1) || strcmp(before->name, option->name) != 0;
        }
        if (listed) {
            each(command, option);
        }
    }
}

/* ---- bash ---- */

static void bash_name(CommandId command, const OptionRow *option)
{
    (void)command;
    printf("%s ", option->name);
}

static void bash_values(CommandId command, const OptionRow *option)
{
    if (!option->value) {
        return;
    }
    printf("        '%s %s') values='", command_rows[command].name, option->name);
    print_values(option);
    printf("'; files=%d ;;\n", takes_file(option));
}

static void bash_script(void)
{
    fputs("# bash completion of tessera, made by `tessera completion bash`\n"
          "_tessera() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command=${COMP_WORDS[1]} values= files=0 options= operands=\n"
          "    COMPREPLY=()\n"
          "    if [ \"$cur\" = = ]; then\n"
          "        cur=\n"
          "    elif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -gt 2 ]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          stdout);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        printf("%s ", command_rows[i].name);
    }
    fputs("' -- \"$cur\"))\n        return\n    fi\n    case \"$command $prev\" in\n", stdout);
    for (CommandId command = 0; command < N_COMMANDS; command++) {
        each_option(command, bash_values);
    }
    fputs("        *) files=2 ;;\n    esac\n    case $command in\n", stdout);
    for (CommandId command = 0; command < N_COMMANDS; command++) {
        printf("        %s) options='", command_rows[command].name);
        each_option(command, bash_name);
        fputs("'; operands='", stdout);
        print_operands(command);
        puts("' ;;");
    }
    fputs(
        "    esac\n"
        "    if [ \"$files\" -ne 2 ]; then\n"
        "        COMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n"
        "        [ \"$files\" -eq 1 ] && COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
        "    elif [[ $cur == -* ]]; then\n"
        "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
        "    else\n"
        "        [ \"$COMP_CWORD\" -eq 2 ] && COMPREPLY=($(compgen -W \"$operands\" -- \"$cur\"))\n"
        "        COMPREPLY+=($(compgen -f -X '!*.tile' -- \"$cur\") $(compgen -d -- \"$cur\"))\n"
        "    fi\n"
        "}\n"
        "complete -o filenames -F _tessera tessera\n",
        stdout);
}

/* ---- zsh and fish ---- */

/* In single quotes; zsh also takes `:` and brackets as its own. */
static void quoted(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            fputs(strchr(special, *text) ? "\\" : "", stdout);
            putchar(*text);
        }
    }
}

static void zsh_option(CommandId command, const OptionRow *option)
{
    (void)command;
    bool joins = option->value && strncmp(option->name, "--", 2) == 0; /* --name=value, too */
    printf("            '*%s%s[", option->name, joins ? "=" : "");
    quoted(option->help, "[]");
    putchar(']');
    if (option->value) {
        putchar(':');
        quoted(option->value, ":[]");
        putchar(':');
        if (takes_file(option)) {
            fputs("_files", stdout);
        } else {
            putchar('(');
            print_values(option);
            putchar(')');
        }
    }
    puts("' \\");
}

static void zsh_script(void)
{
    puts("#compdef tessera\n# zsh completion, made by `tessera completion zsh`\n_tessera() {\n"
         "    local -a commands operands\n    commands=(");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        printf("        '%s:", command_rows[i].name);
        quoted(command_rows[i].help, ":");
        puts("'");
    }
    puts("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
         "        return\n    fi\n    local command=$words[2]\n    shift words\n"
         "    (( CURRENT-- ))\n    case $command in");
    for (CommandId command = 0; command < N_COMMANDS; command++) {
        printf("    %s)\n        operands=(", command_rows[command].name);
        print_operands(command);
        puts(")\n        _arguments \\");
        each_option(command, zsh_option);
        puts("            '*:file:_tessera_operands' ;;");
    }
    puts("    esac\n}\n_tessera_operands() {\n"
         "    (( CURRENT == 2 && $#operands )) && compadd -a operands\n"
         "    _files -g '*.tile'\n}\n"
         "if [ \"$funcstack[1]\" = _tessera ]; then\n    _tessera \"$@\"\nelse\n"
         "    compdef _tessera tessera\nfi");
}

static void fish_option(CommandId command, const OptionRow *option)
{
    printf("complete -c tessera -n '__fish_seen_subcommand_from %s' ", command_rows[command].name);
    bool is_long = option->name[1] == '-', is_short = strlen(option->name) == 2;
    char form = is_short ? 's' : 'o';
    printf("-%c %s", is_long ? 'l' : form, option->name + (is_long ? 2 : 1));
    if (option->value) {
        fputs(takes_file(option) ? " -r -F" : " -x -a '", stdout);
        if (!takes_file(option)) {
            print_values(option);
            putchar('\'');
        }
    }
    fputs(" -d '", stdout);
    quoted(option->help, "\\");
    puts("'");
}

static void fish_script(void)
{
    puts("# fish completion of tessera, made by `tessera completion fish`");
    for (CommandId command = 0; command < N_COMMANDS; command++) {
        printf("complete -c tessera -n __fish_use_subcommand -f -a %s -d '",
               command_rows[command].name);
        quoted(command_rows[command].help, "\\");
        puts("'");
        printf("complete -c tessera -n '__fish_seen_subcommand_from %s' -a '",
               command_rows[command].name);
        print_operands(command);
        puts("'");
        each_option(command, fish_option);
    }
}

/* ---- the command ---- */

static const struct {
    const char *shell;
    void (*print)(void);
} SCRIPTS[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
enum { N_SCRIPTS = sizeof SCRIPTS / sizeof *SCRIPTS };

int cmd_completion(const Options *options)
{
    for (size_t i = 0; options->path && i < N_SCRIPTS; i++) {
        if (strcmp(SCRIPTS[i].shell, options->path) == 0) {
            SCRIPTS[i].print();
            return 0;
        }
    }
    return fail_code(FAIL_VALUE, TESSERA_USAGE, "completion %.60s: expected bash, zsh or fish",
                     options->path ? options->path : "of which shell");
}
