/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how many elements of a memory-bound group a thread may process at once, from the
 * registers that stay live per element, the loads and the instructions per element. */
#include "passes/tile/tile_steps.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "passes/analysis/access_width.h"
#include "passes/analysis/privatizable.h"

enum {
    ROW_MAX_THREAD = 32, /* elements of a resident row that a thread may hold */
    ROW_MAX_CPU = 32768, /* the same on a CPU: stays in the second-level cache */
    MAX_KEPT = 4,        /* values of an element of a row; more make registers scarce anyway */
    SCAN_THREAD = 32,    /* of a row that is scanned; folds by a function combine each many times */
    FOLD_THREAD = 8,     /* where an element is more than one register */
    PLACE_THREAD = 8,    /* where each element has an address of its own */
    HEAVY_OPS = 64,      /* of arithmetic */
    STREAM_OPS = 96,     /* the same of so few streams that a thread has space for more elements, */
    STREAMS = 3,         /* loads and stores, */
    GATHERED_BYTES = 12, /* on a CPU's stack: an element and its place */
    MAX_WINDOW = 64,     /* elements, beyond which it is walked */
    MIN_GATHERED = 256,  /* of which a loop is still worth its overhead */
    GATHERED_OPS = 16,   /* that a change of a block's own copy of a tensor counts as */
};

/* Has the value an element for each of what is reduced? A row's scalar, of extent 1, has not. */
static bool is_whole_row(const Value *value, const Op *reduce)
{
    const Op *op = value ? value->def : NULL;
    Type row = reduce->operands[0]->type;
    int axis = (int)op_int(reduce, ATTR_AXIS, 0);
    return op && value->type->kind == TYPE_ARRAY && value->type->rank == row->rank &&
           value->type->dims[axis] == row->dims[axis] &&
           (op->kind == OP_LOAD || op_has(op, TRAIT_ELEMENTWISE));
}

static bool folds_alike(const Op *a, const Op *b)
{
    Type left = a->operands[0]->type, right = b->operands[0]->type;
    int64_t axis = op_int(a, ATTR_AXIS, 0);
    return left->rank == right->rank && axis == op_int(b, ATTR_AXIS, 0) &&
           left->dims[axis] == right->dims[axis];
}

/* Has an earlier reduction been asked about that folds rows like this one's? */
static bool was_asked(const Op *reduce)
{
    enum { MAX_LOOKS = 16 }; /* who is asked again answers the same */
    int looks = 0;
    for (const Op *op = reduce->prev; op && looks < MAX_LOOKS; op = op->prev) {
        looks += op->kind == OP_REDUCE;
        if (op->kind == OP_REDUCE && folds_alike(op, reduce)) {
            return true;
        }
    }
    return false;
}

enum { FIRST_READ, LAST_READ }; /* keys of a memo */

static int64_t read_at(const Memo *reads, const Value *value, int which, int64_t otherwise)
{
    int64_t at;
    return memo_known(reads, value, which, &at) ? at : otherwise;
}

/* Is it made again where it is read, of what is kept: a narrow element, widened, or a condition on
 * its place? */
static bool is_made_again(const Op *op)
{
    return op->kind == OP_CAST || op->kind == OP_CMP;
}

/* When each value is read first and last, by numbers of ops, if each op is done as late as what
 * reads its result allows. */
static Memo *find_reads(Func *func, const Op *group)
{
    Memo *reads = memo_open(func);
    int64_t at = 0;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        at++;
    }
    for (const Op *op = group->regions[0]->last; op; op = op->prev) {
        const Value *result = op->n_results == 1 ? op->results[0] : NULL;
        bool waits = result && (op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op));
        at--;
        int64_t first = waits ? read_at(reads, result, FIRST_READ, at) : at;
        int64_t last = waits && is_made_again(op) ? read_at(reads, result, LAST_READ, at) : first;
        for (int i = 0; i < op->n_operands; i++) {
            Value *from = op->operands[i];
            if (from) {
                memo_keep(reads, from, FIRST_READ,
                          min_i64(first, read_at(reads, from, FIRST_READ, first)));
                memo_keep(reads, from, LAST_READ,
                          max_i64(last, read_at(reads, from, LAST_READ, last)));
            }
        }
    }
    return reads;
}

