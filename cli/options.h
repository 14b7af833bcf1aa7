/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed command line, and the tables of commands and options. */
#ifndef TESSERA_CLI_OPTIONS_H
#define TESSERA_CLI_OPTIONS_H

#include <stdio.h>
#include <tessera/tessera.h>

typedef struct Strings {
    const char **items;
    size_t n;
} Strings;

typedef struct Pairs {
    TesseraPair *items;
    size_t n;
} Pairs;

/* M=1k..16k:x2 or :+512 */
typedef struct SizeRange {
    const char *name;
    int64_t first, last, factor, step; /* one of factor and step is 0 */
} SizeRange;
/* Advances *value; after the last value it returns false and starts again at the first one. */
bool size_range_next(const SizeRange *range, int64_t *value);

enum { NOT_GIVEN = -1 }; /* a number, or a choice without a default, that no option gives */

typedef struct Options {
    const char *path, *kernel; /* FILE.tile:KERNEL */
    const char *program;       /* the text of `path`, which is no file; NULL: it is one */
    Strings values;            /* NAME=VALUE after the file */
    Strings outputs;           /* -o */
    Strings targets;           /* --target; the last one counts where only one is possible */
    Strings variants;          /* --variant */
    Pairs sets;
    struct {
        TesseraSize *items;
        size_t n;
    } sizes;
    struct {
        SizeRange *items;
        size_t n;
    } ranges; /* of --size */
    struct {
        TesseraFact *items;
        size_t n;
    } facts;
    Pairs strides;
    Strings schedule; /* entries */
    Strings against;  /* entries of the schedule to compare with */
    Strings skips;    /* passes */
    const char *derivative; /* vjp, grad; NULL: none */
    const char *emit, *device, *stop_after, *print_after;
    uint64_t seed;
    int threads;  /* 0: all that are available */
    int optimize; /* level of LLVM, or NOT_GIVEN */
    int rounds;
    int timeout;   /* seconds, 0: no limit; or NOT_GIVEN */
    int isolate;   /* TesseraIsolate */
    int64_t limit; /* bytes, or NOT_GIVEN */
    int trap;      /* 0: NaN; or NOT_GIVEN */
    bool no_jit, check, json, csv, time_passes, count_work, verify;
    bool print_changed, print_diff, print_computations, nest;
    bool describe, dependencies;
    const char *compare, *trace, *html;
    const char *store, *pins; /* files; NULL: in their default folders */
    bool no_pins, all;
    /* The values of --set and --size of tune, unparsed, since each may be repeated. */
    Strings set_texts, size_texts;
    const char *budget, *shard, *devices, *work;
    int strategy; /* Strategy */
    int candidates, workers;
    bool resume;
    Strings allow;   /* codes of warnings */
    bool deny;       /* warnings are errors */
    int diagnostics; /* diagnostics_read has applied it before any other option is parsed */
    int color;       /* so has color_read */
} Options;

/* ---- the tables ---- */

typedef enum CommandId {
#define COMMAND(id, ...) COMMAND_##id,
#include "cli/commands.def"
#undef COMMAND
    N_COMMANDS
} CommandId;

/* What a command needs besides its options; columns of commands.def. */
typedef enum CommandOperand { OPERAND_SOURCE, OPERAND_MAYBE, OPERAND_FILES } CommandOperand;

typedef struct CommandRow {
    const char *name, *arguments;
    CommandOperand operand;
    const char *help;
} CommandRow;
extern const CommandRow command_rows[N_COMMANDS];
/* N_COMMANDS if no command has this name. */
CommandId command_find(const char *name);
/* The name of a command by its index, NULL past the last one: for nearest_name. */
const char *command_name(size_t index);

/* How the value of an option is read, and the type of its field. */
typedef enum OptionType {
    OPTION_FLAG,      /* bool: no value */
    OPTION_TEXT,      /* const char *: the last one counts */
    OPTION_TEXTS,     /* Strings: one per repetition */
    OPTION_TEXT_LIST, /* Strings: separated by commas */
    OPTION_NUMBER,    /* int: from min to max */
    OPTION_SEED,      /* uint64_t */
    OPTION_BYTES,     /* int64_t: 500M */
    OPTION_CHOICE,    /* int: index of the word in OptionRow.value, words separated by `|` */
    OPTION_SETS,      /* Options.sets: NAME=VALUE, separated by commas */
    OPTION_SIZES,     /* Options.sizes and .ranges: NAME=NUMBER, separated by commas */
    OPTION_FACTS,     /* Options.facts: relations, separated by commas */
    OPTION_STRIDES,   /* Options.strides: NAME=STRIDES */
} OptionType;

typedef struct OptionRow {
    const char *name;
    const char *value;     /* what stands for the value in the help; NULL: a flag */
    unsigned int commands; /* 1 << CommandId */
    OptionType type;
    int min, max; /* of a NUMBER */
    size_t field; /* its offset in Options */
    const char *help;
} OptionRow;
extern const OptionRow option_rows[];
extern const size_t n_option_rows;

/* ---- parsing ---- */

/* Parses the arguments that follow the command; 0, or an exit code after a message. */
int options_read(CommandId command, int argc, char **argv, Options *options);

/* One value of the types SETS, SIZES, FACTS and STRIDES (option_values.c). `option` is the option's
 * name for messages. 0, or an exit code after a message. */
int set_read(const char *option, const char *piece, Options *options);
int size_read(const char *option, const char *piece, Options *options);
int fact_read(const char *option, const char *piece, Options *options);
int strides_read(const char *option, const char *text, Options *options);
/* Parses a size with an optional unit (4k is 4096) and moves *at behind it. */
bool size_parse(const char **at, int64_t *size);
/* "M" of "M=3", allocated from the session; NULL if no name stands before the separator. */
char *name_before(const char *text, char separator);
/* Splits FILE.tile[:KERNEL]; *kernel is NULL if none is named. */
void path_split(const char *text, const char **path, const char **kernel);

/* ---- what the options mean ---- */

/* True if one object for several targets or variants is to be written. */
bool options_make_bundle(const Options *options);
/* The last --target, or NULL. */
const char *options_target(const Options *options);
/* --optimize as TesseraOptions.optimize has it: 0 for the default, -1 for level 0. */
int options_optimize(const Options *options);

#endif
