/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the command line from one table of options. `tessera help` prints the same table, so the
 * two cannot disagree. */
#include "cli/options.h"
#include "cli/session.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALL = VERB_RUN | VERB_COMPILE | VERB_EXPLAIN | VERB_BENCH,
    CHECKED = ALL | VERB_CHECK,
    TUNED = CHECKED | VERB_TUNE,
    ANY = TUNED | VERB_FMT | VERB_DOCTOR | VERB_CACHE | VERB_OTHER,
    ON_DEVICE = VERB_RUN | VERB_BENCH,
};

const OptionRow option_rows[] = {
    {"-o", "[NAME=]FILE", VERB_RUN | VERB_COMPILE, "output file; `-`: standard output"},
    {"-o", "FILE", VERB_TUNE, "export: output file; `-`: standard output"},
    {"--set", "T=bf16,D=64,...", CHECKED, "values of generic and const parameters"},
    {"--size", "M=1000,N=4k,...", VERB_RUN, "sizes; inputs that are not given are random"},
    {"--size", "M=1000,N=4k,...", VERB_COMPILE | VERB_EXPLAIN,
     "expected sizes, for which the code is optimized"},
    {"--size", "M=4k,N=1k..8k:x2,...", VERB_BENCH,
     "sizes or ranges; steps are :x2 (times 2) or :+512"},
    {"--size", "M=1000,N=4k,...", VERB_CHECK,
     "fixed sizes; others are checked with several values"},
    {"--set", "T=bf16,D=64,...", VERB_TUNE, "types and constants; each repetition adds a sweep"},
    {"--size", "M=4k,N=1k..8k:x2,...", VERB_TUNE,
     "sizes; each repetition or element of a range adds a sweep"},
    {"--assume", "\"N % 16 == 0, M <= 4096\"", VERB_COMPILE | VERB_EXPLAIN,
     "facts about sizes that are not given"},
    {"--strides", "\"x=*8,1\"", TUNED, "strides of a tensor, one per axis; `*`: any"},
    {"--schedule", "\"tile M 128, N 256\"", TUNED,
     "a schedule entry, or the name of a schedule in the source"},
    {"--pins", "FILE.tune", CHECKED, "pinned schedules (default: the file beside the source)"},
    {"--no-pins", NULL, CHECKED, "ignore pinned schedules"},
    {"--target", "NAME", ALL, "target (default: that of this machine's device)"},
    {"--variant", "\"T=bf16, N % 8 == 0\"", VERB_COMPILE,
     "bundle: additional code for these types and sizes; repeatable"},
    {"--device", "auto|cpu|cuda|hip|interp", VERB_RUN,
     "device to run on; cuda:1 is the second CUDA device"},
    {"--device", "auto|cpu|cuda|hip", VERB_BENCH,
     "device to run on; cuda:1 is the second CUDA device"},
    {"--device", "auto|cpu|cuda|hip", VERB_TUNE,
     "device to measure on; cuda:1 is the second CUDA device"},
    {"--devices", "all|cuda:0,cuda:2,...", VERB_TUNE,
     "several devices of one kind, with one worker per device"},
    {"--budget", "60s|10m|2h", VERB_TUNE,
     "time limit of a sweep (default: 60s without --candidates); 0: none"},
    {"--candidates", "N", VERB_TUNE, "maximum number of schedules to measure"},
    {"--strategy", "model|random|exhaustive", VERB_TUNE,
     "choice of candidates: best by the model (default), random, all"},
    {"--resume", NULL, VERB_TUNE, "skip schedules of this kernel that the store has already"},
    {"--shard", "i/n", VERB_TUNE, "measure only the i-th of n parts of the candidates"},
    {"--workers", "N", VERB_TUNE, "number of compile workers (default: available CPUs)"},
    {"--timeout", "SECONDS", VERB_TUNE,
     "time limit per launch (default: 2 s + 60 times the derived schedule's)"},
    {"--work", "ROLE:PROCESS:TARGET", VERB_TUNE, NULL}, /* what a sweep tells those it starts */
    {"--device", "cpu|cuda|hip", VERB_DOCTOR,
     "device that must be present; cuda:1 is the second CUDA device"},
    {"--threads", "N", ON_DEVICE | VERB_TUNE, "CPU threads (default: all available)"},
    {"--seed", "N", ON_DEVICE | VERB_CHECK, "seed of random inputs"},
    {"--seed", "N", VERB_TUNE, "seed of the random choice of candidates"},
    {"--check", NULL, VERB_RUN, "compare with the interpreter; exit status 5 if results differ"},
    {"--check", NULL, VERB_FMT, "change nothing; list files that are not formatted, exit status 1"},
    {"--trace", "o[3,5]", VERB_RUN, "show how the interpreter computes this element"},
    {"--trap", "nan", VERB_RUN, "show the first op that produces a NaN, in the interpreter"},
    {"--emit", "KIND", VERB_COMPILE,
     "ir, launch, llvm, ptx, cubin, asm, hsaco, obj; for all --targets: bundle, shared"},
    {"--optimize", "0|1|2|3", ALL | VERB_TUNE, "optimization level of LLVM (default: 3)"},
    {"--timeout", "SECONDS", ON_DEVICE | VERB_CHECK,
     "limit for compiling (default: 60 s CPU time) and for the kernel (none); 0: none"},
    {"--timeout", "SECONDS", VERB_COMPILE | VERB_EXPLAIN,
     "limit for compiling (default: 60 s CPU time); 0: none"},
    {"--timeout", "SECONDS", VERB_DOCTOR, "limit for the test kernels (default: 60 s); 0: none"},
    {"--isolate", "never|auto|always", CHECKED,
     "generate machine code in the process tessera-worker (default: never)"},
    {"--no-jit", NULL, ON_DEVICE, "use machine code only from the cache"},
    {"--store", "FILE", VERB_TUNE, "database of measurements (default: in the user's data folder)"},
    {"--pins", "FILE.tune", VERB_TUNE, "pin: the file (default: beside the source)"},
    {"--all", NULL, VERB_TUNE, "show: list every candidate"},
    {"--json", NULL, VERB_TUNE, "export, report: write JSON"},
    {"--csv", NULL, VERB_TUNE, "export: write a CSV table"},
    {"--html", "FILE", VERB_TUNE, "report: write one HTML page"},
    {"--describe", NULL, VERB_COMPILE, "only print the signatures of the kernels"},
    {"-MD", NULL, VERB_COMPILE, "write the files read as a make rule into FILE.d (-o FILE)"},
    {"--rounds", "N", VERB_BENCH, "rounds, of which the median counts (default: 7)"},
    {"--json", NULL, VERB_BENCH, "write one line of JSON for each size"},
    {"--csv", NULL, VERB_BENCH, "write a CSV table with one line for each size"},
    {"--compare", "FILE", VERB_BENCH, "compare with an earlier --json output"},
    {"--json", NULL, VERB_DOCTOR | VERB_CACHE, "write one JSON object"},
    {"--limit", "500M", VERB_CACHE,
     "prune: maximum bytes to keep (default: the cache's own limit)"},
    {"--json", NULL, VERB_COMPILE, "with --describe: write JSON"},
    {"--json", NULL, VERB_EXPLAIN, "write JSON, also for error codes"},
    {"--html", "FILE", VERB_EXPLAIN, "write one page with source, IR, code and pictures"},
    {"--diagnostics", "human|short|json", ANY, "format of errors and warnings on standard error"},
    {"--allow", "W2001,...|all", TUNED, "warnings to suppress"},
    {"-Werror", NULL, TUNED, "treat warnings as errors"},
    {"--print-after", "PASS|all|frontend", ALL, "print the IR after a pass, on standard error"},
    {"--print-changed", NULL, ALL, "print the IR after each pass that changes it"},
    {"--stop-after", "PASS|frontend", ALL, "stop after this pass"},
    {"--skip", "PASS", ALL, "skip a pass that is not required"},
    {"--time-passes", NULL, ALL, "print the time of each pass"},
    {"--count-work", NULL, ALL, "print how often each pass examines an op"},
    {"--verify", NULL, ALL, "verify the IR after each pass"},
};
const size_t n_option_rows = sizeof option_rows / sizeof *option_rows;