/* The most at any reduction of rows like this one's. `changes`: space for one count an op. */
static int kept_at(const Op *group, const Op *reduce, const Memo *reads, int *changes)
{
    int kept = 0, most = 0, at = 0;
    for (const Op *op = group->regions[0]->first; op; op = op->next, at++) {
        const Value *value = op->n_results == 1 ? op->results[0] : NULL;
        if (is_whole_row(value, reduce) && !is_made_again(op)) {
            changes[read_at(reads, value, FIRST_READ, at)]++;
            changes[read_at(reads, value, LAST_READ, at)]--;
        }
    }
    at = 0;
    for (const Op *op = group->regions[0]->first; op; op = op->next, at++) {
        kept += changes[at];
        changes[at] = 0;
        if (op->kind == OP_REDUCE && folds_alike(op, reduce)) {
            most = kept > most ? kept : most;
        }
    }
    return most;
}

/* Values of each element of a row that are kept while the row is reduced: most at once. */
static int rows_kept(const Op *group)
{
    Func *func = group->parent->func;
    Memo *reads = find_reads(func, group);
    size_t n = 0;
    int most = 1;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        n++;
    }
    int *changes = ARENA_ARRAY(func->arena, int, n);
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_REDUCE && !was_asked(op)) {
            int kept = kept_at(group, op, reads, changes);
            most = kept > most ? kept : most;
        }
    }
    memo_close(reads);
    return most;
}

/* Elements that the widest access of a thread moves, of the narrowest tensor. */
int64_t tile_widest_access(const Op *group)
{
    int bytes = ACCESS_BYTES;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_LOAD || op->kind == OP_STORE) {
            int own = dtype_bytes(op->operands[0]->type->dtype);
            bytes = own < bytes ? own : bytes;
        }
    }
    return ACCESS_BYTES / bytes;
}

/* Elements of 16 bits or less: a thread may have more of them for as many bytes. */
bool tile_is_narrow(const Op *group)
{
    return tile_widest_access(group) > ACCESS_BYTES / 4;
}

static const Op *first_reduction(const Op *group)
{
    const Op *op = group->regions[0]->first;
    while (op && op->kind != OP_REDUCE) {
        op = op->next;
    }
    return op;
}

/* The axis that a reduction folds; NULL: there is none. */
static Dim folded(const Op *group)
{
    const Op *reduce = first_reduction(group);
    return reduce ? reduce->operands[0]->type->dims[op_int(reduce, ATTR_AXIS, 0)] : NULL;
}

static int count_along(Type type, Dim row)
{
    int n = 0;
    for (int i = 0; row && i < type->rank; i++) {
        n += type->dims[i] == row;
    }
    return n;
}

int tile_loads_of_rows(const Op *group)
{
    int loads = 0;
    Dim row = folded(group);
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        loads += op->kind == OP_LOAD ? count_along(op->results[0]->type, row) : 0;
    }
    return loads;
}

/* What an op reads from memory, or writes to it; NULL: neither. */
static const Value *memory_value(const Op *op)
{
    switch (op->kind) {
    case OP_LOAD: return op->results[0];
    case OP_GATHER: return op->operands[0]->type->kind == TYPE_TENSOR ? op->results[0] : NULL;
    case OP_STORE: return op->operands[op->n_operands - 1];
    case OP_SCATTER: return op->operands[1 + op->operands[0]->type->rank];
    default: return NULL;
    }
}

/* What has fewer axes than the rows is the same for all of them. */
int64_t tile_bytes_of_rows(const Op *group)
{
    int64_t bytes = 0;
    int rank = 0;
    Dim row = folded(group);
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        const Value *value = memory_value(op);
        if (value && value->type->rank >= rank && count_along(value->type, row)) {
            bytes = (value->type->rank > rank ? 0 : bytes) + dtype_bytes(value->type->dtype);
            rank = value->type->rank;
        }
    }
    return bytes;
}

/* True if each element that the op gathers or scatters has an address of its own, or is more than
 * one register in addition to the registers of its indices. */
static bool has_places(const Op *op)
{
    bool moves = op->kind == OP_GATHER || op->kind == OP_SCATTER;
    return moves && (!an_accesses_runs(op) || dtype_bits(op_moved_value(op)->type->dtype) > 32);
}

typedef struct Most {
    int64_t thread; /* elements */
    bool scanned;   /* there was a scan, or a fold in order */
    const Op *reduce; /* NULL: there is none */
} Most;

static int count_axes(Type type)
{
    int64_t extent;
    int n = 0;
    for (int i = 0; i < type->rank; i++) {
        n += !poly_is_const(type->dims[i], &extent) || extent > 1;
    }
    return n;
}

/* One element that is gathered for each row, as the logit of a label, is no element of the row. */
static bool is_of_row(const Op *op, const Op *reduce)
{
    Type moved = op_moved_value(op)->type;
    Dim row = reduce ? reduce->operands[0]->type->dims[op_int(reduce, ATTR_AXIS, 0)] : NULL;
    return !row || count_along(moved, row) > 0 ||
           count_axes(moved) >= count_axes(reduce->operands[0]->type);
}

