/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and limits the registers of a thread. Most values pass through a thread one element at a
 * time, but a value that is live across a dot occupies registers for all of its elements: the
 * accumulator, operands in registers, and loop-carried values. Their sum, at the dot where it is
 * greatest, must fit a thread.
 *
 * In launches without dots, the same count decides how many blocks share a multiprocessor: the
 * assembler reorders code only between branches and barriers, so a value that is live across one of
 * these occupies registers for all of its elements. */
#include "ir/ir_errors.h"
#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "ir/text/ir_text.h"
#include "passes/analysis/access_width.h"
#include "passes/layout/assign_layouts.h"
#include "support/int_math.h"

enum {
    OWN_REGISTERS = 16,   /* addresses, counters, descriptors */
    FRAGMENT_PLACES = 16, /* registers into which fragments of operands are loaded */
    REGISTER_BITS = 32,
    TILE_RESERVED = 8, /* the address of its source, and conditions */
    THREAD_RESERVED =
        8, /* what all threads have; or, where that is more, the addresses of tensors */
    ADDRESS = 2,
    GUARDED = 1,       /* an end along an axis, and what is compared with it */
    F64_RESERVED = 48, /* constants and parts of functions of f64 */
    GROUP = 8,         /* elements that are worked on at once */
    SURE = 2,          /* twice the counted registers are enough, whatever else is live */
    QUOTIENTS = 4,     /* elements divided in one group; a smaller group has no branch */
};

/* Where a value is made, and where it is read last, in program order; a loop around the reader but
 * not around the value reads it until its own end. */
typedef struct Life {
    const Value *value;
    int from, to;
} Life;

typedef struct Lives {
    LayoutPass *pass;
    Life *of; /* by id */
    uint32_t n;
    int now, last_barrier; /* the last branch or barrier */
    int64_t reserved;      /* registers that the whole launch has */
    int64_t places;  /* of the addresses of what is gathered */
    bool wide;       /* its elements are accessed by indices of 64 bits */
    const Op *worst; /* the op at which most registers are live */
    int64_t most;
    int worst_at;
} Lives;

static bool loops(const Op *op)
{
    return op->kind == OP_FOR || op->kind == OP_TILE_LOOP;
}

/* True if the value is in the registers of another value. */
static bool is_name(const Value *value)
{
    return value->def && (op_moves_axes(value->def) || value->def->kind == OP_CONVERT);
}

/* True if the value occupies registers: it is not rematerialized at its uses. */
static bool is_held(const Value *value)
{
    return value && layout_spreads(value) && value->type->layout && !layout_is_cheap(value) &&
           !is_name(value) && dtype_bits(value->type->dtype) > 1;
}

static int64_t registers_of(LayoutPass *pass, const Value *value)
{
    int64_t extents[MAX_RANK], n = 0;
    const Layout *layout = value->type->layout;
    layout_extents(pass, value->type, extents);
    for (int i = 0; i < layout_registers(layout); i++) {
        n += layout_register_exists(layout, extents, (uint32_t)i);
    }
    return (n * dtype_bits(value->type->dtype) + REGISTER_BITS - 1) / REGISTER_BITS;
}

static void note_made(Lives *lives, const Value *value)
{
    if (is_held(value) && value->id < lives->n) {
        lives->of[value->id] = (Life){value, lives->now, lives->now};
    }
}

static void note_block(Lives *lives, const Block *block);