/* ---- small readers ---- */

static void add_string(Strings *list, const char *text)
{
    list->items = keep_more(list->items, list->n, sizeof *list->items);
    list->items[list->n++] = text;
}

char *name_before(const char *text, char separator)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_') {
        n++;
    }
    bool named = n > 0 && text[n] == separator && !isdigit((unsigned char)text[0]);
    return named ? keep_text(text, n) : NULL;
}

static bool read_integer(const char *text, long long least, long long most, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *out >= least && *out <= most;
}

/* Calls for each piece of a comma separated list; stops at the first failure. */
static int for_pieces(const char *text, Options *options,
                      int (*each)(const char *piece, Options *options))
{
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        char *piece = keep_text(at, n);
        int code = n > 0 ? each(piece, options) : 0;
        if (code != 0) {
            return code;
        }
        at += n;
        if (*at == '\0') {
            return 0;
        }
    }
}

static int read_allow(const char *piece, Options *options)
{
    add_string(&options->allow, piece);
    return 0;
}

/* Of two values of one name nobody knows which is meant. */
static int given_twice(FailCode code, const char *option, const char *name)
{
    return fail_code(code, TESSERA_USAGE, "%s: %.60s is given twice", option, name);
}

int set_read(const char *option, const char *piece, Options *options)
{
    char *name = name_before(piece, '=');
    if (!name || !piece[strlen(name) + 1]) {
        return fail_code(FAIL_SET, TESSERA_USAGE, "%s %.60s: NAME=VALUE is wanted", option, piece);
    }
    for (size_t i = 0; i < options->sets.n; i++) {
        if (strcmp(options->sets.items[i].name, name) == 0) {
            return given_twice(FAIL_SET, option, name);
        }
    }
    options->sets.items =
        keep_more(options->sets.items, options->sets.n, sizeof *options->sets.items);
    options->sets.items[options->sets.n++] = (TesseraPair){name, piece + strlen(name) + 1};
    return 0;
}

