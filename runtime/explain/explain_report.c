/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the report of `tessera explain` from the final IR, the launch plan and the machine code.
 * The text, JSON and HTML writers only format this report. */
#include "runtime/explain/explain_report.h"

#include <math.h>

#include "ir/build.h"
#include "ir/bulk_tile.h"
#include "ir/layout/matrix_instr.h"
#include "runtime/device/device_launch.h"
#include "runtime/explain/explain_access.h"
#include "runtime/explain/explain_occupancy.h"
#include "runtime/explain/explain_words.h"
#include "runtime/explain/load_dedup.h"
#include "runtime/explain/warp_request.h"
#include "support/int_math.h"

static const char *const TRAFFIC[N_TRAFFIC] = {
    "load",          "store",     "atomic",     "shared load", "shared store",
    "shared atomic", "bulk load", "bulk store", "copy",
};
static const char *const LIMITS[N_LIMIT] = {"warps", "blocks", "registers", "shared memory",
                                            "the grid"};

const char *traffic_name(Traffic kind)
{
    return TRAFFIC[kind];
}

bool traffic_is_shared(Traffic kind)
{
    return kind >= SHARED_LOADS && kind <= SHARED_ATOMICS;
}

bool traffic_is_bulk(Traffic kind)
{
    return kind == BULK_LOADS || kind == BULK_STORES;
}

const char *limit_name(Limit limit)
{
    return LIMITS[limit];
}

double launch_total(const LaunchReport *launch, Traffic kind, size_t field)
{
    double sum = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        if (at->kind == kind) {
            sum += *(const double *)(const void *)((const char *)at + field);
        }
    }
    return sum;
}

/* ---- lists ---- */

typedef struct Lister {
    const Report *report;
    LaunchReport *launch;
} Lister;

static int line_of(const Report *report, const Op *op)
{
    /* An op that the compiler added has the source location of the value that it moves. */
    const Op *user = op;
    enum { MAX_STEPS = 8 };
    for (int i = 0; i < MAX_STEPS && user->span.source < 0 && user->n_operands > 0; i++) {
        const Value *moved = user->operands[i ? 0 : user->n_operands - 1];
        if (!moved || !moved->def) {
            break;
        }
        user = moved->def;
    }
    Span span = user->span;
    bool here = span.source >= 0 && span.source == report->input->source;
    return here ? diag_source_loc(report->input->func->diags, span).line : 0;
}

static const char *memory_words(const Func *func, const Value *memory)
{
    const char *name = value_words(func, memory);
    return *name || memory->type->kind != TYPE_SHARED ? name : "scratch";
}

static void list_access(Lister *l, const Op *op, Traffic kind, const Value *memory)
{
    Func *func = l->report->input->func;
    AccessReport at = {.op = op,
                       .kind = kind,
                       .value = memory,
                       .memory = memory_words(func, memory),
                       .what = op_info(op->kind)->name,
                       .line = line_of(l->report, op),
                       .why_width = width_words(func, op, kind),
                       .guard = guard_words(func, op, kind)};
    if (traffic_is_bulk(kind)) {
        /* The bytes of one stage of the ring buffer. */
        Type shared = op_access_nth(op, kind == BULK_LOADS ? 1 : 0).memory->type;
        at.bytes = dtype_bytes(shared->dtype);
        for (int axis = 1; axis < shared->rank; axis++) {
            at.bytes *= (int)poly_capacity(shared->dims[axis]);
        }
    } else {
        at.bytes = (int)op_int(op, ATTR_VECTOR, 1) * dtype_bytes(memory->type->dtype);
    }
    ARENA_PUSH(func->arena, &l->launch->accesses, at);
}

static void list_dot(Lister *l, const Op *op)
{
    for (int i = 0; i < 2; i++) {
        Access side = op_access_nth(op, i);
        if (side.memory->type->kind == TYPE_SHARED) {
            list_access(l, op, SHARED_LOADS, side.memory);
        }
    }
}

/* The last operand, where there is one: a reduction's, a scan's, a fold's. */
static void list_scratch(Lister *l, const Op *op)
{
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        if (op->operands[at]->type->kind == TYPE_SHARED) {
            list_access(l, op, SHARED_STORES, op->operands[at]);
            list_access(l, op, SHARED_LOADS, op->operands[at]);
        }
    }
}

