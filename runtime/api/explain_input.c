/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the inputs of a report: the plan, the output of the assembler, sizes, and for the HTML
 * page the code in all its forms. */
#include "runtime/api/api_hints.h"

#include "codegen/plan/plan_builder.h"
#include "runtime/context/compiler_context.h"

#include <stdlib.h>
#include <string.h>

/* ---- listings ---- */

static void add_listing(Compilation *c, Listings *listings, const char *name, const Code *code)
{
    Arena *arena = &c->work->arena;
    Listing listing = {.name = name, .text = arena_strndup(arena, code->bytes, code->n)};
    listing_lines_of_code(arena, c->name, &listing);
    ARENA_PUSH(arena, listings, listing);
}

/* ---- registers ---- */

/* The number after `key` in [at, end), or 0. */
static int number_after(const char *at, const char *end, const char *key)
{
    const char *found = strstr(at, key);
    return found && found < end ? (int)strtol(found + strlen(key), NULL, 10) : 0;
}

static const char *name_at(Arena *arena, const char *at, const char *ends)
{
    return arena_strndup(arena, at, strcspn(at, ends));
}

/* "Compiling entry function 'name' for …", then "8 bytes spill stores", "Used 40 registers". */
static void read_ptxas(Arena *arena, const char *log, ReportInput *input)
{
    enum { LEAST = 16 };
    static const char entry[] = "Compiling entry function '", used[] = "Used ";
    static const char spilled[] = "bytes stack frame, ";
    for (const char *at = strstr(log, entry); at;) {
        const char *next = strstr(at + 1, entry), *end = next ? next : at + strlen(at);
        int named = number_after(at, end, used); /* a launch has at least 16 a thread */
        AssemblerInfo one = {.symbol = name_at(arena, at + strlen(entry), "'"),
                             .registers = named > 0 && named < LEAST ? LEAST : named,
                             .spilled = number_after(at, end, spilled)};
        ARENA_PUSH(arena, &input->assembled, one);
        at = next;
    }
}

/* The notes at the end of AMD's assembly: a list with an item a kernel, keys in order. */
static void read_notes(Arena *arena, const char *text, ReportInput *input)
{
    static const char item[] = "\n  - .a";
    const char *list = strstr(text, "amdhsa.kernels:");
    for (const char *at = list ? strstr(list, item) : NULL; at;) {
        const char *next = strstr(at + 1, item), *end = next ? next : at + strlen(at);
        const char *symbol = strstr(at, ".symbol:");
        symbol = symbol && symbol < end ? symbol + strlen(".symbol:") : "";
        symbol += strspn(symbol, " '\"");
        AssemblerInfo one = {.symbol = name_at(arena, symbol, ".'\"\n"),
                             .registers = number_after(at, end, ".vgpr_count:"),
                             .scalars = number_after(at, end, ".sgpr_count:"),
                             .shared = number_after(at, end, ".group_segment_fixed_size:"),
                             .spilled = 4 * number_after(at, end, ".vgpr_spill_count:")};
        ARENA_PUSH(arena, &input->assembled, one);
        at = next;
    }
}

/* ---- the report ---- */

static bool emit(Compilation *c, EmitKind kind, bool lines, Code *code, Plan *plan)
{
    CodegenOptions options = compilation_codegen(c);
    options.lines = lines;
    return compilation_emit(c, kind, &options, code, plan);
}

/* The plan, and the machine's text where there is one. Without the code generator all is reported
 * but what the assembler says. */
static bool add_code(Compilation *c, bool listed, ReportInput *input, Plan *plan)
{
    CodegenOptions options = compilation_codegen(c);
    Code text, llvm, log;
    TargetFamily family = c->target->family;
    const char *why;
    const CodegenTable *codegen = codegen_find(&c->work->arena, &why);
    if (!codegen) {
        context_log(c->work->context, TESSERA_LOG_INFO, "explained without code: %s", why);
        plan_fill_without_code(c->func, plan);
        return true;
    }
    if (listed && (!emit(c, EMIT_LLVM, true, &llvm, plan))) {
        return false;
    }
    if (!emit(c, family == FAMILY_NVPTX ? EMIT_PTX : EMIT_ASM, listed, &text, plan)) {
        return false;
    }
    bool has_info = family == FAMILY_NVPTX && codegen->ptxas_info(c->func, &options, &text, &log);
    PtxasRelief relief = {0};
    while (has_info && codegen->ptxas_relieve(c->func, &relief, &log)) { /* what EMIT_CUBIN does */
        if (!emit(c, EMIT_PTX, listed, &text, plan)) {
            return false;
        }
        has_info = codegen->ptxas_info(c->func, &options, &text, &log);
    }
    if (listed) {
        add_listing(c, &input->listings, "LLVM", &llvm);
        add_listing(c, &input->listings, family == FAMILY_NVPTX ? "PTX" : "assembly", &text);
    }
    if (has_info) {
        read_ptxas(&c->work->arena, log.bytes, input);
    } else if (family == FAMILY_AMDGCN) {
        read_notes(&c->work->arena, arena_strndup(&c->work->arena, text.bytes, text.n), input);
    }
    return true;
}

/* A launch would refuse sizes that make an extent negative, as a window that is larger than its
 * tensor. */
static bool check_extents(Diags *diags, Func *func, const int64_t *sizes)
{
    for (size_t i = 0; i < func->params.n; i++) {
        Type type = param_given(&func->params.items[i]);
        for (int axis = 0; type->kind == TYPE_TENSOR && axis < type->rank; axis++) {
            bool known = true;
            for (size_t k = 0; k < func->dimvars.n; k++) {
                known = known &&
                        (sizes[k] >= 0 || !poly_mentions(type->dims[axis], func->dimvars.items[k]));
            }
            int64_t extent = 0;
            if (known && (!poly_eval(type->dims[axis], sizes, &extent) || extent < 0)) {
                diag_failure(diags, DIAG_SOURCE, "axis %d of '%s' overflows or is negative", axis,
                             func->params.items[i].name);
                return false;
            }
        }
    }
    return sizes_fit_memory(func, sizes); /* an intermediate */
}

bool explain_input(Compilation *c, bool listed, ReportInput *input, Plan *plan)
{
    input->product_flops = c->flops;
    input->plan = plan;
    if (!add_code(c, listed, input, plan)) {
        return false;
    }
    input->func = c->func;
    input->source = c->source;
    input->sizes = sizes_by_id(c->func, c->options.sizes, c->options.n_sizes);
    return check_extents(&c->work->diags, c->func, input->sizes);
}
