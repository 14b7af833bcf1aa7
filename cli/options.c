/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the command line by the tables commands.def and options.def. `tessera help` prints the
 * same tables. */
#include "cli/options.h"
#include "cli/cli_diagnostics.h"
#include "cli/nearest.h"
#include "cli/session_memory.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tables ---- */

#define COMMAND(id, name, arguments, operand, help) {#name, arguments, OPERAND_##operand, help},
const CommandRow command_rows[N_COMMANDS] = {
#include "cli/commands.def"
};
#undef COMMAND

/* Bits of OptionRow.commands, and the sets of commands that share options. */
enum {
#define COMMAND(id, ...) id = 1 << COMMAND_##id,
#include "cli/commands.def"
#undef COMMAND
    ON_DEVICE = RUN | BENCH | EVAL,
    COMPILING = ON_DEVICE | COMPILE | EXPLAIN,
    CHECKING = COMPILING | CHECK,
    TUNING = CHECKING | TUNE,
    ANY = (1 << N_COMMANDS) - 1,
};

/* The column `type` of options.def: the type and the limits of a number. */
#define FLAG OPTION_FLAG, 0, 0
#define TEXT OPTION_TEXT, 0, 0
#define TEXTS OPTION_TEXTS, 0, 0
#define TEXT_LIST OPTION_TEXT_LIST, 0, 0
#define NUMBER(min, max) OPTION_NUMBER, min, max
#define SEED OPTION_SEED, 0, 0
#define BYTES OPTION_BYTES, 0, 0
#define CHOICE OPTION_CHOICE, 0, 0
#define SETS OPTION_SETS, 0, 0
#define SIZES OPTION_SIZES, 0, 0
#define FACTS OPTION_FACTS, 0, 0
#define STRIDES OPTION_STRIDES, 0, 0
#define OPTION(name, value, commands, type, field, help)                                           \
    {name, value, commands, type, offsetof(Options, field), help},
const OptionRow option_rows[] = {
#include "cli/options.def"
};
const size_t n_option_rows = sizeof option_rows / sizeof *option_rows;

CommandId command_find(const char *name)
{
    CommandId id = 0;
    while (id < N_COMMANDS && strcmp(command_rows[id].name, name) != 0) {
        id++;
    }
    return id;
}

const char *command_name(size_t index)
{
    return index < N_COMMANDS ? command_rows[index].name : NULL;
}

static const char *option_name(size_t index)
{
    return index < n_option_rows ? option_rows[index].name : NULL;
}

/* ---- values ---- */

static void add_text(Strings *list, const char *text)
{
    list->items = session_grow(list->items, list->n, sizeof *list->items);
    list->items[list->n++] = text;
}

static bool parse_integer(const char *text, long long min, long long max, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *out >= min && *out <= max;
}

/* The i-th of the words of a CHOICE, or NULL. */
static const char *choice_word(const OptionRow *row, int i)
{
    const char *at = row->value;
    for (; at && i > 0; i--) {
        at = strchr(at, '|');
        at = at ? at + 1 : NULL;
    }
    return at ? session_text(at, strcspn(at, "|")) : NULL;
}

static int read_choice(const OptionRow *row, const char *value, int *out)
{
    char words[80] = "";
    size_t n = 0;
    const char *word, *nearest = NULL;
    for (int i = 0; (word = choice_word(row, i)); i++) {
        if (strcmp(word, value) == 0) {
            *out = i;
            return 0;
        }
        const char *before = " or ";
        if (i == 0) {
            before = "";
        } else if (choice_word(row, i + 1)) {
            before = ", ";
        }
        n += (size_t)snprintf(words + n, sizeof words - n, "%s%s", before, word);
        nearest = nearest ? nearest : nearest_of(value, word);
    }
    return nearest ? fail_code(FAIL_VALUE, TESSERA_USAGE, "%s %.60s: expected %s; did you mean %s?",
                               row->name, value, words, nearest)
                   : fail_code(FAIL_VALUE, TESSERA_USAGE, "%s %.60s: expected %s", row->name, value,
                               words);
}

/* Reads each piece of a list with commas; stops at the first failure. */
static int read_list(const OptionRow *row, const char *value, Options *options,
                     int (*read)(const char *option, const char *piece, Options *options))
{
    for (const char *at = value;; at++) {
        size_t n = strcspn(at, ",");
        int code = n > 0 ? read(row->name, session_text(at, n), options) : 0;
        if (code != 0) {
            return code;
        }
        at += n;
        if (*at == '\0') {
            return 0;
        }
    }
}

static int read_value(const OptionRow *row, const char *value, Options *options)
{
    void *field = (char *)options + row->field;
    long long number;
    switch (row->type) {
    case OPTION_FLAG: *(bool *)field = true; return 0;
    case OPTION_TEXT: *(const char **)field = value; return 0;
    case OPTION_TEXTS: add_text(field, value); return 0;
    case OPTION_TEXT_LIST:
        for (const char *at = value; *at; at += *at == ',') {
            size_t n = strcspn(at, ",");
            if (n > 0) {
                add_text(field, session_text(at, n));
            }
            at += n;
        }
        return 0;
    case OPTION_NUMBER:
        if (!parse_integer(value, row->min, row->max, &number)) {
            return fail_code(FAIL_VALUE, TESSERA_USAGE,
                             "%s %.60s: expected a whole number from %d to %d", row->name, value,
                             row->min, row->max);
        }
        *(int *)field = (int)number;
        return 0;
    case OPTION_SEED:
        if (!parse_integer(value, 0, INT64_MAX, &number)) {
            return fail_code(FAIL_VALUE, TESSERA_USAGE,
                             "%s %.60s: expected a whole number from 0 to 2^63 - 1", row->name,
                             value);
        }
        *(uint64_t *)field = (uint64_t)number;
        return 0;
    case OPTION_BYTES:
        if (!size_parse(&value, field) || *value) {
            return fail_code(FAIL_VALUE, TESSERA_USAGE, "%s: expected a number of bytes, as %s",
                             row->name, row->value);
        }
        return 0;
    case OPTION_CHOICE: return read_choice(row, value, field);
    case OPTION_SETS: return read_list(row, value, options, set_read);
    case OPTION_SIZES: return read_list(row, value, options, size_read);
    case OPTION_FACTS: return read_list(row, value, options, fact_read);
    case OPTION_STRIDES: return strides_read(row->name, value, options);
    }
    return 0;
}

