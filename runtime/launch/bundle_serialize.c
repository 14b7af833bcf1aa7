/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the table of a bundle: kernels, variants, plans and machine code. Machine code
 * is aligned so that drivers can read it in place. */
#include "runtime/launch/bundle_format.h"

#include "runtime/device/plan_bytes.h"
#include "runtime/device/serialize.h"

/* Drivers read code objects where they lie: as aligned as memory of their own would be, in a table
 * that is. */
enum { BYTES_ALIGN = 64 };

static void pass_gap(Serializer *way)
{
    int gap = 0;
    if (way->out) {
        gap = (int)(-(way->out->n + sizeof(int64_t)) % BYTES_ALIGN);
    }
    serialize_int(way, &gap, 0, BYTES_ALIGN - 1);
    if (way->out) {
        text_repeat(way->out, '\0', gap);
        return;
    }
    bool fits = gap <= way->end - way->at;
    way->bad |= !fits;
    way->at += fits ? gap : 0;
}

/* Bytes of any kind, and a zero: they are used where they lie. */
static void pass_bytes(Serializer *way, const char **bytes, size_t *size)
{
    int64_t n = (int64_t)*size;
    serialize_i64(way, &n);
    pass_gap(way);
    if (way->out) {
        text_add_n(way->out, *bytes ? *bytes : "", *size);
        text_char(way->out, '\0');
        return;
    }
    bool fits = n >= 0 && n < way->end - way->at && way->at[n] == '\0';
    way->bad |= !fits;
    *bytes = fits ? way->at : "";
    *size = fits ? (size_t)n : 0;
    way->at += fits ? n + 1 : 0;
}

/* A text that is always there. */
static void pass_name(Serializer *way, const char **text)
{
    serialize_text(way, text);
    if (!*text) {
        way->bad = true;
        *text = "";
    }
}

static void pass_function(Serializer *way, BundleFunction *function)
{
    pass_name(way, &function->name);
    pass_name(way, &function->kernel);
    function->sizes =
        serialize_items(way, function->sizes, &function->n_sizes, sizeof *function->sizes);
    for (int i = 0; i < function->n_sizes; i++) {
        pass_name(way, &function->sizes[i]);
    }
}

static bool names_symbols(const Plan *plan)
{
    bool all = true;
    for (int i = 0; i < plan->n_launches; i++) {
        all = all && plan->launches[i].symbol;
    }
    for (int i = 0; i < plan->n_sizes; i++) {
        all = all && plan->sizes[i].name && plan->sizes[i].multiple > 0;
    }
    for (int i = 0; i < plan->n_params; i++) {
        all = all && plan->params[i].name;
    }
    return all;
}

static void pass_table(Serializer *way, BundleTable *table, int n_code)
{
    pass_name(way, &table->name);
    table->functions =
        serialize_items(way, table->functions, &table->n_functions, sizeof *table->functions);
    for (int i = 0; i < table->n_functions; i++) {
        pass_function(way, &table->functions[i]);
    }
    table->variants =
        serialize_items(way, table->variants, &table->n_variants, sizeof *table->variants);
    for (int i = 0; i < table->n_variants; i++) {
        BundleVariant *variant = &table->variants[i];
        int kind = (int)variant->kind;
        serialize_int(way, &variant->function, 0, table->n_functions - 1);
        pass_name(way, &variant->target);
        pass_name(way, &variant->about);
        serialize_int(way, &kind, 0, BUNDLE_KINDS - 1);
        variant->kind = (BundleKind)kind;
        serialize_int(way, &variant->first, 0, n_code);
        Plan *plan = &variant->plan;
        const char *bytes = NULL;
        size_t n = 0;
        if (way->out) {
            Text text = text_new(way->out->arena);
            plan_to_bytes(plan, &text);
            bytes = text.data;
            n = text.n;
        }
        pass_bytes(way, &bytes, &n);
        if (!way->out && !plan_from_bytes(way->arena, bytes, n, plan)) {
            way->bad = true;
            *plan = (Plan){.kernel = "", .target = ""};
        }
        pass_bytes(way, &variant->code, &variant->n);
        if (!way->out) {
            bool inside =
                variant->kind != BUNDLE_HOST || variant->plan.n_launches <= n_code - variant->first;
            way->bad |= !inside || !names_symbols(&variant->plan);
        }
    }
}

void bundle_to_bytes(const BundleTable *table, Text *out)
{
    Serializer way = {.out = out};
    BundleTable copy = *table;
    pass_table(&way, &copy, INT32_MAX);
}

bool bundle_from_bytes(Arena *arena, const char *bytes, size_t n, uint64_t n_code,
                       BundleTable *table)
{
    Serializer way = {.at = bytes, .end = bytes + n, .arena = arena};
    *table = (BundleTable){0};
    pass_table(&way, table, n_code < INT32_MAX ? (int)n_code : INT32_MAX);
    return !way.bad && way.at == way.end;
}