static void note_op(Lives *lives, const Op *op)
{
    int begin = ++lives->now;
    for (int i = 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        while (value && is_name(value)) {
            value = value->def->operands[0];
        }
        if (value && value->id < lives->n && lives->of[value->id].value) {
            Life *life = &lives->of[value->id];
            life->to = life->to > begin ? life->to : begin;
        }
    }
    for (int i = 0; i < op->n_regions; i++) {
        for (int k = 0; k < op->regions[i]->n_args; k++) {
            note_made(lives, op->regions[i]->args[k]);
        }
        note_block(lives, op->regions[i]);
    }
    if (loops(op)) {
        lives->now++;
        /* A value that is defined before the loop and read inside lives until the loop ends. */
        for (uint32_t id = 0; id < lives->n; id++) {
            Life *life = &lives->of[id];
            if (life->value && life->from < begin && life->to > begin) {
                life->to = lives->now;
            }
        }
    }
    for (int i = 0; i < op->n_results; i++) {
        note_made(lives, op->results[i]);
    }
}

static void note_block(Lives *lives, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        note_op(lives, op);
    }
}

/* ---- at a product ---- */

static bool holds(const Life *life, const Op *product, int at)
{
    return life->value && life->value != dot_accumulator(product) &&
           (life->value == product->results[0] || (life->from < at && life->to >= at));
}

/* Registers for the operand fragments that a warp loads per k step of its instruction. */
static int64_t fragments_of(LayoutPass *pass, const Op *product)
{
    const MatrixInstr *unit = mma_of_dot(pass->func->target, product);
    const Layout *result = product->results[0]->type->layout;
    bool single = unit && mma_warps(unit) == 1 && result;
    return single ? mma_fragments(unit, result) + FRAGMENT_PLACES : 0;
}

static int64_t held_at(Lives *lives, const Op *product, int at)
{
    int64_t sum = OWN_REGISTERS + fragments_of(lives->pass, product);
    for (uint32_t id = 0; id < lives->n; id++) {
        if (holds(&lives->of[id], product, at)) {
            sum += registers_of(lives->pass, lives->of[id].value);
        }
    }
    return sum;
}

/* Products in program order, counted as note_op counts. */
static void find_worst(Lives *lives, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        int at = ++lives->now;
        if (op->kind == OP_DOT || op->kind == OP_DOT_ASYNC) {
            int64_t held = held_at(lives, op, at);
            if (held > lives->most) {
                lives->most = held;
                lives->worst = op;
                lives->worst_at = at;
            }
        }
        for (int i = 0; i < op->n_regions; i++) {
            find_worst(lives, op->regions[i]);
        }
        lives->now += loops(op);
    }
}

/* ---- what a thread has ---- */

static int64_t registers_there(LayoutPass *pass, const Op *product)
{
    const Op *roles = op_enclosing(product, OP_ROLES);
    if (roles && op_attr(roles, ATTR_REGISTERS)) {
        return layout_role_registers(roles, product);
    }
    return layout_launch_registers(pass, layout_warps(pass, product->parent));
}

/* ---- at a branch or a barrier ---- */

/* True for an op with a branch: a division checks quotients, and computes some again. */
static bool branches(LayoutPass *pass, const Op *op)
{
    const Value *result = op->n_results ? op->results[0] : NULL;
    return op->kind == OP_DIV && result->type->dtype == DT_F32 && is_held(result) &&
           registers_of(pass, result) >= QUOTIENTS;
}

static bool ends_reordering(LayoutPass *pass, const Op *op)
{
    switch (op->kind) {
    case OP_BARRIER:
    case OP_SCAN:
    case OP_FOLD:
    case OP_HISTOGRAM:
    case OP_RANK:
    case OP_TILE_SCATTER:
    case OP_LOOKUP:
    case OP_FOR:
    case OP_IF:
    case OP_WHILE:
    case OP_TILE_LOOP:
    case OP_YIELD: return true;
    case OP_REDUCE: return op->n_operands > 1; /* through shared memory */
    default: return branches(pass, op);
    }
}

/* True if the operand of a reduction is consumed one element at a time, as it is computed. */
static bool passes_by(const Op *op, const Value *value)
{
    return op->kind == OP_REDUCE && value == op->operands[0] && value->def &&
           (op_has(value->def, TRAIT_ELEMENTWISE) || value->def->kind == OP_MASK);
}

