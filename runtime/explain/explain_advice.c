/* SPDX-License-Identifier: Apache-2.0 */
/* Suggests what to try next, starting with what costs most. */
#include "runtime/explain/explain_occupancy.h"

#include "ir/build.h"
#include "ir/schedule.h"
#include "passes/analysis/access_width.h"
#include "runtime/explain/explain_words.h"

#include <string.h>

enum { MAX_ADVICE = 5 };

static void say(const Report *report, LaunchReport *launch, const char *words)
{
    for (size_t i = 0; i < launch->advice.n; i++) {
        if (text_equal(launch->advice.items[i], words)) {
            return;
        }
    }
    if (launch->advice.n < MAX_ADVICE) {
        ARENA_PUSH(report->input->func->arena, &launch->advice, words);
    }
}

static const char *place(const Report *report, const AccessReport *at)
{
    return at->line ? arena_printf(report->input->func->arena, "line %d: ", at->line) : "";
}

/* Of those that move the same array: one is enough to be told of. */
static bool is_greatest(const LaunchReport *launch, const AccessReport *at)
{
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *other = &launch->accesses.items[i];
        bool alike = other->value == at->value && other->kind == at->kind;
        double more = other->sectors + other->wavefronts - at->sectors - at->wavefronts;
        if (alike && (more > 0 || (more == 0 && other < at))) {
            return false;
        }
    }
    return true;
}

static void sectors(const Report *report, LaunchReport *launch, const AccessReport *at)
{
    Arena *arena = report->input->func->arena;
    double times = at->least_sectors > 0 ? at->sectors / at->least_sectors : 1;
    if (times < 1.3 || at->assumed || traffic_is_shared(at->kind) || !is_greatest(launch, at)) {
        return;
    }
    const char *what = at->op->kind == OP_GATHER && an_width(report->input->func, at->op) == 1
                           ? "its places are computed, so that a thread takes an element at a "
                             "time: a plain index or a slice takes several"
                           : "neighbouring threads should take neighbours in memory, along the "
                             "last axis, in rows that begin at multiples of a sector";
    say(report, launch,
        arena_printf(arena, "%s%s of %s moves %.1f times the sectors that its bytes need: %s",
                     place(report, at), traffic_name(at->kind), at->memory, times, what));
}

/* What to write so that rows of so many elements are taken `per` elements at a time. */
static const char *row_words(const Report *report, const DimVar *size, int per)
{
    Arena *arena = report->input->func->arena;
    int64_t rows = report->input->sizes[size->id];
    if (rows % per == 0) {
        return arena_printf(arena,
                            "that %s is a multiple of %d is not known (--assume \"%s %% %d "
                            "== 0\")",
                            size->name, per, size->name, per);
    }
    return arena_printf(arena,
                        "rows of %lld elements begin anywhere; padded to a multiple of %d (--size "
                        "%s=%lld) it takes wider pieces",
                        (long long)rows, per, size->name, (long long)((rows / per + 1) * per));
}

/* True if somebody said how wide accesses are. */
static bool width_is_given(const Func *func)
{
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *entry = &func->schedule->entries.items[i];
        if (text_equal(entry->key, "vector") && entry->origin != ENTRY_DERIVED) {
            return true;
        }
    }
    return false;
}

/* True if threads hold more neighbours than they take at once, since rows begin anywhere. */
static bool rows_limit(const Op *op, const Access *access)
{
    Type type = op_moved_value(op)->type;
    int64_t width = op_int(op, ATTR_VECTOR, 1);
    return type->rank > 0 && type->layout && an_row_divisor(access) <= width &&
           layout_contiguous(type->layout, type->rank - 1) > width;
}