static void list_buffer(Lister *l, const Op *op)
{
    Type type = op->results[0]->type;
    BufferReport buffer = {.name = memory_words(l->report->input->func, op->results[0]),
                           .value = op->results[0],
                           .offset = (int)op_int(op, ATTR_OFFSET, 0),
                           .bytes = dtype_bytes(type->dtype),
                           .slots = (int)poly_capacity(type->dims[0]),
                           .swizzle = (int)op_int(op, ATTR_SWIZZLE, 0),
                           .line = line_of(l->report, op)};
    for (int axis = 0; axis < type->rank; axis++) {
        buffer.bytes *= (int)poly_capacity(type->dims[axis]);
    }
    ARENA_PUSH(l->report->input->func->arena, &l->launch->buffers, buffer);
}

static void list_tile(Lister *l, const Value *value)
{
    const Layout *layout = value->type->kind == TYPE_ARRAY ? value->type->layout : NULL;
    if (!layout || value->type->rank == 0) {
        return;
    }
    for (size_t i = 0; i < l->launch->layouts_used.n; i++) {
        if (l->launch->layouts_used.items[i].layout == layout) {
            l->launch->layouts_used.items[i].n++;
            return;
        }
    }
    TileReport tile = {layout, value, 1};
    ARENA_PUSH(l->report->input->func->arena, &l->launch->layouts_used, tile);
}

static void list_op(Op *op, void *user)
{
    Lister *l = user;
    const Value *memory = op->n_operands > 0 ? op->operands[0] : NULL;
    bool tensor = memory && memory->type->kind == TYPE_TENSOR;
    const char *fn = op->kind == OP_SCATTER ? op_word(op, ATTR_FN) : NULL;
    for (int i = 0; i < op->n_results; i++) {
        list_tile(l, op->results[i]);
    }
    switch (op->kind) {
    case OP_LOAD:
    case OP_GATHER:
        if (tensor) {
            list_access(l, op, LOADS, memory);
        }
        break;
    case OP_STORE: list_access(l, op, STORES, memory); break;
    case OP_SCATTER:
        if (tensor) {
            list_access(l, op, fn && !text_equal(fn, "set") ? ATOMICS : STORES, memory);
        } else {
            list_access(l, op, SHARED_ATOMICS, memory);
        }
        break;
    case OP_COPY_LOAD: list_access(l, op, COPIES, memory); break;
    case OP_BULK_LOAD: list_access(l, op, BULK_LOADS, memory); break;
    case OP_BULK_STORE: list_access(l, op, BULK_STORES, op_access_nth(op, 1).memory); break;
    case OP_SHARED_LOAD: list_access(l, op, SHARED_LOADS, memory); break;
    case OP_SHARED_STORE: list_access(l, op, SHARED_STORES, memory); break;
    case OP_REDUCE:
    case OP_SCAN:
    case OP_HISTOGRAM:
    case OP_RANK:
    case OP_TILE_SCATTER:
    case OP_LOOKUP:
    case OP_FOLD: list_scratch(l, op); break;
    case OP_DOT: list_dot(l, op); break;
    case OP_DOT_ASYNC:
        if (mma_a_in_registers(l->report->target, op)) {
            list_access(l, op, SHARED_LOADS, op_access_nth(op, 0).memory);
        }
        break;
    case OP_SHARED:
        list_buffer(l, op);
        if (bulk_short_tile(l->report->input->func, op->results[0])) {
            list_access(l, op, SHARED_STORES, op->results[0]);
        }
        break;
    default: break;
    }
}

/* ---- totals ---- */

static double elements(const EvalPoint *context, Type type)
{
    double n = 1;
    for (int axis = 0; axis < type->rank; axis++) {
        int64_t extent;
        n *= context_dim(context, type->dims[axis], &extent) ? (double)extent : 0;
    }
    return n;
}

static double product_flops(const EvalPoint *context, const Op *op)
{
    Type a = op->operands[0]->type, result = op->results[0]->type;
    int last = a->rank - (op_int(op, ATTR_TA, 0) ? 2 : 1);
    int64_t k;
    return context_dim(context, a->dims[last], &k) ? 2 * elements(context, result) * (double)k : 0;
}

static void count_float(Op *op, void *user)
{
    int *n = user;
    bool counts = op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_SELECT && op->kind != OP_CAST;
    *n += counts && dtype_is_float(op->results[0]->type->dtype);
}