static void note_most(Op *op, void *user)
{
    Most *most = user;
    if (op->kind == OP_SCAN || op->kind == OP_FOLD) {
        bool one = op->n_results == 1 && dtype_bits(op->results[0]->type->dtype) <= 32;
        int64_t several = most->scanned || op->kind == OP_FOLD ? 2 : 1;
        most->thread = min_i64(most->thread, one ? SCAN_THREAD / several : FOLD_THREAD);
        most->scanned = true;
    } else if (has_places(op) && is_of_row(op, most->reduce)) {
        most->thread = min_i64(most->thread, PLACE_THREAD);
    }
}

/* A thread's code of a scan or fold grows with the elements that it holds; what is gathered takes
 * an address and a condition an element. */
int64_t tile_most_of_ops(const Op *group)
{
    Most most = {.thread = ROW_ELEMENTS, .reduce = first_reduction(group)};
    block_walk(group->regions[0], note_most, &most);
    return most.thread;
}

/* Where a row is kept several times over, its registers are fewer, too. */
int64_t tile_most_a_thread(const Op *group)
{
    int kept = rows_kept(group) *
               (tile_is_narrow(group) || tile_loads_of_rows(group) <= MAX_ROW_LOADS ? 1 : 2);
    int64_t most = ROW_ELEMENTS / power_of_two_at_most(min_i64(kept, MAX_KEPT));
    most = min_i64(most, tile_most_of_ops(group));
    return most;
}

typedef struct Work {
    int ops;
    bool places; /* each element has its own */
    bool reduces;
    int loads, stores;
    const Value *gathered[MAX_GATHERED]; /* tensors of which a block has its own */
    int n_gathered;
} Work;

static bool goes_to_gathered(const Work *work, const Op *scatter)
{
    for (int i = 0; i < work->n_gathered; i++) {
        if (work->gathered[i] == scatter->operands[0]) {
            return true;
        }
    }
    return false;
}

static void count_work(Op *op, void *user)
{
    Work *work = user;
    work->ops += op_has(op, TRAIT_ELEMENTWISE);
    work->loads += op->kind == OP_LOAD;
    work->stores += op->kind == OP_STORE;
    work->reduces |= op->kind == OP_REDUCE || op->n_regions > 0;
    if (op->kind == OP_SCATTER && goes_to_gathered(work, op)) {
        work->ops += GATHERED_OPS;
    } else {
        work->places |= has_places(op);
    }
    work->places |= op->kind == OP_SCAN || op->kind == OP_FOLD;
    work->places |= op->kind == OP_PRINT || op->kind == OP_ASSERT;
}

static Work work_of(Func *func, const Op *group)
{
    PrivatizableTensor gathered[MAX_GATHERED];
    Work work = {.n_gathered = an_privatizable(func, group, gathered)};
    for (int i = 0; i < work.n_gathered; i++) {
        work.gathered[i] = gathered[i].tensor;
    }
    block_walk(group->regions[0], count_work, &work);
    return work;
}

static bool is_long(const Work *work)
{
    bool streams = work->loads > 0 && work->loads + work->stores <= STREAMS && !work->reduces;
    return work->ops > (streams ? STREAM_OPS : HEAVY_OPS);
}

bool tile_has_long_functions(Func *func, const Op *group)
{
    Work work = work_of(func, group);
    return is_long(&work);
}

bool tile_is_heavy(Func *func, const Op *group)
{
    Work work = work_of(func, group);
    return work.places || is_long(&work);
}

typedef struct Amid {
    int ops, gathers;
    int most_axes, gathered_axes; /* of an op, and of a gather */
} Amid;

static void count_amid(Op *op, void *user)
{
    Amid *amid = user;
    int axes = op->n_results ? op->results[0]->type->rank : 0;
    amid->ops += op_has(op, TRAIT_ELEMENTWISE);
    amid->gathers += op->kind == OP_GATHER;
    amid->most_axes = axes > amid->most_axes ? axes : amid->most_axes;
    amid->gathered_axes =
        op->kind == OP_GATHER && axes > amid->gathered_axes ? axes : amid->gathered_axes;
}

/* Windows are gathered element by element of their constant axes. */
static void count_gathered(Op *op, void *user)
{
    int64_t *gathered = user, elements = 1, extent;
    for (int i = 0; op->kind == OP_GATHER && i < op->results[0]->type->rank; i++) {
        bool constant = poly_is_const(op->results[0]->type->dims[i], &extent);
        elements *= constant && extent <= MAX_WINDOW ? max_i64(1, extent) : 1;
    }
    *gathered += op->kind == OP_GATHER ? min_i64(elements, MAX_WINDOW) : 0;
}

