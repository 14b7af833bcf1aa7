/* SPDX-License-Identifier: Apache-2.0 */
/* Finds properties of a launch that cost time. If a finding calls for a change of the source or of
 * sizes that can be made mechanically, the change is proposed; runtime/api/api_hints.c tries it and
 * keeps it as a hint if the cost model expects less time. */
#include "runtime/explain/explain_occupancy.h"

#include "ir/build.h"
#include "ir/schedule.h"
#include "passes/analysis/access_width.h"
#include "runtime/explain/explain_words.h"

#include <ctype.h>
#include <string.h>

enum { MAX_NOTES = 5 };

static void note(const Report *report, LaunchReport *launch, Finding finding, const char *words)
{
    for (size_t i = 0; i < launch->notes.n; i++) {
        if (text_equal(launch->notes.items[i].text, words)) {
            return;
        }
    }
    if (launch->notes.n < MAX_NOTES) {
        Note one = {finding, words};
        ARENA_PUSH(report->input->func->arena, &launch->notes, one);
    }
}

static void propose(Report *report, Hint hint)
{
    for (size_t i = 0; i < report->proposed.n; i++) {
        if (text_equal(report->proposed.items[i].line, hint.line)) {
            return;
        }
    }
    ARENA_PUSH(report->input->func->arena, &report->proposed, hint);
}

static const char *place(const Report *report, const AccessReport *at)
{
    return at->line ? arena_printf(report->input->func->arena, "line %d: ", at->line) : "";
}

/* True if no access that moves the same array costs more: one of them is noted. */
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
                             "time, where a plain index or a slice takes several"
                           : "neighbouring threads do not take neighbours in memory, along the "
                             "last axis, in rows that begin at multiples of a sector";
    note(report, launch, FINDING_SECTORS,
         arena_printf(arena, "%s%s of %s moves %.1f times the sectors that its bytes need: %s",
                      place(report, at), traffic_name(at->kind), at->memory, times, what));
}

/* Rows of another size, of which a thread takes `per` elements at a time. */
static void propose_padding(Report *report, const DimVar *size, int per)
{
    int64_t rows = report->input->sizes[size->id], padded = (rows / per + 1) * per;
    propose(report, (Hint){.kind = HINT_SIZE,
                           .line = arena_printf(report->input->func->arena, "--size %s=%lld",
                                                size->name, (long long)padded),
                           .name = size->name,
                           .size = padded});
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

static void narrow(Report *report, LaunchReport *launch, const AccessReport *at)
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
        note(
            report, launch, FINDING_NARROW,
            arena_printf(report->input->func->arena,
                         "%s%s of %s takes %d bytes a thread: rows of %lld elements begin anywhere",
                         place(report, at), traffic_name(at->kind), at->memory, at->bytes,
                         (long long)report->input->sizes[size->id]));
        propose_padding(report, size, per);
    }
}

/* True if starting a launch takes longer. */
static bool is_small(const Report *report, const LaunchReport *launch)
{
    double start = report->card->start / (report->card->matrix_clock * 1e6);
    const Roofline *r = &launch->roofline;
    return r->memory_seconds < start && r->compute_seconds < start;
}