/* Registers for values that are exchanged through scratch memory; about half of them are loaded
 * ahead. */
static int64_t exchanged(const Value *scratch)
{
    int64_t bits = dtype_bits(scratch->type->dtype), extent;
    for (int i = 0; i < scratch->type->rank; i++) {
        bits *= poly_is_const(scratch->type->dims[i], &extent) ? extent : 1;
    }
    return bits / REGISTER_BITS / 2;
}

/* Registers of a scan or fold in addition to its operands: the prefixes of each element within the
 * thread and across threads, or the combined values; then those of other warps. */
static int64_t folded(LayoutPass *pass, const Op *op)
{
    bool scan = op->kind == OP_SCAN || op_int(op, ATTR_SCAN, 0);
    int64_t own = 0, others = 0;
    for (int i = 0; i < op->n_results; i++) {
        own += registers_of(pass, op->operands[i]) * (scan ? 2 : 1);
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        others += operand && operand->type->kind == TYPE_SHARED ? exchanged(operand) : 0;
    }
    return own > others ? own : others;
}

/* True if the loop carries indices of maxima or minima. */
static bool carries_places(LayoutPass *pass, const Op *op)
{
    bool found = false;
    for (int i = 0; op->kind == OP_YIELD && i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        found = found || (is_held(value) && dtype_bits(value->type->dtype) > REGISTER_BITS &&
                          registers_of(pass, value) >= GROUP);
    }
    return found;
}

/* Registers of an op in addition to its operands. An argmax selects between two indices, both of
 * which are live. Elements that are divided as they are computed are live together with the few
 * quotients that are checked at a time. Indices of 64 bits are computed where they are used. */
static int64_t at_hand(const Lives *lives, const Op *op)
{
    int64_t sum = 0;
    if (op->kind == OP_SCAN || op->kind == OP_FOLD) {
        sum = folded(lives->pass, op);
        /* With fewer elements per thread than a group, the registers of indices and conditions are
         * negligible. */
        if (registers_of(lives->pass, op->operands[0]) < GROUP) {
            return sum;
        }
        sum += GROUP; /* conditions */
    } else if (carries_places(lives->pass, op)) {
        sum = GROUP;
    } else if (op->kind == OP_DIV && branches(lives->pass, op)) {
        const Life *dividend = &lives->of[op->operands[0]->id];
        bool passes = !dividend->value || dividend->from > lives->last_barrier;
        sum += passes ? 2 * GROUP : 0;
    }
    return sum + (sum && lives->wide ? 2 * GROUP : 0);
}

/* True if a loop-carried argument is still read where its next value is computed. */
static bool outlived(const Lives *lives, const Op *yield, const Life *made)
{
    const Op *loop = yield->parent->parent;
    const Block *body = loop->regions[0];
    for (int i = 0; loops(loop) && i < yield->n_operands; i++) {
        const Value *before = body->args[body->n_args - yield->n_operands + i];
        if (yield->operands[i] == made->value && lives->of[before->id].to > made->from) {
            return true;
        }
    }
    return false;
}

/* True if the value is loaded from memory. */
static bool is_read(const Value *value)
{
    OpKind kind = value->def ? value->def->kind : OP_COUNT;
    return kind == OP_LOAD || kind == OP_SHARED_LOAD || kind == OP_GATHER;
}

/* Registers of a thread during `op`, which has the number `at` in program order. */
static int64_t wanted_at(const Lives *lives, const Op *op, int at)
{
    int64_t sum = lives->reserved + at_hand(lives, op);
    int64_t few = 0;
    bool wide = false;
    for (uint32_t id = 0; id < lives->n; id++) {
        const Life *life = &lives->of[id];
        if (!life->value || life->from >= at || life->to < at ||
            (life->to == at && passes_by(op, life->value))) {
            continue;
        }
        int64_t own = registers_of(lives->pass, life->value);
        if (own < GROUP) {
            few += own; /* is counted among the additional registers, as far as they suffice */
            continue;
        }
        wide = wide || life->value->type->dtype == DT_F64;
        /* The loop-carried values are then copied a few elements at a time. */
        bool carried = op->kind == OP_YIELD && outlived(lives, op, life);
        int words = (dtype_bits(life->value->type->dtype) + REGISTER_BITS - 1) / REGISTER_BITS;
        sum += own + (is_read(life->value) ? words * TILE_RESERVED : 0) + (carried ? GROUP : 0);
    }
    return sum + (few > THREAD_RESERVED ? few - THREAD_RESERVED : 0) + (wide ? F64_RESERVED : 0);
}