static int read_set(const char *piece, Options *options)
{
    return set_read("--set", piece, options);
}

/* 4k is 4096; past the number. */
static bool take_size(const char **at, int64_t *size)
{
    static const char units[] = "kMG";
    char *end;
    errno = 0;
    *size = strtoll(*at, &end, 10);
    bool good = end != *at && errno == 0 && *size >= 0 && isdigit((unsigned char)**at);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        int64_t scale = (int64_t)1 << (10 * (unit - units + 1));
        good = good && !__builtin_mul_overflow(*size, scale, size);
        end++;
    }
    *at = end;
    return good;
}

/* One size (last -1), or several of them. */
static bool read_range(const char *text, SizeRange *range)
{
    *range = (SizeRange){.last = -1, .factor = 2};
    if (!take_size(&text, &range->first)) {
        return false;
    }
    if (strncmp(text, "..", 2) == 0) {
        text += 2;
        if (!take_size(&text, &range->last) || range->last < range->first) {
            return false;
        }
        if (text[0] == ':' && (text[1] == 'x' || text[1] == '+')) {
            bool times = text[1] == 'x';
            text += 2;
            range->factor = 0;
            if (!take_size(&text, times ? &range->factor : &range->step) ||
                range->factor + range->step < 1 + times) {
                return false;
            }
        }
    }
    return !*text;
}

static bool has_size(const Options *options, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < options->sizes.n; i++) {
        found = found || strcmp(options->sizes.items[i].name, name) == 0;
    }
    for (size_t i = 0; i < options->ranges.n; i++) {
        found = found || strcmp(options->ranges.items[i].name, name) == 0;
    }
    return found;
}

int size_read(const char *option, const char *piece, Options *options)
{
    char *name = name_before(piece, '=');
    SizeRange range;
    if (!name || !read_range(piece + strlen(name) + 1, &range)) {
        return fail_code(
            FAIL_SIZE, TESSERA_USAGE,
            "%s %.60s: NAME=NUMBER is wanted, from 0 to 2^63 - 1, as 1000 or 4k; bench "
            "walks M=1k..16k:x2 and M=512..4k:+512",
            option, piece);
    }
    if (has_size(options, name)) {
        return given_twice(FAIL_SIZE, option, name);
    }
    if (range.last >= 0) {
        range.name = name;
        options->ranges.items =
            keep_more(options->ranges.items, options->ranges.n, sizeof *options->ranges.items);
        options->ranges.items[options->ranges.n++] = range;
        return 0;
    }
    options->sizes.items =
        keep_more(options->sizes.items, options->sizes.n, sizeof *options->sizes.items);
    options->sizes.items[options->sizes.n++] = (TesseraSize){name, range.first};
    return 0;
}

