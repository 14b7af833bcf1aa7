/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the values that a tuner may try for each schedule entry of a kernel, and returns the cost
 * that the model predicts for a schedule. */
#include "runtime/api/api_search.h"

#include "codegen/nvptx/ptxas.h"
#include "ir/build.h"
#include "ir/ir_errors.h"
#include "ir/loop_steps.h"
#include "ir/text/ir_text.h"
#include "runtime/api/api_objects.h"
#include "runtime/compile/schedule_proposals.h"
#include "runtime/device/thread_pool.h"
#include "runtime/explain/explain_report.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- sizes that are folded ---- */

typedef struct Folded {
    Func *func;
    bool *vars, *ends; /* by DimVar.id */
} Folded;

static void note_in(const Func *func, Dim dim, bool *vars)
{
    const DimVar *range = dim ? poly_as_range(dim) : NULL;
    for (size_t i = 0; dim && i < func->dimvars.n; i++) {
        bool whole = range && range->axis_extent &&
                     poly_mentions(range->axis_extent, func->dimvars.items[i]);
        bool own = poly_mentions(dim, func->dimvars.items[i]);
        vars[i] = vars[i] || own || whole;
    }
}

static void note_dim(Folded *folded, Dim dim)
{
    note_in(folded->func, dim, folded->vars);
}

/* A loop that ends where a part of another axis does walks as far as that. */
static void note_end(Folded *folded, const Value *value, int depth)
{
    const Op *op = value ? value->def : NULL;
    if (!op || depth == 0) {
        return;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (op->kind == OP_END && op->operands[i]) {
            note_in(folded->func, op->operands[i]->type->dims[0], folded->ends);
        } else {
            note_end(folded, op->operands[i], depth - 1);
        }
    }
}

static void note_axis(Folded *folded, const Op *op, int axis)
{
    Type type = op->operands[0]->type;
    axis = axis < 0 ? axis + type->rank : axis;
    if (axis >= 0 && axis < type->rank) {
        note_dim(folded, type->dims[axis]);
    }
}

static void note_op(Op *op, void *user)
{
    enum { DEPTH = 8 };
    Folded *folded = user;
    switch (op->kind) {
    case OP_REDUCE:
    case OP_SCAN:
    case OP_FOLD: note_axis(folded, op, (int)op_int(op, ATTR_AXIS, 0)); break;
    case OP_SORT:
    case OP_DOT: note_axis(folded, op, -1); break;
    case OP_FOR:
        note_dim(folded, op_attr(op, ATTR_DIMS)->dims[0]);
        note_end(folded, op->operands[0], DEPTH);
        note_end(folded, op->operands[1], DEPTH);
        break;
    case OP_SCATTER: /* many may come to one place */
    case OP_HISTOGRAM:
    case OP_WHILE:
        for (int i = 0; i < op->n_operands; i++) {
            Type type = op->operands[i] ? op->operands[i]->type : NULL;
            for (int axis = 0; type && type->kind == TYPE_ARRAY && axis < type->rank; axis++) {
                note_dim(folded, type->dims[axis]);
            }
        }
        break;
    default: break;
    }
}

/* As the source has it: before any pass. */
static bool find_folded(TesseraKernel *kernel, Folded *folded)
{
    Compilation *c = &kernel->compilation;
    size_t n_diags = c->work->diags.list.n;
    Compilation copy = compilation_copy(c);
    copy.options.target = NULL;
    copy.options.n_lines = 0;
    copy.options.pins = "";
    if (!compile(&copy, (CompileGoal){COMPILE_IR})) {
        return false;
    }
    c->work->diags.list.n = n_diags;
    *folded = (Folded){copy.func, ARENA_ARRAY(&c->work->arena, bool, copy.func->dimvars.n),
                       ARENA_ARRAY(&c->work->arena, bool, copy.func->dimvars.n)};
    block_walk(copy.func->body, note_op, folded);
    return true;
}

static bool has_size(const Func *func, const char *name)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && text_equal(var->name, name)) {
            return true;
        }
    }
    return false;
}

static bool name_folded(TesseraKernel *kernel, TesseraSpace *space)
{
    Folded folded;
    if (!find_folded(kernel, &folded)) {
        return false;
    }
    const Func *func = folded.func;
    Arena *arena = &kernel->compilation.work->arena;
    const char **names = ARENA_ARRAY(arena, const char *, func->dimvars.n);
    const char **ends = ARENA_ARRAY(arena, const char *, func->dimvars.n);
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        if (folded.vars[i] && var->kind == DIM_SIZE) {
            names[space->n_folded++] = var->name;
        } else if (folded.ends[i] && var->kind == DIM_SIZE) {
            ends[space->n_ends++] = var->name;
        }
    }
    space->folded = names;
    space->ends = ends;
    const Compilation *c = &kernel->compilation;
    const char **fixed = ARENA_ARRAY(&c->work->arena, const char *, c->options.n_sizes);
    for (size_t i = 0; i < c->options.n_sizes; i++) {
        if (!has_size(func, c->options.sizes[i].name)) {
            fixed[space->n_fixed++] = c->options.sizes[i].name;
        }
    }
    space->fixed = fixed;
    return true;
}

