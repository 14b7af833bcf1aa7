/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point of the program `tessera`. It holds the table of commands, finds the command that
 * the first argument names and calls it with the parsed options. */
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"

#include <string.h>

static const Command COMMANDS[] = {
    {"run", "FILE.tile[:KERNEL] [NAME=FILE.npy | NAME=NUMBER]... [-o [NAME=]FILE.npy]",
     "compile a kernel and run it, on the CPU if there is no GPU", VERB_RUN, cmd_run},
    {"compile", "FILE.tile[:KERNEL] [-o FILE]", "write machine code or IR", VERB_COMPILE,
     cmd_compile},
    {"explain", "FILE.tile[:KERNEL] | [CODE]",
     "print the schedule with reasons and a cost estimate, or explain an error code", VERB_EXPLAIN,
     cmd_explain},
    {"bench", "FILE.tile[:KERNEL] --size M=...",
     "measure time, bytes and FLOP/s, and compare with the copy rate", VERB_BENCH, cmd_bench},
    {"check", "FILE.tile[:KERNEL] [NAME=NUMBER]...",
     "compare all backends at several sizes, prove bounds, measure errors against f64", VERB_CHECK,
     cmd_check},
    {"fmt", "FILE.tile... | -", "format sources in place (-: standard input to standard output)",
     VERB_FMT, cmd_fmt},
    {"doctor", "", "say which devices and libraries can be used, and how to get missing ones",
     VERB_DOCTOR, cmd_doctor},
    {"cache", "[info | list | verify | prune | clear]",
     "list the cached machine code; remove damaged, old or all entries", VERB_CACHE, cmd_cache},
    {"tune", "FILE.tile[:KERNEL] --size M=... | show | diff | export | pin | merge | report ...",
     "search schedules, store and show the measurements, pin the best schedules", VERB_TUNE,
     cmd_tune},
    {"targets", "", "list the targets, and the devices of this machine", VERB_OTHER, cmd_targets},
    {"help", "[COMMAND]", "print this text, or the options of a command", VERB_OTHER, cmd_help},
    {"version", "", "print the version", VERB_OTHER, cmd_version},
};

const Command *cmd_rows(size_t *n)
{
    *n = sizeof COMMANDS / sizeof *COMMANDS;
    return COMMANDS;
}

static const Command *find_verb(const char *name)
{
    static const char *const other_names[][2] = {
        {"--version", "version"}, {"--help", "help"}, {"-h", "help"}};
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++) {
        if (strcmp(name, other_names[i][0]) == 0) {
            name = other_names[i][1];
        }
    }
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        if (strcmp(name, COMMANDS[i].name) == 0) {
            return &COMMANDS[i];
        }
    }
    return NULL;
}

static const char *cmd_name(size_t index)
{
    return index < sizeof COMMANDS / sizeof *COMMANDS ? COMMANDS[index].name : NULL;
}

static int no_verb(const char *name)
{
    const char *nearest = nearest_name(name, cmd_name);
    return nearest ? fail_code(FAIL_VERB, TESSERA_USAGE, "no verb '%.60s': did you mean '%s'?",
                               name, nearest)
                   : fail_code(FAIL_VERB, TESSERA_USAGE,
                               "no verb '%.60s': `tessera help` says what there is", name);
}

/* What could not be written is a failure, too. */
static int finish(int code)
{
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    return lost && code == 0
               ? fail_code(FAIL_WRITE, TESSERA_ENVIRONMENT, "cannot write to standard output")
               : code;
}

/* `tessera run --help`: what `tessera help run` says. */
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    interrupts_begin();
    int form = diagnostics_read(argc, argv);
    if (form != 0) {
        return form;
    }
    if (argc < 2) {
        fail_code(FAIL_VERB, TESSERA_USAGE, "what to do? `tessera help` says what there is");
        return TESSERA_USAGE;
    }
    const Command *verb = find_verb(argv[1]);
    if (!verb) {
        return no_verb(argv[1]);
    }
    Options options;
    if (asks_for_help(argc, argv)) {
        options = (Options){.path = verb->name};
        return finish(cmd_help(&options));
    }
    int code = options_read(verb, argc - 2, argv + 2, &options);
    code = finish(code == 0 ? verb->run(&options) : code);
    session_free();
    return code;
}