static void find_wanted(Lives *lives, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        int at = ++lives->now;
        bool ends = ends_reordering(lives->pass, op);
        if (ends || op->kind == OP_REDUCE) { /* its result is computed from all elements */
            int64_t wanted = wanted_at(lives, op, at);
            lives->worst = wanted > lives->most ? op : lives->worst;
            lives->worst_at = wanted > lives->most ? at : lives->worst_at;
            lives->most = wanted > lives->most ? wanted : lives->most;
            lives->last_barrier = ends ? at : lives->last_barrier;
        }
        for (int i = 0; i < op->n_regions; i++) {
            find_wanted(lives, op->regions[i]);
        }
        lives->now += loops(op);
    }
}

static Lives lives_of(LayoutPass *pass, const Op *launch)
{
    Lives lives = {.pass = pass, .n = pass->func->n_values};
    lives.of = ARENA_ARRAY(pass->func->arena, Life, lives.n);
    note_block(&lives, launch->regions[0]);
    lives.now = 0;
    return lives;
}

static void note_reserved(Op *op, void *user)
{
    Lives *lives = user;
    const Type made = op->n_results ? op->results[0]->type : NULL;
    lives->wide |=
        op->kind == OP_INDEX && made->rank > 0 && dtype_bits(made->dtype) > REGISTER_BITS;
    if (op->kind == OP_LOAD || op->kind == OP_STORE) {
        const Attr *guard = op_attr(op, ATTR_GUARD);
        lives->reserved += ADDRESS;
        for (int i = 0; guard && i < guard->n; i++) {
            lives->reserved += guard->ints[i] ? GUARDED : 0;
        }
    }
    if (op->kind == OP_GATHER && is_held(op->results[0])) { /* each access has its own */
        int64_t places = 2 * ADDRESS * registers_of(lives->pass, op->results[0]);
        places /= an_width(lives->pass->func, op);
        lives->places = places > lives->places ? places : lives->places;
    }
}

/* Roles exchange registers; how many each one gets was chosen together with the tiles. */
static bool has_roles(const Op *launch)
{
    return block_contains(launch->regions[0], OP_ROLES);
}

/* True if blocks of the launch wait for one another. The number of co-resident blocks is chosen
 * with the tiles (tile_lookback.c): the code of a scan processes its elements in order, so it never
 * holds all of them twice. */
static bool awaits(const Op *launch)
{
    return block_contains(launch->regions[0], OP_SPIN_LOAD);
}

/* Maximum blocks of the grid per multiprocessor; registers for more blocks are not needed. A very
 * large number if it is not known, or if blocks are not assigned one by one. */
static int64_t dealt_out(const LayoutPass *pass, const Op *launch)
{
    const Attr *dims = op_attr(launch, ATTR_DIMS), *steps = op_attr(launch, ATTR_STEPS);
    int64_t blocks = 1;
    if (!dims || !steps || op_int(launch, ATTR_PERSISTENT, 0) ||
        op_int(launch, ATTR_CLUSTER, 1) > 1 || op_attr(launch, ATTR_MULTICAST)) {
        return INT64_MAX;
    }
    for (int i = 0; i < dims->n; i++) {
        int64_t most = poly_most(dims->dims[i]);
        if (steps->ints[i] <= 0 || most > INT32_MAX) {
            return INT64_MAX;
        }
        int64_t tiles = most / steps->ints[i] + (most % steps->ints[i] != 0);
        blocks *= tiles > 1 ? tiles : 1;
        if (blocks > INT32_MAX) {
            return INT64_MAX;
        }
    }
    return (blocks + pass->func->target->machine->num_sms - 1) /
           pass->func->target->machine->num_sms;
}