static double op_flops(const EvalPoint *context, const Op *op)
{
    int each = 0;
    Type type = op->n_results ? op->results[0]->type : NULL;
    switch (op->kind) {
    case OP_REMAT:
    case OP_CAST:
    case OP_BITCAST:
    case OP_SELECT:
    case OP_ISNAN: return 0;
    case OP_REDUCE:
    case OP_SCAN: return dtype_is_float(type->dtype) ? elements(context, op->operands[0]->type) : 0;
    case OP_FOLD:
        block_walk(op->regions[0], count_float, &each);
        return each * elements(context, op->operands[0]->type);
    default: break;
    }
    bool counts = type && op_has(op, TRAIT_ELEMENTWISE) && dtype_is_float(type->dtype);
    if (!counts) {
        return 0;
    }
    return elements(context, type) * (op->kind == OP_FMA ? 2 : 1);
}

/* A cache's places for lines that lie `stride` bytes apart: of `ways` a set, one of each `span`. */
static int64_t lines_that_fit(const Machine *core, int64_t stride, int kib, int ways)
{
    int64_t step = stride & -stride, span = kib * INT64_C(1024) / ways; /* powers of two */
    step = clamp_i64(step, core->line_bytes, span);
    return span / step * ways;
}

/* Bytes from one row of what was loaded to the next along its axis; 0: not known. */
static int64_t row_stride(const EvalPoint *context, const Op *load, int axis)
{
    Access access = op_access(load, 0);
    Type memory = access.memory->type;
    int64_t stride = dtype_bytes(memory->dtype), extent;
    for (int i = memory->rank - 1, at = load->results[0]->type->rank - 1; i >= 0; i--) {
        bool held = !access.indices[i] || access.indices[i]->type->kind == TYPE_RANGE;
        if (held && at-- == axis) {
            return stride;
        }
        stride = context_dim(context, memory->dims[i], &extent) ? mul_sat(stride, extent) : 0;
    }
    return 0;
}

/* A tile that is walked across its rows opens a cache line for each: where a cache has not space
 * for as many, each element brings one from the next, else each line comes once. */
static void tally_transposed(const Machine *core, const EvalPoint *context, const Op *op,
                             double times, CpuReport *cpu)
{
    const Attr *perm = op_attr(op, ATTR_PERM);
    const Op *load = op->operands[0]->def;
    Type from = op->operands[0]->type;
    int last = from->rank - 1;
    int64_t run = 1, rows = 1;
    if (from->kind != TYPE_ARRAY || last < 1 || perm->ints[last] == last || !load ||
        load->kind != OP_LOAD || !context_dim(context, from->dims[last], &run) ||
        !context_dim(context, from->dims[perm->ints[last]], &rows) || run < 1) {
        return;
    }
    double line = fmin((double)core->line_bytes / dtype_bytes(from->dtype), (double)run);
    double each = times * elements(context, from) * core->line_bytes;
    int64_t stride = row_stride(context, load, (int)perm->ints[last]);
    bool first = rows <= lines_that_fit(core, stride, core->core_l1_kib, core->l1_ways);
    bool second = rows <= lines_that_fit(core, stride, core->core_l2_kib, core->l2_ways);
    if (first) {
        cpu->l2_line_bytes += each / line;
    } else if (second) {
        cpu->l2_line_bytes += each;
    }
    /* Memory sends each line once, as far as pages of as many rows are known by address. */
    if (!second) {
        cpu->far_line_bytes += each / 2 + each / 2 / (rows <= core->tlb_pages ? line : 1);
    }
}

/* Of a CPU: loops over what is reduced and stored; how runs begin, but for those that continue
 * where the step before has ended. Comparing, which keeps NaN, takes longer than adding. */