/* ---- the space ---- */

typedef struct Task {
    TesseraKernel *kernel;
    TesseraSpace *space;
    TesseraPrediction *prediction;
    int threads;
} Task;

/* What decides it: a line that is given for one launch more than one for all. */
static const ScheduleEntry *find_line(const Func *func, const TuneChoice *choice)
{
    const ScheduleEntry *found = NULL;
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &func->schedule->entries.items[i];
        bool its = !line->per_launch || (choice->per_launch && line->launch == choice->launch);
        if (its && text_equal(line->key, choice->key) && text_equal(line->sub, choice->sub) &&
            (!found || line->per_launch)) {
            found = line;
        }
    }
    return found && choice->per_launch ? schedule_for_launch(found, choice->launch) : found;
}

static void add_axis(Compilation *c, const TuneChoice *choice, TesseraSpace *space)
{
    Arena *arena = &c->work->arena;
    const ScheduleEntry *line = find_line(c->func, choice);
    TesseraAxis *axis = (TesseraAxis *)(uintptr_t)&space->axes[space->n_axes];
    char *end;
    if (line && line->origin == ENTRY_COMMAND) {
        space->given =
            arena_printf(arena, "%s%s%s", choice->key, *choice->sub ? " " : "", choice->sub);
        return;
    }
    const char *derived = NULL;
    if (line && line->used) {
        derived =
            line->symbol ? line->symbol : arena_printf(arena, "%lld", (long long)line->number);
    }
    *axis = (TesseraAxis){.key = choice->per_launch ? arena_printf(arena, "launch %d: %s",
                                                                   choice->launch, choice->key)
                                                    : choice->key,
                          .sub = choice->sub,
                          .values = choice->values.items,
                          .n_values = choice->values.n,
                          .derived = derived};
    axis->numbers = choice->values.n > 0 && (strtoll(choice->values.items[0], &end, 10), !*end);
    space->n_axes++;
}

/* Those of a key, those of a launch together. */
static void add_axes(Compilation *c, const TuneChoices *choices, const char *key,
                     TesseraSpace *space)
{
    int last = -1;
    for (int launch = -1; launch <= last; launch++) {
        for (size_t i = 0; i < choices->n; i++) {
            const TuneChoice *choice = &choices->items[i];
            int its = choice->per_launch ? choice->launch : -1;
            last = its > last ? its : last;
            if (its == launch && text_equal(choice->key, key)) {
                add_axis(c, choice, space);
            }
        }
    }
}

static bool space_task(void *user)
{
    Task *task = user;
    Compilation *c = &task->kernel->compilation;
    TesseraSpace *space = task->space;
    size_t n_kinds;
    const ScheduleKey *kinds = schedule_keys(&n_kinds);
    TuneChoices choices = c->choices;
    space->declared = choices.n > 0;
    if (!space->declared) {
        proposals_make(c, task->threads, &choices);
    }
    space->axes = ARENA_ARRAY(&c->work->arena, TesseraAxis, choices.n + 1);
    for (size_t kind = 0; kind < n_kinds; kind++) {
        add_axes(c, &choices, kinds[kind].key, space);
    }
    space->ptxas = c->target->family == FAMILY_NVPTX ? ptxas_find(&c->work->arena) : NULL;
    return name_folded(task->kernel, space);
}

static void reproducer(void *user, Text *out)
{
    compilation_reproducer(&((Task *)user)->kernel->compilation, out);
}

static int threads_of(int threads)
{
    return threads > 0 ? threads : pool_cpus();
}

TesseraStatus tessera_kernel_space(TesseraKernel *kernel, int threads, TesseraSpace *space)
{
    Task task = {.kernel = kernel, .space = space, .threads = threads_of(threads)};
    if (!kernel || !space) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "space" : "kernel");
    }
    *space = (TesseraSpace){0};
    return error_boundary_run(&kernel->work, space_task, reproducer, &task);
}

/* ---- the model ---- */

static uint64_t digest(const Text *text)
{
    return XXH3_64bits(text->data, text->n);
}