/* How many blocks have enough registers if each thread needs this many. The warps of a block are
 * divided among the schedulers of a multiprocessor, each of which has its own registers. */
static int64_t blocks_of_registers(LayoutPass *pass, const Op *launch, int64_t each)
{
    const Target *target = pass->func->target;
    int64_t parts = target->family == FAMILY_NVPTX ? target->schedulers : 1;
    int64_t warps = target->registers / parts / ((int64_t)pass->lanes * each) * parts;
    return warps / (int64_t)layout_warps(pass, launch->regions[0]);
}

static Lives wanted_lives(LayoutPass *pass, const Op *launch)
{
    Lives lives = lives_of(pass, launch);
    block_walk(launch->regions[0], note_reserved, &lives);
    lives.reserved = lives.reserved > THREAD_RESERVED ? lives.reserved : THREAD_RESERVED;
    lives.reserved += lives.places + pass->func->target->register_margin;
    find_wanted(&lives, launch->regions[0]);
    return lives;
}

/* ---- what the user's entries make too large ---- */

static bool sizes_are_given(const Func *func)
{
    return schedule_has_user_entry((Func *)func, "tile") ||
           schedule_has_user_entry((Func *)func, "warps");
}

/* The tiles that are live as a whole where most registers are, a line each; returns the registers
 * of them and of what every thread has. */
static int64_t list_tiles(const Lives *lives, Text *out)
{
    int64_t sum = THREAD_RESERVED;
    text_add(out, "registers of a thread, by tile:");
    for (uint32_t id = 0; id < lives->n; id++) {
        const Life *life = &lives->of[id];
        int64_t own = life->value ? registers_of(lives->pass, life->value) : 0;
        bool live = life->value && life->from < lives->worst_at && life->to >= lives->worst_at &&
                    !(life->to == lives->worst_at && passes_by(lives->worst, life->value));
        if (live && own >= GROUP) {
            sum += own;
            text_printf(out, "\n%6lld  %s, ", (long long)own,
                        life->value->name ? life->value->name : "a tile");
            print_type(lives->pass->func, life->value->type, out);
        }
    }
    text_printf(out, "\n%6d  addresses and counters\n%6lld  in all", THREAD_RESERVED,
                (long long)sum);
    return sum;
}

/* Tiles, warps and blocks that the user gives: what lives at once must fit the registers that they
 * leave a thread. Derived blocks are lowered instead; of one block the tiles alone must fit, as a
 * thread may spill a few addresses. */
static void check_given(LayoutPass *pass, const Op *launch, int64_t blocks)
{
    Func *func = pass->func;
    const Block *body = launch->regions[0];
    int64_t step = func->target->register_step;
    if (block_contains(body, OP_DOT) || block_contains(body, OP_DOT_ASYNC)) {
        return; /* layout_check_registers has looked at it */
    }
    Lives lives = wanted_lives(pass, launch);
    int64_t available = func->target->registers_thread;
    while (available > step &&
           blocks_of_registers(pass, launch, round_up(available, step)) < blocks) {
        available = (available - 1) / step * step;
    }
    Text table = text_new(func->arena);
    int64_t held = lives.worst ? list_tiles(&lives, &table) : 0;
    if (held - (blocks > 1 ? 0 : THREAD_RESERVED) > available) {
        Diag *diag = diag_error(
            func->diags, ERR_REGISTERS, lives.worst->span,
            "kernel %s needs %lld registers per thread for live tiles; a thread of %s has %lld "
            "in %lld block%s of %lld threads",
            func->name, (long long)held, func->target->name, (long long)available,
            (long long)blocks, blocks == 1 ? "" : "s",
            (long long)layout_warps(pass, body) * pass->lanes);
        diag_note(func->diags, diag, "%s", table.data);
        layout_request_retry(func, launch);
    }
}