typedef struct Lanes {
    int64_t of_vector, padding;
} Lanes;

/* A short last axis is padded to whole vectors in the tiles of a CPU
 * (codegen/cpu/cpu_buffers.c). */
static void count_padding(Op *op, void *user)
{
    Lanes *lanes = user;
    for (int i = 0; i < op->n_results; i++) {
        Type type = op->results[i]->type;
        int64_t extent = 0;
        bool constant = type_is_tile(type) && type->rank > 1 &&
                        poly_is_const(type->dims[type->rank - 1], &extent);
        if (constant && extent > 1 && extent < lanes->of_vector) {
            lanes->padding = max_i64(lanes->padding, lanes->of_vector / extent);
        }
    }
}

int64_t tile_most_of_cache(const Func *func, const Op *group)
{
    int64_t gathered = 0;
    Lanes lanes = {func->target->vector_bytes / (int64_t)sizeof(float), 1};
    block_walk(group->regions[0], count_gathered, &gathered);
    block_walk(group->regions[0], count_padding, &lanes);
    int64_t available = func->target->shared_bytes / max_i64(1, gathered * GATHERED_BYTES);
    available = min_i64(available, ROW_MAX_CPU) / lanes.padding;
    return max_i64(MIN_GATHERED, power_of_two_at_most(available));
}

static void find_runs(Op *op, void *user)
{
    bool *found = user;
    *found = *found || (op->kind == OP_GATHER && an_accesses_runs(op));
}

bool tile_gathers_runs(const Op *group)
{
    bool found = false;
    block_walk(group->regions[0], find_runs, &found);
    return found;
}

bool tile_gathers_amid_work(const Op *group)
{
    Amid amid = {0};
    block_walk(group->regions[0], count_amid, &amid);
    /* One element that is gathered for each row is not amid the work on the row's elements. */
    return amid.gathers > 0 && amid.ops > HEAVY_OPS && amid.gathered_axes == amid.most_axes;
}

static bool is_gathered(const Value *value, int depth)
{
    const Op *op = value->def;
    bool found = op && op->kind == OP_GATHER;
    bool follows = op && depth > 0 && (op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op));
    for (int i = 0; follows && !found && i < op->n_operands; i++) {
        found = is_gathered(op->operands[i], depth - 1);
    }
    return found;
}

bool tile_keeps_addresses(const Op *group)
{
    enum { DEPTH = 6 };
    Dim inner = NULL;
    bool rows = false;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        Dim along = op->kind == OP_REDUCE ? op_reduced_extent(op) : NULL;
        inner = !inner && along && is_gathered(op->operands[0], DEPTH) ? along : inner;
        rows = rows || (inner && along && along != inner);
    }
    return rows;
}

int64_t tile_longest_row(const Func *func)
{
    return (int64_t)func->target->max_threads * ROW_MAX_THREAD;
}

int64_t tile_row_capacity(const Func *func, const TilePlan *plan)
{
    int64_t most = min_i64(ROW_MAX_THREAD, plan->most_thread);
    int64_t capacity = is_gpu(func) ? (int64_t)func->target->max_threads * most
                                    : min_i64(ROW_MAX_CPU, plan->most_cached);
    return capacity >> func->retry.plain_halvings;
}

enum {
    LONG_LOOP = 64,    /* steps of a loop that makes each element, one after the other */
    SERIAL_BLOCKS = 2, /* of a multiprocessor, if there are elements enough */
};

/* Is each element made by many steps of a loop, each of which needs the one before? */
static bool has_long_loop(const Block *block)
{
    bool found = false;
    for (const Op *op = block->first; op && !found; op = op->next) {
        const Attr *dims = op->kind == OP_FOR ? op_attr(op, ATTR_DIMS) : NULL;
        bool carries = op->n_results > 0 && op->results[0]->type->rank > 0;
        found = dims && carries && poly_nominal(dims->dims[0]) >= LONG_LOOP;
        for (int i = 0; i < op->n_regions && !found; i++) {
            found = has_long_loop(op->regions[i]);
        }
    }
    return found;
}

int64_t tile_serial_elements(const Func *func, const Op *group, int64_t all)
{
    if (!is_gpu(func) || !has_long_loop(group->regions[0])) {
        return 0;
    }
    int64_t least = func->target->warp, wide = least * min_i64(4, tile_widest_access(group));
    int64_t blocks = func->target->machine->num_sms * (int64_t)SERIAL_BLOCKS;
    int64_t each = power_of_two_at_most(max_i64(1, all / blocks));
    return each >= wide ? each : least;
}