static void tally_cpu(const Machine *core, const EvalPoint *context, const Op *op, double times,
                      CpuReport *cpu)
{
    bool is_load = op->kind == OP_LOAD, is_store = op->kind == OP_STORE;
    bool is_reduce = op->kind == OP_REDUCE;
    for (int i = 0; i < 2 && op->kind == OP_DOT; i++) {
        Type side = op->operands[i]->type;
        cpu->packed_bytes += times * elements(context, side) * dtype_bytes(side->dtype);
    }
    if (op->kind == OP_PERMUTE) {
        tally_transposed(core, context, op, times, cpu);
    }
    if (!is_load && !is_store && !is_reduce) {
        return;
    }
    Type type;
    if (is_load) {
        type = op->results[0]->type;
    } else if (is_store) {
        type = op->operands[op->n_operands - 1]->type;
    } else {
        type = op->operands[0]->type;
    }
    if (type->kind != TYPE_ARRAY || type->rank == 0) {
        return;
    }
    int last = type->rank - 1;
    double n = times * elements(context, type);
    int64_t run = 0;
    cpu->loop_bytes += is_load ? 0 : n * dtype_bytes(type->dtype);
    if (is_reduce && op_int(op, ATTR_AXIS, 0) == last) {
        const char *fn = op_word(op, ATTR_FN);
        bool compares = text_equal(fn, "max") || text_equal(fn, "min");
        cpu->chain_cycles += n * (compares ? core->max_latency : core->add_latency);
    }
    bool continues = op->parent->parent && op->parent->parent->kind == OP_FOR;
    const Op *stored = is_store ? op->operands[op->n_operands - 1]->def : NULL;
    bool across = stored && stored->kind == OP_PERMUTE; /* which waits for its lines */
    if (!is_reduce && !across && !continues && context_dim(context, type->dims[last], &run) &&
        run > 0) {
        double bytes = (double)run * dtype_bytes(type->dtype);
        cpu->startup_bytes += n / (double)run * fmin(bytes, core->run_bytes);
    }
}

enum { REQUESTS_A_LOOK = 16 }; /* which take as long as another op */

static void tally_op(Walk *walk, const Op *op, double times)
{
    Tally *tally = walk->user;
    if (op->kind == OP_DOT || op->kind == OP_DOT_ASYNC) {
        const char *unit = op_word(op, ATTR_INSTRUCTION);
        bool matrix = unit && !text_equal(unit, "fma");
        double flops = times * product_flops(&walk->context, op);
        int bytes = dtype_bytes(op_access_nth(op, 1).memory->type->dtype);
        *(matrix ? &tally->matrix_flops : &tally->flops) += flops;
        const Machine *machine = tally->target->machine;
        double weight = matrix ? machine->product16 / machine_product(machine, bytes) : 0;
        tally->matrix_work += flops * weight;
    } else {
        tally->flops += times * op_flops(&walk->context, op);
    }
    if (!an_leaves_loop(tally->code, op)) {
        tally->issued += times * an_op_counts(tally->code, op).instructions;
    }
    if (tally->target->family == FAMILY_CPU) {
        tally_cpu(tally->target->machine, &walk->context, op, times, &tally->launch->cpu);
    }
    int64_t before = tally->examined;
    access_tally(walk, op, times);
    walk->looks += (tally->examined - before) / REQUESTS_A_LOOK;
}

/* Places that are computed, element by element. */
static bool is_costly(const LaunchReport *launch)
{
    int elements = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const Op *op = launch->accesses.items[i].op;
        if (op->kind == OP_GATHER && op->results[0]->type->layout) {
            elements += layout_registers(op->results[0]->type->layout) * launch->warps;
        }
    }
    return elements > 256;
}

static void forget_loads(Walk *walk)
{
    Tally *tally = walk->user;
    dedup_next_iteration(tally->seen);
}

double report_share(const Report *report)
{
    static const double OF_MANY = 1.5; /* launches: what all of them take together */
    int n = report->n_launches;
    return n > 1 ? OF_MANY / n : 1;
}

/* ---- the report ---- */

static bool all_known(const ReportInput *input)
{
    for (size_t i = 0; i < input->func->dimvars.n; i++) {
        if (input->func->dimvars.items[i]->kind == DIM_SIZE && input->sizes[i] < 0) {
            return false;
        }
    }
    return true;
}

static int64_t *plan_sizes(const ReportInput *input)
{
    Func *func = input->func;
    int64_t *sizes = ARENA_ARRAY(func->arena, int64_t, func->dimvars.n);
    int n = 0;
    for (size_t i = 0; i < func->dimvars.n; i++) {
        if (func->dimvars.items[i]->kind != DIM_RANGE) {
            sizes[n++] = input->sizes[i] < 0 ? 0 : input->sizes[i];
        }
    }
    return sizes;
}

/* All tiles of its grid; -1: not known. */
static int64_t tiles_of(const Report *report, const PlanLaunch *launch)
{
    int64_t tiles;
    bool known = report->sized && plan_blocks(launch, plan_sizes(report->input), &tiles);
    return known ? tiles : -1;
}