static int read_size(const char *piece, Options *options)
{
    return size_read("--size", piece, options);
}

/* ---- --assume ---- */

static bool skip_word(const char **at, const char *word)
{
    const char *from = *at + strspn(*at, " ");
    size_t n = strlen(word);
    bool here = strncmp(from, word, n) == 0;
    *at = here ? from + n : *at;
    return here;
}

/* A number of 0 and more; NULL, or what is wrong. */
static const char *take_bound(const char **at, int64_t *number)
{
    char *end;
    const char *from = *at + strspn(*at, " ");
    errno = 0;
    *number = strtoll(from, &end, 10);
    if (end == from || !isdigit((unsigned char)*from)) {
        return "a number is wanted there, of 0 or more";
    }
    *at = end + strspn(end, " ");
    return errno ? "numbers are below 2^63" : NULL;
}

/* What follows the name; NULL, or what is wrong with what stands at `*at`. */
static const char *read_relation(const char **at, TesseraFact *fact)
{
    int64_t zero = 0;
    if (skip_word(at, ">=")) {
        return take_bound(at, &fact->least);
    }
    if (skip_word(at, "<=")) {
        const char *wrong = take_bound(at, &fact->most);
        return wrong ? wrong : fact->most == 0 ? "a size that is 0 at most is always 0" : NULL;
    }
    if (!skip_word(at, "%")) {
        const char *from = *at + strspn(*at, " ");
        return *from == '<' || *from == '>' ? "there are `<=` and `>=`, no `<` or `>`"
               : *from == '='               ? "a size that is known is given with --size"
                                            : "`%`, `<=` or `>=` is wanted there";
    }
    const char *wrong = take_bound(at, &fact->multiple);
    if (wrong || fact->multiple == 0) {
        return wrong ? wrong : "nothing is a multiple of 0";
    }
    wrong = skip_word(at, "==") ? take_bound(at, &zero) : "`== 0` is wanted there";
    return wrong ? wrong : zero ? "only multiples can be assumed: `== 0`" : NULL;
}

int fact_read(const char *option, const char *piece, Options *options)
{
    const char *start = piece + strspn(piece, " "), *at = start;
    TesseraFact fact = {0};
    while (isalnum((unsigned char)*at) || *at == '_') {
        at++;
    }
    fact.name = keep_text(start, (size_t)(at - start));
    const char *wrong =
        at == start ? "the name of a size is wanted there" : read_relation(&at, &fact);
    wrong = !wrong && *at ? "that is more than one fact: a comma goes between them" : wrong;
    if (wrong) {
        at += strspn(at, " ");
        return fail_code(FAIL_ASSUME, TESSERA_USAGE,
                         "%s \"%.60s\"%s%.30s%s: %s; like N %% 16 == 0, N <= 4096 or N >= 1",
                         option, start, *at ? ", at \"" : "", at, *at ? "\"" : "", wrong);
    }
    options->facts.items =
        keep_more(options->facts.items, options->facts.n, sizeof *options->facts.items);
    options->facts.items[options->facts.n++] = fact;
    return 0;
}

static int read_assume(const char *piece, Options *options)
{
    return fact_read("--assume", piece, options);
}

/* ---- the others ---- */

int strides_read(const char *option, const char *text, Options *options)
{
    char *name = name_before(text, '=');
    if (!name || !text[strlen(name) + 1]) {
        return fail_code(FAIL_STRIDES, TESSERA_USAGE,
                         "%s %.60s: NAME=STRIDES is wanted, like \"x=*8,1\"", option, text);
    }
    for (size_t i = 0; i < options->strides.n; i++) {
        if (strcmp(options->strides.items[i].name, name) == 0) {
            return given_twice(FAIL_STRIDES, option, name);
        }
    }
    options->strides.items =
        keep_more(options->strides.items, options->strides.n, sizeof *options->strides.items);
    options->strides.items[options->strides.n++] = (TesseraPair){name, text + strlen(name) + 1};
    return 0;
}

static int read_number(const char *name, const char *text, int least, int most, int *out)
{
    long long value;
    if (!read_integer(text, least, most, &value)) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE,
                         "%s %.60s: a whole number from %d to %d is wanted", name, text, least,
                         most);
    }
    *out = (int)value;
    return 0;
}