static void narrow(const Report *report, LaunchReport *launch, const AccessReport *at)
{
    const Op *op = at->op;
    if ((op->kind != OP_LOAD && op->kind != OP_STORE) || at->bytes >= 8 || at->requests < 1 ||
        !is_greatest(launch, at)) {
        return;
    }
    Access access = op_access(op, 0);
    int last = access.n - 1;
    if (access.n < 1 || !access.indices[last] || access.indices[last]->type->kind != TYPE_RANGE ||
        an_width(report->input->func, op) > (int)op_int(op, ATTR_VECTOR, 1)) {
        return;
    }
    Dim extent = access.memory->type->dims[last];
    int per = report->target->vector_bytes / dtype_bytes(access.memory->type->dtype);
    const DimVar *size = poly_as_var(extent);
    if (size && size->kind == DIM_SIZE && size->by == 0 && per > 1 && poly_divisor(extent) % per &&
        rows_limit(op, &access) && !width_is_given(report->input->func)) {
        say(report, launch,
            arena_printf(report->input->func->arena, "%s%s of %s takes %d bytes a thread: %s",
                         place(report, at), traffic_name(at->kind), at->memory, at->bytes,
                         row_words(report, size, per)));
    }
}

/* Starting a launch takes longer. */
static bool is_small(const LaunchReport *launch)
{
    static const double START_SECONDS = 2e-6;
    const Roofline *r = &launch->roofline;
    return r->memory_seconds < START_SECONDS && r->compute_seconds < START_SECONDS;
}

static void grid(const Report *report, LaunchReport *launch)
{
    const Occupancy *o = &launch->occupancy;
    Arena *arena = report->input->func->arena;
    double rest = o->waves - (double)(int64_t)o->waves;
    if (is_small(launch)) {
        return;
    }
    if (launch->blocks > 0 && launch->blocks < report->target->machine->num_sms) {
        say(report, launch,
            arena_printf(arena,
                         "%lld block%s leave%s %lld of %d %ss idle: smaller tiles, or more "
                         "`split_k` of an axis that is folded",
                         (long long)launch->blocks, launch->blocks == 1 ? "" : "s",
                         launch->blocks == 1 ? "s" : "",
                         (long long)(report->target->machine->num_sms - launch->blocks),
                         report->target->machine->num_sms, unit_words(report->target)));
    } else if (!launch->plan->persistent && o->waves > 1 && o->waves < 4 && rest > 0 &&
               rest < 0.5) {
        say(report, launch,
            arena_printf(arena,
                         "%.2f rounds of resident blocks: the last one fills %.0f %% of the device "
                         "(another tile, or `persistent on`)",
                         o->waves, 100 * rest));
    }
}

/* The roofline bounds nothing that the model expects to take many times as long: FLOP are not all
 * that warps issue. */
static bool is_far(const LaunchReport *launch, double *times)
{
    const Roofline *r = &launch->roofline;
    double least = r->memory_seconds > r->compute_seconds ? r->memory_seconds : r->compute_seconds;
    *times = launch->predicted / least;
    bool modelled = r->matrix_flops > r->flops && launch->product.modelled;
    return !modelled && launch->predicted > 4 * least;
}

/* Which op makes an operand of a product what it is: a load (`at` NULL: of that tensor), or
 * arithmetic in a wide type. */
typedef struct Origin {
    const Op *at;        /* arithmetic; NULL: none */
    const Value *tensor; /* that is loaded; NULL: none was found */
} Origin;

/* What is stored into shared memory, or the tensor that is copied there. */
typedef struct Finding {
    const Value *memory, *stored, *tensor;
} Finding;

static void find_store(Op *op, void *user)
{
    Finding *finding = user;
    const Value *tensor = NULL;
    bool here = false;
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        here = here || operand == finding->memory;
        tensor = operand && operand->type->kind == TYPE_TENSOR ? operand : tensor;
    }
    if (here && (op->kind == OP_STORE || op->kind == OP_SHARED_STORE)) {
        finding->stored = op_moved_value(op);
    }
    finding->tensor = here && tensor ? tensor : finding->tensor;
}

/* What shared memory is filled with. */
static const Value *filled_with(const LaunchReport *launch, const Value *memory, Origin *origin)
{
    Finding finding = {.memory = memory};
    block_walk(launch->op->regions[0], find_store, &finding);
    origin->tensor = finding.stored ? NULL : finding.tensor;
    return finding.stored;
}

