/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses what `tessera check` tries: element types for generics, values for constants, and sizes
 * that leave partial tiles. */
#include "cli/commands/cmd_check.h"
#include "cli/options.h"
#include "cli/session.h"

#include "runtime/api/api_search.h"

#include <stdlib.h>
#include <string.h>

/* ---- types and constants ---- */

static const struct {
    const char *class;
    const char *types[2];
} CLASSES[] = {
    {"float", {"f32", "bf16"}},
    {"int", {"i32", "u8"}},
    {"number", {"f32", "i32"}},
    {"any", {"f32", "i32"}},
};

static bool is_set(const Options *options, const char *name)
{
    for (size_t i = 0; i < options->sets.n; i++) {
        if (strcmp(options->sets.items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_open(const Options *options, const TesseraParam *param)
{
    return param->is_const && !param->fallback && !is_set(options, param->name);
}

size_t check_variants(const TesseraSignature *signature, const Options *options)
{
    for (size_t i = 0; i < signature->n_generics; i++) {
        if (!is_set(options, signature->generics[i])) {
            return 2;
        }
    }
    for (size_t i = 0; i < signature->n_params; i++) {
        if (is_open(options, &signature->params[i])) {
            return 2;
        }
    }
    for (size_t i = 0; i < signature->n_choices; i++) {
        if (!is_set(options, signature->choices[i].size)) {
            return 2;
        }
    }
    return 1;
}

static void add_pair(TesseraPair **pairs, size_t *n, const char *name, const char *value)
{
    *pairs = session_grow(*pairs, *n, sizeof **pairs);
    (*pairs)[(*n)++] = (TesseraPair){name, value};
}

static const char *type_for(const char *class, size_t variant)
{
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
        if (strcmp(CLASSES[i].class, class) == 0) {
            return CLASSES[i].types[variant % 2];
        }
    }
    return "f32";
}

/* Takes one of the two smallest values, because large ones take the interpreter long. */
static const char *choice_for(const TesseraChoice *choice, size_t variant)
{
    char text[32];
    int64_t value = choice->values[variant % (choice->n < 2 ? choice->n : 2)];
    return session_text(text, (size_t)snprintf(text, sizeof text, "%lld", (long long)value));
}

int check_bindings(const TesseraSignature *signature, const Options *options, size_t variant,
                   TesseraPair **pairs, size_t *n)
{
    *pairs = NULL;
    *n = 0;
    for (size_t i = 0; i < options->sets.n; i++) {
        add_pair(pairs, n, options->sets.items[i].name, options->sets.items[i].value);
    }
    for (size_t i = 0; i < signature->n_generics; i++) {
        if (!is_set(options, signature->generics[i])) {
            add_pair(pairs, n, signature->generics[i], type_for(signature->classes[i], variant));
        }
    }
    for (size_t i = 0; i < signature->n_params; i++) {
        const TesseraParam *param = &signature->params[i];
        if (!is_open(options, param)) {
            continue;
        }
        if (strcmp(param->type, "bool") != 0) {
            return fail_code(FAIL_NOT_GIVEN, TESSERA_USAGE,
                             "%s: constant '%s' has no default: --set %s=VALUE", signature->name,
                             param->name, param->name);
        }
        add_pair(pairs, n, param->name, variant % 2 ? "true" : "false");
    }
    for (size_t i = 0; i < signature->n_choices; i++) {
        if (!is_set(options, signature->choices[i].size)) {
            add_pair(pairs, n, signature->choices[i].size,
                     choice_for(&signature->choices[i], variant));
        }
    }
    return 0;
}

/* ---- sizes ---- */

/* MAX_ELEMENTS limits the product of all sizes, and MAX_WORK the elements that the program
 * computes, so that the interpreter takes seconds. Sizes with HOPELESS times that work are left
 * out. */
enum { PLACES = 4, MAX_ELEMENTS = 1 << 18, MAX_WORK = 1 << 23, HOPELESS = 32 };

static const int64_t VALUES[CHECK_ROUNDS][PLACES] = {
    {1, 1, 1, 1},      {7, 5, 11, 3},     {64, 128, 32, 16}, {65, 33, 129, 17},
    {63, 127, 31, 64}, {3, 1000, 130, 9}, {0, 2, 5, 33},
};

/* The nearest size that the facts allow. */
static int64_t allowed(const TesseraFact *fact, int64_t value)
{
    int64_t multiple = fact->multiple > 1 ? fact->multiple : 1;
    value = value < fact->least ? fact->least : value;
    value = value / multiple * multiple + (value % multiple ? multiple : 0);
    if (fact->most > 0 && value > fact->most) {
        value = fact->most / multiple * multiple;
    }
    return value;
}

static bool is_given(const Options *options, const char *name, int64_t *value)
{
    for (size_t i = 0; i < options->sizes.n; i++) {
        if (strcmp(options->sizes.items[i].name, name) == 0) {
            *value = options->sizes.items[i].value;
            return true;
        }
    }
    return false;
}

/* The product of the sizes and of the bound values. */
static double elements_of(const Options *options, const TesseraSize *sizes, size_t n)
{
    double product = 1;
    for (size_t i = 0; i < n; i++) {
        product *= sizes[i].value > 1 ? (double)sizes[i].value : 1;
    }
    for (size_t i = 0; i < options->sets.n; i++) {
        double bound = strtod(options->sets.items[i].value, NULL);
        product *= bound > 1 ? bound : 1;
    }
    return product;
}

/* Halves the first size that may be smaller, because the last axes have the partial tiles. */
static bool shrink(const TesseraFact *facts, size_t n, const Options *options, TesseraSize *sizes)
{
    for (size_t i = 0; i < n; i++) {
        int64_t fixed, half = allowed(&facts[i], sizes[i].value / 2 + 1);
        if (!is_given(options, sizes[i].name, &fixed) && half < sizes[i].value) {
            sizes[i].value = half;
            return true;
        }
    }
    return false;
}

static bool is_work(TesseraKernel *kernel, const TesseraSize *sizes, size_t n, double most)
{
    double work = 0;
    return tessera_kernel_work(kernel, sizes, n, &work) == TESSERA_OK && work > most;
}

bool check_hopeless(TesseraKernel *kernel, const Options *options, const TesseraSize *sizes,
                    size_t n)
{
    int64_t value;
    size_t given = 0;
    for (size_t i = 0; i < n; i++) {
        given += is_given(options, sizes[i].name, &value);
    }
    return given < n && is_work(kernel, sizes, n, (double)HOPELESS * MAX_WORK);
}

void check_sizes(TesseraKernel *kernel, const TesseraFact *facts, size_t n, const Options *options,
                 int round, TesseraSize *sizes)
{
    for (size_t i = 0; i < n; i++) {
        sizes[i] = (TesseraSize){facts[i].name, allowed(&facts[i], VALUES[round][i % PLACES])};
        is_given(options, sizes[i].name, &sizes[i].value);
    }
    while ((elements_of(options, sizes, n) > MAX_ELEMENTS || is_work(kernel, sizes, n, MAX_WORK)) &&
           shrink(facts, n, options, sizes)) {}
}

/* ---- sizes that no tensor determines ---- */

static bool is_letter(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Finds the next name in an extent such as "2*H + K" and returns its length; 0 if there is none. */
static size_t next_name(const char **at)
{
    size_t n = 0;
    while (**at && (!is_letter(**at) || (**at >= '0' && **at <= '9'))) {
        bool number = is_letter(**at);
        ++*at;
        while (number && is_letter(**at)) {
            ++*at;
        }
    }
    while (is_letter((*at)[n])) {
        n++;
    }
    return n;
}

/* The only size in the extent that is not among the first `known` ones, which the extent therefore
 * determines; n if there is none. */
static size_t determined_size(const char *dim, const TesseraSize *sizes, size_t known, size_t n)
{
    size_t found = n, length;
    for (const char *at = dim; (length = next_name(&at)) > 0; at += length) {
        for (size_t i = known; i < n; i++) {
            bool is = strlen(sizes[i].name) == length && memcmp(sizes[i].name, at, length) == 0;
            if (is && found < n) {
                return n; /* two unknown sizes, or a square */
            }
            found = is ? i : found;
        }
    }
    return strstr(dim, "//") ? n : found;
}

static bool determine_one(const TesseraSignature *signature, TesseraSize *sizes, size_t *known,
                          size_t n)
{
    for (size_t i = 0; i < signature->n_params; i++) {
        const TesseraParam *param = &signature->params[i];
        for (int axis = 0; axis < param->rank; axis++) {
            size_t found = determined_size(param->dims[axis], sizes, *known, n);
            if (found < n) {
                TesseraSize swapped = sizes[found];
                sizes[found] = sizes[*known];
                sizes[(*known)++] = swapped;
                return true;
            }
        }
    }
    return false;
}

size_t check_undetermined(const TesseraSignature *signature, TesseraSize *sizes, size_t n)
{
    size_t known = 0;
    while (known < n && determine_one(signature, sizes, &known, n)) {}
    memmove(sizes, sizes + known, (n - known) * sizeof *sizes);
    return n - known;
}