static int read_timeout(const char *text, int *seconds)
{
    enum { MAX_SECONDS = 1000000 };
    long long value;
    if (!read_integer(text, 0, MAX_SECONDS, &value)) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE,
                         "--timeout %.60s: whole seconds are wanted, from 1 to %d; 0: any time",
                         text, (int)MAX_SECONDS);
    }
    *seconds = (int)value;
    return 0;
}

static int read_seed(const char *text, uint64_t *seed)
{
    long long value;
    if (!read_integer(text, 0, INT64_MAX, &value)) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE,
                         "--seed %.60s: a whole number from 0 on is wanted", text);
    }
    *seed = (uint64_t)value;
    return 0;
}

/* ---- options ---- */

static bool is(const OptionRow *row, const char *name)
{
    return strcmp(row->name, name) == 0;
}

static const char **text_slot(const OptionRow *row, Options *options)
{
    return is(row, "--device")        ? &options->device
           : is(row, "--isolate")     ? &options->isolate
           : is(row, "--emit")        ? &options->emit
           : is(row, "--compare")     ? &options->compare
           : is(row, "--html")        ? &options->html
           : is(row, "--store")       ? &options->store
           : is(row, "--pins")        ? &options->pins
           : is(row, "--trace")       ? &options->trace
           : is(row, "--trap")        ? &options->trap
           : is(row, "--print-after") ? &options->print_after
           : is(row, "--stop-after")  ? &options->stop_after
           : is(row, "--budget")      ? &options->budget
           : is(row, "--strategy")    ? &options->strategy
           : is(row, "--shard")       ? &options->shard
           : is(row, "--devices")     ? &options->devices
           : is(row, "--work")        ? &options->work
                                      : NULL;
}

static bool *switch_slot(const OptionRow *row, Options *options)
{
    return is(row, "--check")           ? &options->check
           : is(row, "--no-jit")        ? &options->no_jit
           : is(row, "--json")          ? &options->json
           : is(row, "--csv")           ? &options->csv
           : is(row, "--no-pins")       ? &options->no_pins
           : is(row, "--all")           ? &options->all
           : is(row, "--describe")      ? &options->describe
           : is(row, "--resume")        ? &options->resume
           : is(row, "-Werror")         ? &options->deny
           : is(row, "-MD")             ? &options->dependencies
           : is(row, "--print-changed") ? &options->print_changed
           : is(row, "--time-passes")   ? &options->time_passes
           : is(row, "--count-work")    ? &options->count_work
                                        : &options->verify;
}

static int take_option(const OptionRow *row, const char *value, Options *options)
{
    const char **text = text_slot(row, options);
    if (!row->value) {
        *switch_slot(row, options) = true;
        return 0;
    }
    if (text) {
        *text = value;
        return 0;
    }
    if (is(row, "--target")) {
        add_string(&options->targets, value);
        options->target = value;
    } else if (is(row, "--variant")) {
        add_string(&options->variants, value);
    } else if (is(row, "-o")) {
        add_string(&options->outputs, value);
    } else if (is(row, "--schedule")) {
        add_string(&options->lines, value);
    } else if (is(row, "--skip")) {
        add_string(&options->skips, value);
    } else if (row->verbs == VERB_TUNE && is(row, "--set")) {
        add_string(&options->set_texts, value);
    } else if (row->verbs == VERB_TUNE && is(row, "--size")) {
        add_string(&options->size_texts, value);
    } else if (is(row, "--set")) {
        return for_pieces(value, options, read_set);
    } else if (is(row, "--size")) {
        return for_pieces(value, options, read_size);
    } else if (is(row, "--strides")) {
        return strides_read("--strides", value, options);
    } else if (is(row, "--assume")) {
        return for_pieces(value, options, read_assume);
    } else if (is(row, "--allow")) {
        return for_pieces(value, options, read_allow);
    } else if (is(row, "--threads")) {
        return read_number(row->name, value, 1, 1024, &options->threads);
    } else if (is(row, "--candidates")) {
        return read_number(row->name, value, 1, 1000000, &options->candidates);
    } else if (is(row, "--workers")) {
        return read_number(row->name, value, 1, 256, &options->workers);
    } else if (is(row, "--timeout")) {
        return read_timeout(value, &options->timeout);
    } else if (is(row, "--limit")) {
        return take_size(&value, &options->limit) && !*value
                   ? 0
                   : fail_code(FAIL_VALUE, TESSERA_USAGE, "--limit wants bytes: 500M");
    } else if (is(row, "--rounds")) {
        return read_number(row->name, value, 1, 1000, &options->rounds);
    } else if (is(row, "--optimize")) {
        int code = read_number(row->name, value, 0, 3, &options->optimize);
        options->optimize = options->optimize == 0 ? -1 : options->optimize;
        return code;
    } else if (is(row, "--seed")) {
        return read_seed(value, &options->seed);
    }
    return 0;
}