static Origin origin_of(const LaunchReport *launch, const Value *value)
{
    enum { MAX_STEPS = 64 };
    Origin origin = {0};
    if (value->type->kind == TYPE_SHARED) {
        value = filled_with(launch, value, &origin);
    }
    for (int i = 0; value && i < MAX_STEPS; i++) {
        const Op *op = value->def;
        if (!op) {
            return origin;
        }
        if (op->kind == OP_LOAD || op->kind == OP_GATHER || op->kind == OP_SHARED_LOAD) {
            Access access = op_access(op, 0);
            if (access.memory->type->kind == TYPE_TENSOR) {
                origin.tensor = access.memory;
                return origin;
            }
            value = filled_with(launch, access.memory, &origin);
        } else if ((op->kind == OP_CAST || !(op_info(op->kind)->traits & TRAIT_ELEMENTWISE)) &&
                   op->n_operands > 0) {
            value = op->operands[0];
        } else {
            origin.at = op->n_operands > 0 ? op : NULL;
            return origin;
        }
    }
    return origin;
}

/* "(a) + (b)" stays as it is. */
static const char *without_parens(Arena *arena, const char *text)
{
    size_t n = strlen(text);
    int depth = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (depth == 0) {
            return text;
        }
    }
    return n > 2 && text[0] == '(' ? arena_strndup(arena, text + 1, n - 2) : text;
}

/* As the source has it, if on one line and not too long; NULL: it has not. */
static const char *text_of(const Report *report, const Op *op)
{
    enum { LONGEST = 60 };
    const Func *func = report->input->func;
    Span span = op->span;
    if (span.source != report->input->source || span.end <= span.start ||
        span.end - span.start > LONGEST) {
        return NULL;
    }
    const char *text =
        arena_strndup(func->arena, func->diags->sources.items[span.source].text + span.start,
                      (size_t)(span.end - span.start));
    return strchr(text, '\n') ? NULL : without_parens(func->arena, text);
}

/* A parameter of the source; others have names that no source knows. */
static bool is_given(const Func *func, const Value *value)
{
    for (size_t i = 0; i < func->params.n; i++) {
        if (func->params.items[i].value == value) {
            return func->params.items[i].io != PARAM_SCRATCH;
        }
    }
    return false;
}

/* Which operand keeps a product from the matrix unit, and what to write. */
static const char *operand_words(const Report *report, const LaunchReport *launch)
{
    Arena *arena = report->input->func->arena;
    const Op *dot = launch->product.op;
    if (!dot || dot->n_operands < 2 || dot->kind != OP_DOT) {
        return NULL;
    }
    Origin origins[2] = {origin_of(launch, op_access_nth(dot, 0).memory),
                         origin_of(launch, op_access_nth(dot, 1).memory)};
    DType narrow = DT_BF16;
    for (int i = 0; i < 2; i++) {
        DType dtype = origins[i].tensor ? origins[i].tensor->type->dtype : DT_F32;
        narrow = !origins[i].at && dtype == DT_F16 ? DT_F16 : narrow;
    }
    for (int i = 0; i < 2; i++) {
        const char *text = origins[i].at ? text_of(report, origins[i].at) : NULL;
        if (text) {
            DType wide = origins[i].at->results[0]->type->dtype;
            return arena_printf(
                arena, "`%s` is %s, which no matrix unit multiplies exactly: write `%s(%s)`", text,
                dtype_name(wide), dtype_name(narrow), text);
        }
    }
    const Value *x = origins[0].tensor, *y = origins[1].tensor;
    if (x && y && (x->type->dtype == DT_F32 || y->type->dtype == DT_F32)) {
        const Value *wide = x->type->dtype == DT_F32 ? x : y;
        return arena_printf(arena,
                            "%s is f32: operands of 16 bits, or `dot(…, precision=tf32)`, use the "
                            "matrix units where the target has them",
                            is_given(report->input->func, wide)
                                ? value_words(report->input->func, wide)
                                : "an intermediate");
    }
    return NULL;
}