/* ---- the command line ---- */

/* The row of the first n characters of text: one that the command takes, else one of another
 * command, else NULL. */
static const OptionRow *find_option(CommandId command, const char *text, size_t n)
{
    const OptionRow *found = NULL;
    for (size_t i = 0; i < n_option_rows; i++) {
        const OptionRow *row = &option_rows[i];
        if (strlen(row->name) == n && memcmp(row->name, text, n) == 0) {
            found = row;
            if (row->commands >> command & 1) {
                return row;
            }
        }
    }
    return found;
}

/* Reads `--name=value` or `--name value` at argv[*at], and moves *at to its last argument. */
static int read_option(CommandId command, int argc, char **argv, int *at, Options *options)
{
    const char *text = argv[*at], *name = command_rows[command].name;
    const char *equals = text[1] == '-' ? strchr(text, '=') : NULL;
    const char *value = equals ? equals + 1 : NULL;
    size_t n = equals ? (size_t)(equals - text) : strlen(text);
    const OptionRow *row = find_option(command, text, n);
    if (!row || !(row->commands >> command & 1)) {
        const char *nearest = row ? NULL : nearest_name(session_text(text, n), option_name);
        return nearest ? fail_code(FAIL_OPTION, TESSERA_USAGE,
                                   "%s has no option %.60s: did you mean %s?", name, text, nearest)
                       : fail_code(FAIL_OPTION, TESSERA_USAGE,
                                   "%s has no option %.60s: `tessera help %s` lists them", name,
                                   text, name);
    }
    if (!row->value && value) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE, "%s takes no value", row->name);
    }
    if (row->value && !value) {
        if (*at + 1 >= argc) {
            return fail_code(FAIL_VALUE, TESSERA_USAGE, "%s needs a value: %s %s", row->name,
                             row->name, row->value);
        }
        value = argv[++*at];
    }
    return read_value(row, value, options);
}

void path_split(const char *text, const char **path, const char **kernel)
{
    /* The kernel's name, vjp(its name, …), or its name[3], follows the last colon if what follows
     * is one. */
    const char *colon = strrchr(text, ':');
    bool named = colon && colon[1];
    for (const char *at = named ? colon + 1 : ""; *at; at++) {
        named = named && (isalnum((unsigned char)*at) || strchr("_()[], ", *at));
    }
    *path = named ? session_text(text, (size_t)(colon - text)) : text;
    *kernel = named ? colon + 1 : NULL;
}

/* --derivative vjp: that of the kernel instead of the kernel. */
static void take_derivative(Options *options)
{
    if (options->derivative) {
        const char *of = options->kernel ? options->kernel : "";
        size_t n = strlen(options->derivative) + strlen(of) + 3;
        char *text = session_alloc(n);
        snprintf(text, n, "%s(%s)", options->derivative, of);
        options->kernel = text;
    }
}

int options_read(CommandId command, int argc, char **argv, Options *options)
{
    const CommandRow *row = &command_rows[command];
    *options = (Options){.rounds = 7,
                         .seed = 1,
                         .timeout = NOT_GIVEN,
                         .optimize = NOT_GIVEN,
                         .limit = NOT_GIVEN,
                         .trap = NOT_GIVEN};
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
            int code = read_option(command, argc, argv, &i, options);
            if (code != 0) {
                return code;
            }
        } else if (!options->path && row->operand != OPERAND_FILES) {
            path_split(argv[i], &options->path, &options->kernel);
        } else {
            add_text(&options->values, argv[i]);
        }
    }
    take_derivative(options);
    if (options->ranges.n > 0 && command != COMMAND_BENCH) {
        return fail_code(FAIL_SIZE, TESSERA_USAGE, "--size %s=…: only bench takes ranges of sizes",
                         options->ranges.items[0].name);
    }
    bool missing = row->operand == OPERAND_SOURCE
                       ? !options->path
                       : row->operand == OPERAND_FILES && options->values.n == 0;
    return missing ? fail_code(FAIL_NO_FILE, TESSERA_USAGE, "%s needs a file: tessera %s %s",
                               row->name, row->name, row->arguments)
                   : 0;
}

/* ---- what the options mean ---- */

bool options_make_bundle(const Options *options)
{
    const char *emit = options->emit;
    return options->targets.n > 1 || options->variants.n > 0 ||
           (emit && (strcmp(emit, "bundle") == 0 || strcmp(emit, "shared") == 0));
}

const char *options_target(const Options *options)
{
    return options->targets.n > 0 ? options->targets.items[options->targets.n - 1] : NULL;
}

int options_optimize(const Options *options)
{
    switch (options->optimize) {
    case NOT_GIVEN: return 0;
    case 0: return -1;
    default: return options->optimize;
    }
}