/* `--name=value` and `--name value`. */
static const OptionRow *find_option(const Command *verb, const char *text, const char **value)
{
    const OptionRow *found = NULL; /* of this verb, or of another */
    const char *equals = strchr(text, '=');
    size_t n = equals && text[1] == '-' ? (size_t)(equals - text) : strlen(text);
    *value = text[n] ? text + n + 1 : NULL;
    for (size_t i = 0; i < n_option_rows; i++) {
        if (strlen(option_rows[i].name) == n && memcmp(option_rows[i].name, text, n) == 0) {
            found = &option_rows[i];
            if (found->verbs & verb->bit) {
                return found;
            }
        }
    }
    return found;
}

static const char *option_name(size_t index)
{
    return index < n_option_rows ? option_rows[index].name : NULL;
}

static int no_option(const Command *verb, const OptionRow *row, const char *text)
{
    char *name = keep_text(text, strcspn(text, "="));
    const char *nearest = row ? NULL : nearest_name(name, option_name);
    return nearest
               ? fail_code(FAIL_OPTION, TESSERA_USAGE, "%s has no option %.60s: did you mean %s?",
                           verb->name, text, nearest)
               : fail_code(FAIL_OPTION, TESSERA_USAGE,
                           "%s has no option %.60s: `tessera help %s` lists them", verb->name, text,
                           verb->name);
}

static int read_option(const Command *verb, int argc, char **argv, int *at, Options *options)
{
    const char *value;
    const OptionRow *row = find_option(verb, argv[*at], &value);
    if (!row || !(row->verbs & verb->bit)) {
        return no_option(verb, row, argv[*at]);
    }
    if (!row->value && value) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE, "%s takes no value", row->name);
    }
    if (row->value && !value) {
        if (*at + 1 >= argc) {
            return fail_code(FAIL_VALUE, TESSERA_USAGE, "%s wants a value: %s", row->name,
                             row->value);
        }
        value = argv[++*at];
    }
    return take_option(row, value, options);
}

/* The kernel's name follows the last colon, when what follows is a name. */
void path_split(const char *text, const char **path, const char **kernel)
{
    const char *colon = strrchr(text, ':');
    bool named = colon && colon[1];
    for (const char *at = named ? colon + 1 : ""; *at; at++) {
        named = named && (isalnum((unsigned char)*at) || *at == '_');
    }
    *path = named ? keep_text(text, (size_t)(colon - text)) : text;
    *kernel = named ? colon + 1 : NULL;
}

int options_read(const Command *verb, int argc, char **argv, Options *options)
{
    *options = (Options){.rounds = 7, .timeout = NO_TIMEOUT, .limit = -1, .seed = 1};
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && argv[i][0] == '-' && argv[i][1]) {
            int code = read_option(verb, argc, argv, &i, options);
            if (code != 0) {
                return code;
            }
        } else if (!options->path && verb->bit != VERB_FMT) {
            path_split(argv[i], &options->path, &options->kernel);
        } else {
            add_string(&options->values, argv[i]);
        }
    }
    bool any = options->path || (verb->bit == VERB_FMT && options->values.n > 0);
    if (options->ranges.n > 0 && verb->bit != VERB_BENCH) {
        return fail_code(FAIL_SIZE, TESSERA_USAGE, "--size %s=…: only bench walks over sizes",
                         options->ranges.items[0].name);
    }
    if (!(verb->bit & (VERB_OTHER | VERB_EXPLAIN | VERB_DOCTOR | VERB_CACHE | VERB_TUNE)) && !any) {
        return fail_code(FAIL_NO_FILE, TESSERA_USAGE, "%s wants a file: tessera %s %s", verb->name,
                         verb->name, verb->synopsis);
    }
    return 0;
}