/* The lines that change bits, whoever decided them, and what they are for other launches. */
static uint64_t bits_digest(const Func *func)
{
    size_t n;
    const ScheduleKey *kinds = schedule_keys(&n);
    Text text = text_new(func->arena);
    text_add(&text, "");
    for (size_t kind = 0; kind < n && func->schedule; kind++) {
        for (size_t i = 0; i < func->schedule->entries.n && kinds[kind].changes_bits; i++) {
            const ScheduleEntry *line = &func->schedule->entries.items[i];
            if (!text_equal(line->key, kinds[kind].key) || !line->used) {
                continue;
            }
            for (; line; line = line->other) {
                text_printf(&text, "%s %s %s %lld %d;", line->key, line->sub,
                            line->symbol ? line->symbol : "", (long long)line->number,
                            line->launch);
            }
        }
    }
    return digest(&text);
}

/* Of the code: who gave which line, and lines that decide nothing, are no part of it. */
static uint64_t code_digest(Arena *arena, const Text *ir)
{
    static const char line[] = "  line ";
    Text code = text_new(arena);
    for (const char *at = ir->data, *end = at + ir->n; at < end;) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next + 1 : end;
        if (strncmp(at, line, sizeof line - 1) != 0) {
            text_printf(&code, "%.*s", (int)(next - at), at);
        }
        at = next;
    }
    return digest(&code);
}

static bool predict_task(void *user)
{
    Task *task = user;
    Compilation *c = &task->kernel->compilation;
    TesseraPrediction *prediction = task->prediction;
    CodegenOptions options = {.optimize = 0};
    ReportInput input = {.product_flops = c->flops};
    Code code;
    Plan plan;
    Report report;
    Folded folded;
    if (c->stopped || !c->target) {
        diag_failure(&c->work->diags, DIAG_USAGE,
                     "the compilation was stopped after a pass: only its IR is there (--emit ir)");
        return false;
    }
    if (!compilation_emit(c, EMIT_LLVM, &options, &code, &plan) ||
        !find_folded(task->kernel, &folded)) {
        return false;
    }
    input.func = c->func;
    input.plan = &plan;
    input.source = c->source;
    input.sizes = sizes_by_id(c->func, c->options.sizes, c->options.n_sizes);
    report_make_brief(&input, &report);
    Predicted predicted = report_predict(&report, task->threads);
    Text ir = text_new(&c->work->arena), lines = text_new(&c->work->arena),
         steps = text_new(&c->work->arena);
    print_func(c->func, &ir);
    schedule_print(c->func, false, &lines);
    steps_words(folded.func, c->func, folded.vars, &steps);
    const char *why = report_misfit(&report);
    *prediction = (TesseraPrediction){.fits = !why,
                                      .why = why,
                                      .seconds = predicted.seconds,
                                      .roof = report.card ? predicted.roof : 0,
                                      .code = code_digest(&c->work->arena, &ir),
                                      .bits = bits_digest(c->func),
                                      .steps = steps.data,
                                      .lines = lines.n ? lines.data : ""};
    return true;
}

TesseraStatus tessera_kernel_predict(TesseraKernel *kernel, int threads,
                                     TesseraPrediction *prediction)
{
    Task task = {.kernel = kernel, .prediction = prediction, .threads = threads_of(threads)};
    if (!kernel || !prediction) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "prediction" : "kernel");
    }
    *prediction = (TesseraPrediction){0};
    return error_boundary_run(&kernel->work, predict_task, reproducer, &task);
}

typedef struct CountTask {
    TesseraKernel *kernel;
    const TesseraSize *sizes;
    size_t n_sizes;
    double *work;
} CountTask;

static bool work_task(void *user)
{
    CountTask *task = user;
    *task->work = func_work(task->kernel->compilation.func, task->sizes, task->n_sizes);
    return true;
}

TesseraStatus tessera_kernel_work(TesseraKernel *kernel, const TesseraSize *sizes, size_t n_sizes,
                                  double *work)
{
    CountTask task = {kernel, sizes, n_sizes, work};
    const char *null = NULL_ARGUMENT({kernel, "kernel"}, {work, "work"},
                                     {n_sizes > 0 ? (const void *)sizes : "", "sizes"});
    if (null) {
        return context_null(kernel ? kernel->work.context : NULL, __func__, null);
    }
    return error_boundary_run(&kernel->work, work_task, NULL, &task);
}

TesseraStatus tessera_kernel_make(TesseraKernel *kernel)
{
    return kernel ? kernel_make_code(kernel, kernel_kind(kernel))
                  : context_null(NULL, __func__, "kernel");
}

bool tessera_code_is_room(const char *code)
{
    int number = code && code[0] ? atoi(code + 1) : 0;
    return number == ERR_SHARED_MEMORY || number == ERR_REGISTERS || number == ERR_BLOCKS ||
           number == ERR_STACK || number == ERR_WARPS;
}