static void bound(const Report *report, LaunchReport *launch)
{
    const Roofline *r = &launch->roofline;
    double times;
    if (!report->sized || is_small(launch)) {
        return;
    }
    bool ordinary = r->matrix_flops <= r->flops && report->input->product_flops > r->flops / 2;
    const char *why = ordinary ? operand_words(report, launch) : NULL;
    if (why) {
        say(report, launch,
            arena_printf(report->input->func->arena, "bound by products on the ordinary units: %s",
                         why));
    }
    if (is_far(launch, &times)) {
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "far from the roofline: the model expects %.0f times the least time; "
                         "instructions, idle %ss or what a step waits for cost more than %s",
                         times, unit_words(report->target),
                         r->memory_bound ? "memory" : "arithmetic"));
    } else if (r->memory_bound) {
        say(report, launch,
            "bound by memory: what would make it faster is fewer bytes, by a narrower type or by "
            "fusing with what makes or takes these arrays");
    } else if (r->matrix_flops > r->flops && launch->product.modelled) {
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "bound by the matrix units, %.0f %% of whose rate is expected: limited by "
                         "%s (tile, shares, pipeline)",
                         100 * launch->product.share, launch->product.limiter));
    } else if (r->matrix_flops > r->flops) {
        say(report, launch,
            "bound by the matrix units: what `tessera bench` measures beyond this bound is filling "
            "and draining pipelines, and work beside products (tile, pipeline, warps)");
    } else if (launch->product.op && dtype_is_int(launch->product.op->results[0]->type->dtype)) {
        say(report, launch,
            "bound by products of integers on the ordinary units: operands of 8 bits use the "
            "matrix units where the target has them");
    } else if (ordinary && !why) {
        say(report, launch,
            "bound by products on the ordinary units: operands of 16 bits use the matrix units "
            "where the target has them");
    } else if (!ordinary) {
        say(report, launch,
            "bound by arithmetic: what would make it faster is cheaper functions (`fast.exp`)");
    }
}

void advice_make(const Report *report, LaunchReport *launch)
{
    if (!report->card) {
        return;
    }
    /* Spilled registers cost memory traffic. */
    if (launch->assembled && launch->assembled->spilled > 0) {
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "registers spill %d bytes a thread: smaller tiles (--schedule \"tile …\") "
                         "or fewer blocks a %s (\"occupancy …\")",
                         launch->assembled->spilled, unit_words(report->target)));
    }
    for (size_t i = 0; i < launch->accesses.n; i++) {
        sectors(report, launch, &launch->accesses.items[i]);
        /* Bank conflicts are reported for the access that has the most of them. */
        const AccessReport *at = &launch->accesses.items[i];
        if (traffic_is_shared(at->kind) && at->wavefronts > 1.3 * at->least_wavefronts &&
            is_greatest(launch, at)) {
            say(report, launch,
                arena_printf(
                    report->input->func->arena,
                    "%s%s of %s takes %.1f times the wavefronts of shared memory that it would "
                    "without conflicts of banks: another tile, or other warps, change the "
                    "layout",
                    place(report, at), traffic_name(at->kind), at->memory,
                    at->wavefronts / at->least_wavefronts));
        }
    }
    for (size_t i = 0; i < launch->accesses.n; i++) {
        narrow(report, launch, &launch->accesses.items[i]);
    }
    grid(report, launch);
    /* Inputs that are requested several times from the caches call for larger tiles. */
    const Roofline *r = &launch->roofline;
    /* caches give a few times what memory does */
    double from_caches = r->asked_read / (3 * report->card->memory_gbs * 1e9);
    if (r->read > 0 && r->asked_read > 4 * r->read && !is_small(launch) &&
        from_caches > r->compute_seconds && from_caches > r->memory_seconds) {
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "inputs are asked for %.1f times over, of caches as far as they fit: "
                         "larger tiles read them less often",
                         r->asked_read / r->read));
    }
    bound(report, launch);
}