static void grid(const Report *report, LaunchReport *launch)
{
    const Occupancy *o = &launch->occupancy;
    Arena *arena = report->input->func->arena;
    long long blocks = launch->blocks, sms = report->target->machine->num_sms;
    double rest = o->waves - (double)(int64_t)o->waves;
    if (is_small(report, launch)) {
        return;
    }
    if (blocks > 0 && blocks < sms) {
        note(report, launch, FINDING_IDLE,
             arena_printf(arena, "%lld block%s leave%s %lld of %lld %ss idle", blocks,
                          blocks == 1 ? "" : "s", blocks == 1 ? "s" : "", sms - blocks, sms,
                          unit_words(report->target)));
    } else if (!launch->plan->persistent && o->waves > 1 && o->waves < 4 && rest > 0 &&
               rest < 0.5) {
        note(report, launch, FINDING_TAIL,
             arena_printf(arena,
                          "%.2f rounds of resident blocks: the last one fills %.0f %% of the "
                          "device",
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
    const Op *load;      /* of the tensor */
} Origin;

/* What is stored into shared memory, or the tensor that is copied there. */
typedef struct Filled {
    const Value *memory, *stored, *tensor;
    const Op *load; /* of the tensor */
} Filled;

static void find_store(Op *op, void *user)
{
    Filled *filled = user;
    const Value *tensor = NULL;
    bool here = false;
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        here = here || operand == filled->memory;
        tensor = operand && operand->type->kind == TYPE_TENSOR ? operand : tensor;
    }
    if (here && (op->kind == OP_STORE || op->kind == OP_SHARED_STORE)) {
        filled->stored = op_moved_value(op);
    }
    filled->tensor = here && tensor ? tensor : filled->tensor;
    filled->load = here && tensor ? op : filled->load;
}

/* What shared memory is filled with. */
static const Value *filled_with(const LaunchReport *launch, const Value *memory, Origin *origin)
{
    Filled filled = {.memory = memory};
    block_walk(launch->op->regions[0], find_store, &filled);
    origin->tensor = filled.stored ? NULL : filled.tensor;
    origin->load = filled.stored ? NULL : filled.load;
    return filled.stored;
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
                origin.load = op;
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
static const char *source_text(const Report *report, Span span)
{
    enum { LONGEST = 60 };
    const Func *func = report->input->func;
    if (span.source != report->input->source || span.end <= span.start ||
        span.end - span.start > LONGEST) {
        return NULL;
    }
    const char *text =
        arena_strndup(func->arena, func->diags->sources.items[span.source].text + span.start,
                      (size_t)(span.end - span.start));
    return strchr(text, '\n') ? NULL : text;
}

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
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

/* Where an operand is in the source: arithmetic and intermediates where they are computed; of a
 * tensor in the expression that loads it `x[i, k]` as a whole, else its name, if that is there
 * once. An empty span: it is not found. */
static Span operand_span(const Report *report, const Origin *origin)
{
    const Func *func = report->input->func;
    const Op *origin_op = origin->at ? origin->at : origin->load;
    Span span = origin_op ? origin_op->span : SPAN_NONE, found = SPAN_NONE;
    const char *text = source_text(report, span);
    if (!text || origin->at || !is_given(func, origin->tensor)) {
        return span;
    }
    const char *name = value_words(func, origin->tensor);
    size_t n = strlen(name);
    int times = 0;
    for (const char *at = strstr(text, name); at; at = strstr(at + n, name)) {
        bool whole_word = (at == text || !is_letter(at[-1])) && !is_letter(at[n]);
        uint32_t start = span.start + (uint32_t)(at - text);
        found = whole_word ? (Span){span.source, start, start + (uint32_t)n} : found;
        times += whole_word;
    }
    bool indexed = times == 1 && found.start == span.start && text[n] == '[' &&
                   strchr(text, ']') == text + strlen(text) - 1;
    if (times != 1) {
        return SPAN_NONE;
    }
    return indexed ? span : found;
}

/* The operand is rounded to `narrow`, where the source has it. */
static void add_edit(const Report *report, const Origin *origin, DType narrow, Hint *hint)
{
    Func *func = report->input->func;
    Span span = operand_span(report, origin);
    const char *text = source_text(report, span);
    for (int i = 0; i < hint->n_edits; i++) {
        text = hint->edits[i].span.start == span.start ? NULL : text;
    }
    if (!text) {
        return;
    }
    Edit edit = {.span = span,
                 .was = text,
                 .text = arena_printf(func->arena, "%s(%s)", dtype_name(narrow),
                                      without_parens(func->arena, text))};
    hint->edits[hint->n_edits++] = edit;
    hint->line = hint->n_edits == 1
                     ? arena_printf(func->arena, "line %d: `%s` for `%s`",
                                    diag_source_loc(func->diags, span).line, edit.text, text)
                     : arena_printf(func->arena, "%s, `%s` for `%s`", hint->line, edit.text, text);
}

static bool is_wide(const Origin *origin)
{
    DType dtype = DT_BF16;
    if (origin->at) {
        dtype = origin->at->results[0]->type->dtype;
    } else if (origin->tensor) {
        dtype = origin->tensor->type->dtype;
    }
    return dtype == DT_F32;
}

/* Both operands of a product, as far as they are wide, in the 16 bits that one of them has. */
static void propose_narrow(Report *report, const Origin origins[2])
{
    Hint hint = {.kind = HINT_SOURCE};
    DType narrow = DT_BF16;
    for (int i = 0; i < 2; i++) {
        bool half = !origins[i].at && origins[i].tensor && origins[i].tensor->type->dtype == DT_F16;
        narrow = half ? DT_F16 : narrow;
    }
    for (int i = 0; i < 2; i++) {
        if (is_wide(&origins[i])) {
            add_edit(report, &origins[i], narrow, &hint);
        }
    }
    if (hint.n_edits > 0) {
        propose(report, hint);
    }
}

/* Which operand keeps a product from the matrix unit; NULL: none is known. */
static const char *operand_words(Report *report, const LaunchReport *launch)
{
    Func *func = report->input->func;
    const Op *dot = launch->product.op;
    if (!dot || dot->n_operands < 2 || dot->kind != OP_DOT) {
        return NULL;
    }
    Origin origins[2] = {origin_of(launch, op_access_nth(dot, 0).memory),
                         origin_of(launch, op_access_nth(dot, 1).memory)};
    propose_narrow(report, origins);
    for (int i = 0; i < 2; i++) {
        const char *text = origins[i].at ? source_text(report, origins[i].at->span) : NULL;
        if (text) {
            return arena_printf(func->arena, "`%s` is %s, which no matrix unit multiplies exactly",
                                without_parens(func->arena, text),
                                dtype_name(origins[i].at->results[0]->type->dtype));
        }
    }
    const Value *x = origins[0].tensor, *y = origins[1].tensor;
    if (x && y && (x->type->dtype == DT_F32 || y->type->dtype == DT_F32)) {
        const Value *wide = x->type->dtype == DT_F32 ? x : y;
        return arena_printf(func->arena,
                            "%s is f32; matrix units multiply operands of 16 bits, or with "
                            "`dot(…, precision=tf32)`",
                            is_given(func, wide) ? value_words(func, wide) : "an intermediate");
    }
    return NULL;
}

/* What bounds a launch that the model expects to be near its roofline: no schedule takes less. */
static void bound(Report *report, LaunchReport *launch)
{
    Arena *arena = report->input->func->arena;
    const Roofline *r = &launch->roofline;
    double times;
    if (!report->sized || is_small(report, launch)) {
        return;
    }
    bool ordinary = r->matrix_flops <= r->flops && report->input->product_flops > r->flops / 2;
    const char *why = ordinary ? operand_words(report, launch) : NULL;
    if (why) {
        note(report, launch, FINDING_ORDINARY,
             arena_printf(arena, "bound by products on the ordinary units: %s", why));
    }
    if (is_far(launch, &times)) {
        note(report, launch, FINDING_FAR,
             arena_printf(arena,
                          "far from the roofline: the model expects %.0f times the least time; "
                          "instructions, idle %ss or what a step waits for cost more than %s",
                          times, unit_words(report->target),
                          r->memory_bound ? "memory" : "arithmetic"));
    } else if (r->memory_bound) {
        note(report, launch, FINDING_MEMORY,
             "bound by memory: only fewer bytes take less than the least time, by a narrower type "
             "or by fusing with what makes or takes these arrays");
    } else if (r->matrix_flops > r->flops && launch->product.modelled) {
        note(report, launch, FINDING_MATRIX,
             arena_printf(arena,
                          "bound by the matrix units, %.0f %% of whose rate is expected: limited "
                          "by %s",
                          100 * launch->product.share, launch->product.limiter));
    } else if (r->matrix_flops > r->flops) {
        note(report, launch, FINDING_MATRIX,
             "bound by the matrix units: what takes longer than the least time is filling and "
             "draining pipelines, and work in addition to products");
    } else if (launch->product.op && dtype_is_int(launch->product.op->results[0]->type->dtype)) {
        note(report, launch, FINDING_ORDINARY,
             "bound by products of integers on the ordinary units: matrix units multiply those of "
             "8 bits");
    } else if (ordinary && !why) {
        note(report, launch, FINDING_ORDINARY,
             "bound by products on the ordinary units: matrix units multiply operands of 16 bits");
    } else if (!ordinary) {
        note(report, launch, FINDING_ARITHMETIC,
             "bound by arithmetic: only cheaper functions (`fast.exp`) take less than the least "
             "time");
    }
}

static void spills(const Report *report, LaunchReport *launch)
{
    if (launch->assembled && launch->assembled->spilled > 0) {
        note(report, launch, FINDING_SPILLS,
             arena_printf(report->input->func->arena,
                          "registers spill %d bytes a thread, which cost memory traffic",
                          launch->assembled->spilled));
    }
}

/* Bank conflicts are noted for the access of a buffer that has the most of them. */
static void conflicts(const Report *report, LaunchReport *launch, const AccessReport *at)
{
    if (!traffic_is_shared(at->kind) || at->wavefronts <= 1.3 * at->least_wavefronts ||
        !is_greatest(launch, at)) {
        return;
    }
    note(report, launch, FINDING_CONFLICTS,
         arena_printf(report->input->func->arena,
                      "%s%s of %s takes %.1f times the wavefronts of shared memory that it would "
                      "without conflicts of banks",
                      place(report, at), traffic_name(at->kind), at->memory,
                      at->wavefronts / at->least_wavefronts));
}

/* Inputs that are requested several times from the caches, which give a few times what memory
 * does. */
static void reread(const Report *report, LaunchReport *launch)
{
    const Roofline *r = &launch->roofline;
    double from_caches = r->asked_read / (3 * report->card->memory_gbs * 1e9);
    if (r->read > 0 && r->asked_read > 4 * r->read && !is_small(report, launch) &&
        from_caches > r->compute_seconds && from_caches > r->memory_seconds) {
        note(report, launch, FINDING_REREAD,
             arena_printf(report->input->func->arena,
                          "inputs are asked for %.1f times over, of caches as far as they fit",
                          r->asked_read / r->read));
    }
}

void findings_make(Report *report, LaunchReport *launch)
{
    if (!report->card || report->input->brief || report->input->sampled) {
        return;
    }
    spills(report, launch);
    for (size_t i = 0; i < launch->accesses.n; i++) {
        sectors(report, launch, &launch->accesses.items[i]);
        conflicts(report, launch, &launch->accesses.items[i]);
    }
    for (size_t i = 0; i < launch->accesses.n; i++) {
        narrow(report, launch, &launch->accesses.items[i]);
    }
    grid(report, launch);
    reread(report, launch);
    bound(report, launch);
}