static void share_unit(LayoutPass *pass, Op *launch)
{
    Func *func = pass->func;
    int64_t step = func->target->register_step;
    int64_t blocks = op_int(launch, ATTR_OCCUPANCY, 1);
    const ScheduleEntry *given = blocks > 1 ? schedule_user_entry(func, "occupancy", "") : NULL;
    if (given && given->number < blocks) { /* of a launch whose tiles were not chosen by tile */
        op_set_int(func, launch, ATTR_OCCUPANCY, given->number > 1 ? given->number : 1);
    }
    if (awaits(launch) || has_roles(launch)) {
        return;
    }
    if (given || sizes_are_given(func)) {
        check_given(pass, launch, given ? op_int(launch, ATTR_OCCUPANCY, 1) : 1);
    }
    if (blocks <= 1 || given) {
        return;
    }
    Lives lives = wanted_lives(pass, launch);
    int64_t each = (lives.most + step - 1) / step * step;
    int64_t dealt = dealt_out(pass, launch);
    int64_t available = blocks_of_registers(pass, launch, each ? each : 1);
    if (dealt < blocks && dealt <= available && available < SURE * blocks) {
        blocks = schedule_decide_int(func, "occupancy", "", dealt,
                                     "a multiprocessor gets no more of the grid's");
        op_set_int(func, launch, ATTR_OCCUPANCY, blocks);
    } else if (available < blocks) {
        blocks =
            schedule_decide_int(func, "occupancy", "", available > 1 ? available : 1,
                                "live values occupy %lld registers of a thread", (long long)each);
        op_set_int(func, launch, ATTR_OCCUPANCY, blocks);
    }
}

void layout_limit_occupancy(LayoutPass *pass)
{
    for (Op *op = pass->func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            schedule_at_op(pass->func, op);
            share_unit(pass, op);
        }
    }
    schedule_at_launch(pass->func, EVERY_LAUNCH);
}

/* ---- across products ---- */

static const char *table(Lives *lives)
{
    Text text = text_new(lives->pass->func->arena);
    text_add(&text, "registers of a thread, by tile:");
    for (uint32_t id = 0; id < lives->n; id++) {
        const Value *value = lives->of[id].value;
        if (holds(&lives->of[id], lives->worst, lives->worst_at)) {
            const char *what = value == lives->worst->results[0] ? "the product" : "a tile";
            text_printf(&text, "\n%6lld  %s, ", (long long)registers_of(lives->pass, value),
                        value->name ? value->name : what);
            print_type(lives->pass->func, value->type, &text);
        }
    }
    int64_t fragments = fragments_of(lives->pass, lives->worst);
    if (fragments) {
        text_printf(&text, "\n%6lld  fragments of operands", (long long)fragments);
    }
    text_printf(&text, "\n%6d  addresses and counters\n%6lld  in all", OWN_REGISTERS,
                (long long)lives->most);
    return text.data;
}

void layout_check_registers(LayoutPass *pass)
{
    for (const Op *op = pass->func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            Func *func = pass->func;
            Lives lives = lives_of(pass, op);
            find_worst(&lives, op->regions[0]);
            int64_t most = lives.worst ? registers_there(pass, lives.worst) : 0;
            if (lives.most > most) {
                Diag *diag = diag_error(
                    func->diags, ERR_REGISTERS, lives.worst->span,
                    "kernel %s needs %lld registers per thread for values that are live across a "
                    "dot; a thread of %s has %lld in this role",
                    func->name, (long long)lives.most, func->target->name, (long long)most);
                diag_note(func->diags, diag, "%s", table(&lives));
            }
        }
    }
}