static const AssemblerInfo *assembled_of(const ReportInput *input, const char *symbol)
{
    for (size_t i = 0; i < input->assembled.n; i++) {
        if (text_equal(input->assembled.items[i].symbol, symbol)) {
            return &input->assembled.items[i];
        }
    }
    return NULL;
}

static int first_line(const LaunchReport *launch)
{
    int line = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        int at = launch->accesses.items[i].line;
        line = at && (!line || at < line) ? at : line;
    }
    return line;
}

static void make_launch(Report *report, const Op *op, int nth)
{
    Func *func = report->input->func;
    LaunchReport *launch = &report->launches[nth];
    Lister lister = {report, launch};
    launch->op = op;
    launch->plan = &report->input->plan->launches[nth];
    const Attr *warps = op_attr(op, ATTR_WARPS);
    launch->warps = warps && warps->n > 0 ? (int)warps->ints[0] : 1;
    /* A persistent launch has at most as many blocks as are co-resident. */
    int64_t blocks = tiles_of(report, launch->plan);
    launch->blocks =
        blocks < 0 ? blocks : plan_resident(launch->plan, blocks, report->target->machine->num_sms);
    launch->tiles = tiles_words(func, op);
    launch->why = split_words(func, op);
    launch->assembled = assembled_of(report->input, launch->plan->symbol);
    launch->shared_bytes =
        launch->plan->shared_bytes + (launch->assembled ? launch->assembled->shared : 0);
    CodeSize size = an_code_size(func, op);
    const Op *loop = an_hot_loop(&size, op);
    launch->code_bytes = an_code_bytes(&size, op);
    launch->loop = an_iteration_counts(&size, loop ? loop : op);
    block_walk(op->regions[0], list_op, &lister);
    /* A bulk store gets the line of what wrote its operand to shared memory. */
    for (size_t i = 0; i < launch->accesses.n; i++) {
        AccessReport *at = &launch->accesses.items[i];
        for (size_t k = 0; k < launch->accesses.n && !at->line; k++) {
            const AccessReport *other = &launch->accesses.items[k];
            at->line = at->op->operands[0] == other->value ? other->line : 0;
        }
    }
    launch->line = first_line(launch);
    occupancy_make(report, launch);
    if (report->sized) {
        /* A trace of sampled blocks counts what each op costs. */
        const ReportInput *input = report->input;
        Tally tally = {.launch = launch,
                       .target = report->target,
                       .diags = input->func->diags,
                       .brief = input->brief,
                       .seen = dedup_new(input->func->arena),
                       .code = &size,
                       .memo = request_memo(input->func->arena),
                       .sector = report->card ? report->target->sector_bytes : 32};
        Walk walk = {.context = context_of(input->func, input->sizes),
                     .each = tally_op,
                     .begin = forget_loads,
                     .user = &tally,
                     .costly = input->brief || input->sampled || is_costly(launch),
                     .warps = launch->warps,
                     .share = report_share(report),
                     .blocks = (double)(launch->blocks > 0 ? launch->blocks : 1)};
        walk_launch(&walk, launch->op);
        access_finish(&walk);
        launch->looks = walk.looks;
        launch->uncertain = walk.uncertain;
        launch->coarse = walk.coarse;
        launch->data_loops = walk.data_loop != NULL;
        launch->equal_parts = walk.equal_parts;
        launch->data_loop_line = walk.data_loop ? line_of(report, walk.data_loop) : 0;
        launch->issued = tally.issued * launch->warps;
        launch->roofline.flops = tally.flops;
        launch->roofline.matrix_flops = tally.matrix_flops;
        launch->roofline.matrix_work = tally.matrix_work;
        roofline_make(report, report->input->sizes, launch);
        memory_make(report, launch, tiles_of(report, launch->plan));
    }
    product_make(report, launch, tiles_of(report, launch->plan));
    predict_make(report, launch);
    findings_make(report, launch);
}

void report_make(const ReportInput *input, Report *report)
{
    int nth = 0;
    *report = (Report){
        .input = input,
        .target = input->func->target,
        .card = input->func->target->family == FAMILY_CPU ? NULL : input->func->target->machine,
        .sized = all_known(input),
        .n_launches = input->plan->n_launches};
    report->launches = ARENA_ARRAY(input->func->arena, LaunchReport, report->n_launches);
    for (const Op *op = input->func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            make_launch(report, op, nth++);
        }
    }
}
