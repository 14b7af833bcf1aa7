/* SPDX-License-Identifier: Apache-2.0 */
/* The values of options that have a syntax of their own: NAME=VALUE, sizes and ranges of sizes,
 * facts about sizes, strides. --variant of a bundle has pieces of all four kinds. */
#include "cli/cli_diagnostics.h"
#include "cli/options.h"
#include "cli/session_memory.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *name_before(const char *text, char separator)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_') {
        n++;
    }
    bool named = n > 0 && text[n] == separator && !isdigit((unsigned char)text[0]);
    return named ? session_text(text, n) : NULL;
}

static int given_twice(FailCode code, const char *option, const char *name)
{
    return fail_code(code, TESSERA_USAGE, "%s: %.60s is given twice", option, name);
}

/* Adds NAME=VALUE, whose value begins after the name. */
static int add_pair(FailCode code, const char *option, char *name, const char *text, Pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++) {
        if (strcmp(pairs->items[i].name, name) == 0) {
            return given_twice(code, option, name);
        }
    }
    pairs->items = session_grow(pairs->items, pairs->n, sizeof *pairs->items);
    pairs->items[pairs->n++] = (TesseraPair){name, text + strlen(name) + 1};
    return 0;
}

int set_read(const char *option, const char *piece, Options *options)
{
    char *name = name_before(piece, '=');
    if (!name || !piece[strlen(name) + 1]) {
        return fail_code(FAIL_SET, TESSERA_USAGE, "%s %.60s: expected NAME=VALUE", option, piece);
    }
    return add_pair(FAIL_SET, option, name, piece, &options->sets);
}

bool size_parse(const char **at, int64_t *size)
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

/* Parses a size (`last` is -1) or a range of sizes. */
static bool parse_range(const char *text, SizeRange *range)
{
    *range = (SizeRange){.last = -1, .factor = 2};
    if (!size_parse(&text, &range->first)) {
        return false;
    }
    if (strncmp(text, "..", 2) == 0) {
        text += 2;
        if (!size_parse(&text, &range->last) || range->last < range->first) {
            return false;
        }
        if (text[0] == ':' && (text[1] == 'x' || text[1] == '+')) {
            bool times = text[1] == 'x';
            text += 2;
            range->factor = 0;
            if (!size_parse(&text, times ? &range->factor : &range->step) ||
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
    if (!name || !parse_range(piece + strlen(name) + 1, &range)) {
        return fail_code(FAIL_SIZE, TESSERA_USAGE,
                         "%s %.60s: expected NAME=NUMBER, from 0 to 2^63 - 1, as 1000 or 4k; bench "
                         "takes ranges as M=1k..16k:x2 and M=512..4k:+512",
                         option, piece);
    }
    if (has_size(options, name)) {
        return given_twice(FAIL_SIZE, option, name);
    }
    if (range.last >= 0) {
        range.name = name;
        options->ranges.items =
            session_grow(options->ranges.items, options->ranges.n, sizeof *options->ranges.items);
        options->ranges.items[options->ranges.n++] = range;
        return 0;
    }
    options->sizes.items =
        session_grow(options->sizes.items, options->sizes.n, sizeof *options->sizes.items);
    options->sizes.items[options->sizes.n++] = (TesseraSize){name, range.first};
    return 0;
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

/* Parses a number of at least 0 and moves *at behind it; returns NULL, or the mistake. */
static const char *parse_bound(const char **at, int64_t *number)
{
    char *end;
    const char *from = *at + strspn(*at, " ");
    errno = 0;
    *number = strtoll(from, &end, 10);
    if (end == from || !isdigit((unsigned char)*from)) {
        return "expected a number of at least 0";
    }
    *at = end + strspn(end, " ");
    return errno ? "numbers must be below 2^63" : NULL;
}

/* Parses the relation that follows the name; returns NULL, or the mistake at *at. */
static const char *parse_relation(const char **at, TesseraFact *fact)
{
    int64_t zero = 0;
    if (skip_word(at, ">=")) {
        return parse_bound(at, &fact->least);
    }
    if (skip_word(at, "<=")) {
        const char *wrong = parse_bound(at, &fact->most);
        bool empty = !wrong && fact->most == 0;
        return empty ? "a size that is at most 0 is always 0" : wrong;
    }
    if (!skip_word(at, "%")) {
        const char *from = *at + strspn(*at, " ");
        if (*from == '<' || *from == '>') {
            return "there are only `<=` and `>=`, no `<` or `>`";
        }
        if (*from == '=') {
            return "a known size is given with --size";
        }
        return "expected `%`, `<=` or `>=`";
    }
    const char *wrong = parse_bound(at, &fact->multiple);
    if (wrong || fact->multiple == 0) {
        return wrong ? wrong : "nothing is a multiple of 0";
    }
    wrong = skip_word(at, "==") ? parse_bound(at, &zero) : "expected `== 0`";
    if (wrong) {
        return wrong;
    }
    if (zero) {
        return "only multiples can be assumed: `== 0`";
    }
    return NULL;
}

int fact_read(const char *option, const char *piece, Options *options)
{
    const char *start = piece + strspn(piece, " "), *at = start;
    TesseraFact fact = {0};
    while (isalnum((unsigned char)*at) || *at == '_') {
        at++;
    }
    fact.name = session_text(start, (size_t)(at - start));
    const char *wrong = at == start ? "expected the name of a size" : parse_relation(&at, &fact);
    wrong = !wrong && *at ? "facts are separated by commas" : wrong;
    if (wrong) {
        at += strspn(at, " ");
        return fail_code(FAIL_ASSUME, TESSERA_USAGE,
                         "%s \"%.60s\"%s%.30s%s: %s; like N %% 16 == 0, N <= 4096 or N >= 1",
                         option, start, *at ? ", at \"" : "", at, *at ? "\"" : "", wrong);
    }
    options->facts.items =
        session_grow(options->facts.items, options->facts.n, sizeof *options->facts.items);
    options->facts.items[options->facts.n++] = fact;
    return 0;
}

int strides_read(const char *option, const char *text, Options *options)
{
    char *name = name_before(text, '=');
    if (!name || !text[strlen(name) + 1]) {
        return fail_code(FAIL_STRIDES, TESSERA_USAGE,
                         "%s %.60s: expected NAME=STRIDES, like \"x=*8,1\"", option, text);
    }
    return add_pair(FAIL_STRIDES, option, name, text, &options->strides);
}

bool size_range_next(const SizeRange *range, int64_t *value)
{
    int64_t next;
    bool over = range->factor ? __builtin_mul_overflow(*value, range->factor, &next)
                              : __builtin_add_overflow(*value, range->step, &next);
    over = over || next > range->last || next == *value;
    *value = over ? range->first : next;
    return !over;
}
