/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the inputs of a report: the schedule, the plan, the output of the assembler; for the
 * HTML page also the IR after each pass, from a second compilation, and the code in all its forms.
 */
#include "runtime/api/api_objects.h"

#include "codegen/plan/plan_builder.h"
#include "ir/text/ir_text.h"
#include "passes/nest/nest_source.h"
#include "runtime/explain/explain_report.h"

#include <stdlib.h>
#include <string.h>

typedef struct Task {
    TesseraKernel *kernel;
    TesseraExplain form;
    TesseraBytes *bytes;
    const Report *other; /* to compare with; NULL: none */
    Report *report;      /* the result, in the kernel's arena */
} Task;

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
static void read_ptxas(Arena *arena, const char *said, ReportInput *input)
{
    enum { LEAST = 16 };
    static const char entry[] = "Compiling entry function '", used[] = "Used ";
    static const char spilled[] = "bytes stack frame, ";
    for (const char *at = strstr(said, entry); at;) {
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
    Code text, llvm, said;
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
    if (listed) {
        add_listing(c, &input->listings, "LLVM", &llvm);
        add_listing(c, &input->listings, family == FAMILY_NVPTX ? "PTX" : "assembly", &text);
    }
    if (family == FAMILY_NVPTX && codegen->ptxas_info(c->func, &options, &text, &said)) {
        read_ptxas(&c->work->arena, said.bytes, input);
    } else if (family == FAMILY_AMDGCN) {
        read_notes(&c->work->arena, arena_strndup(&c->work->arena, text.bytes, text.n), input);
    }
    return true;
}

/* The same again, telling of each pass; what it warns of was told the first time. */
static bool compile_again(Compilation *c, Compilation *again, Listings *listings)
{
    size_t told = c->work->diags.list.n;
    *again = compilation_again(c);
    again->pinned = pins_again(&c->pinned);
    again->record = listings;
    bool good = compile(again, (CompileGoal){COMPILE_IR});
    if (good) {
        c->work->diags.list.n = told;
    }
    return good;
}

/* The launches as source, as they are once `tile` has run. */
static bool explain_nest(const Task *task)
{
    Compilation again = compilation_again(&task->kernel->compilation);
    size_t told = task->kernel->work.diags.list.n;
    NestSource nest = {0};
    Text out = text_new(&task->kernel->work.arena);
    again.pinned = pins_again(&task->kernel->compilation.pinned);
    again.nest = &nest;
    if (!compile(&again, (CompileGoal){COMPILE_IR})) {
        return false;
    }
    task->kernel->work.diags.list.n = told;
    nest_finish(again.func, &nest, &out);
    *task->bytes = (TesseraBytes){out.data, out.n};
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

static bool make_report(Task *task)
{
    TesseraKernel *kernel = task->kernel;
    Arena *arena = &kernel->work.arena;
    Compilation *c = &kernel->compilation;
    bool listed = task->form == TESSERA_EXPLAIN_HTML;
    ReportInput *input = ARENA_NEW(arena, ReportInput);
    Plan *plan = ARENA_NEW(arena, Plan);
    *input = (ReportInput){.product_flops = c->flops, .plan = plan};
    if (listed) {
        Compilation *again = ARENA_NEW(arena, Compilation);
        if (!compile_again(c, again, &input->listings)) {
            return false;
        }
        c = again;
    }
    if (!add_code(c, listed, input, plan)) {
        return false;
    }
    input->func = c->func;
    input->source = c->source;
    input->sizes = sizes_by_id(c->func, c->options.sizes, c->options.n_sizes);
    if (!check_extents(&kernel->work.diags, c->func, input->sizes)) {
        return false;
    }
    input->schedule = schedule_block(c, true);
    input->variant = plan_facts(c->func->arena, plan, usual_align(c->target));
    task->report = ARENA_NEW(arena, Report);
    report_make(input, task->report);
    task->report->other = task->other;
    return true;
}

static bool explain_task(void *user)
{
    Task *task = user;
    Compilation *c = &task->kernel->compilation;
    if (c->stopped || !c->target) {
        diag_failure(&task->kernel->work.diags, DIAG_USAGE,
                     "the compilation was stopped after a pass: only its IR is there (--emit ir)");
        return false;
    }
    if (task->form == TESSERA_EXPLAIN_NEST) {
        return explain_nest(task);
    }
    if (!make_report(task)) {
        return false;
    }
    if (!task->bytes) {
        return true;
    }
    Text out = text_new(&task->kernel->work.arena);
    switch (task->form) {
    case TESSERA_EXPLAIN_JSON: report_json(task->report, &out); break;
    case TESSERA_EXPLAIN_HTML: report_html(task->report, &out); break;
    default: report_text(task->report, &out); break;
    }
    *task->bytes = (TesseraBytes){out.data, out.n};
    return true;
}

static void reproducer(void *user, Text *out)
{
    compilation_reproducer(&((Task *)user)->kernel->compilation, out);
}

TesseraStatus tessera_kernel_explain(TesseraKernel *kernel, TesseraExplain form,
                                     TesseraBytes *bytes)
{
    REFUSE_FREED(kernel);
    Task task = {.kernel = kernel, .form = form, .bytes = bytes};
    if (!kernel || !bytes) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "bytes" : "kernel");
    }
    if (form > TESSERA_EXPLAIN_NEST) {
        return context_usage(kernel->work.context, "explain: no form %d", (int)form);
    }
    *bytes = (TesseraBytes){"", 0};
    return error_boundary_run(&kernel->work, explain_task, reproducer, &task);
}

TesseraStatus tessera_kernel_compare(TesseraKernel *kernel, TesseraKernel *other,
                                     TesseraBytes *bytes)
{
    REFUSE_FREED(kernel);
    REFUSE_FREED(other);
    Task task = {.kernel = kernel, .form = TESSERA_EXPLAIN_HTML, .bytes = bytes};
    if (!kernel || !other || !bytes) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            !kernel  ? "kernel"
                            : !other ? "other"
                                     : "bytes");
    }
    *bytes = (TesseraBytes){"", 0};
    Task second = {.kernel = other, .form = TESSERA_EXPLAIN_HTML};
    TesseraStatus status = error_boundary_run(&other->work, explain_task, reproducer, &second);
    if (status != TESSERA_OK) {
        return status;
    }
    task.other = second.report;
    return error_boundary_run(&kernel->work, explain_task, reproducer, &task);
}
