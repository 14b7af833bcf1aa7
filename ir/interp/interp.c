/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point of the interpreter, the scheduling of its agents, and the dispatch of ops. */
#include "ir/interp/interp_internal.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/text/ir_text.h"

#include <string.h>

/* ---- services ---- */

static void report(InterpRun *run, DiagClass kind, const Op *op, const char *format, va_list args)
{
    if (run->options->kind) {
        *run->options->kind = kind;
    }
    text_printf(run->problem, "%s: ", run->func->name);
    if (run->agent && run->agent->id > 0) {
        text_printf(run->problem, "%s: ", run->agent->name);
    }
    text_vprintf(run->problem, format, args);
    if (op && run->options->where && op->span.end > op->span.start) {
        *run->options->where = op->span;
    } else if (op) {
        text_add(run->problem, ", in: ");
        print_op(run->func, op, run->problem);
    }
}

void run_fail(InterpRun *run, const Op *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(run, DIAG_FAULT, op, format, args);
    va_end(args);
    longjmp(run->failed, 1);
}

void run_refuse(InterpRun *run, DiagClass kind, const Op *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(run, kind, op, format, args);
    va_end(args);
    longjmp(run->failed, 1);
}

/* splitmix64 */
uint64_t run_random(InterpRun *run)
{
    uint64_t z = run->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t run_dim(InterpRun *run, const Op *op, const int64_t *values, Dim dim)
{
    int64_t value;
    if (!poly_eval(dim, values, &value)) {
        run_refuse(run, DIAG_SOURCE, op, "a size overflows");
    }
    if (value < 0) {
        run_refuse(run, DIAG_SOURCE, op, "a size of %lld", (long long)value);
    }
    return value;
}

static Array *array_of(InterpRun *run, const Op *op, const Value *value)
{
    Array *array = value ? run->cells[value->id].array : NULL;
    if (!array) {
        run_fail(run, op, "an operand has no value yet");
    }
    return array;
}

Array *run_unsettled(InterpRun *run, const Op *op, int n)
{
    return array_of(run, op, op->operands[n]);
}

Array *run_operand(InterpRun *run, const Op *op, int n)
{
    Array *array = run_unsettled(run, op, n);
    if (array->product) {
        run_fail(run, op, "operand %d is a product that is not settled", n);
    }
    return array;
}

int64_t run_integer(InterpRun *run, const Op *op, Value *value)
{
    const Array *array = array_of(run, op, value);
    if (array->n != 1 || dtype_is_float(array->dtype)) {
        run_fail(run, op, "an index, bound or condition that is no integer scalar");
    }
    if (array_has_poison(array)) {
        run_fail(run, op, "an index, bound or condition depends on padding or unset memory");
    }
    return array_scalar(array, 0).i;
}

void run_result(InterpRun *run, const Op *op, int n, Array *array)
{
    Cell *cell = &run->cells[op->results[n]->id];
    array_drop(run, cell->array);
    cell->array = array;
}

/* ---- one op ---- */

static void run_roles(InterpRun *run, const Op *op);

static void run_leaf(InterpRun *run, const Op *op)
{
    switch (op->kind) {
    case OP_REDUCE: interp_reduce(run, op); break;
    case OP_REDUCE_PARTS: interp_reduce_parts(run, op); break;
    case OP_REPEAT_PARTS: interp_repeat_parts(run, op); break;
    case OP_CLUSTER_REDUCE: interp_cluster_reduce(run, op); break;
    case OP_CLUSTER_REDUCE_SCATTER: interp_cluster_scatter(run, op); break;
    case OP_SCAN: interp_scan(run, op); break;
    case OP_FOLD: interp_fold(run, op); break;
    case OP_SORT: interp_sort(run, op); break;
    case OP_HISTOGRAM: interp_histogram(run, op); break;
    case OP_RANK: interp_rank(run, op); break;
    case OP_TILE_SCATTER: interp_arrange(run, op); break;
    case OP_LOOKUP: interp_lookup(run, op); break;
    case OP_DOT: interp_dot(run, op); break;
    case OP_GATHER: interp_gather(run, op); break;
    case OP_SCATTER: interp_scatter(run, op); break;
    case OP_SPIN_LOAD: interp_await(run, op); break;
    case OP_PRINT:
    case OP_ASSERT: interp_say(run, op); break;
    case OP_LOAD: interp_load(run, op); break;
    case OP_STORE: interp_store(run, op); break;
    case OP_SHARED: interp_shared(run, op); break;
    case OP_MBARRIER: interp_barrier(run, op); break;
    case OP_SHARED_LOAD: interp_shared_load(run, op); break;
    case OP_SHARED_STORE: interp_shared_store(run, op); break;
    default: interp_shape(run, op); break;
    }
}

/* Executes one op of the current agent; false: the agent has to wait. */
static bool step(InterpRun *run)
{
    Agent *agent = run->agent;
    Frame *frame = &agent->frames.items[agent->frames.n - 1];
    const Op *op = frame->at;
    if (!op || op->kind == OP_YIELD) {
        control_end(run, op);
        agent->done = agent->frames.n == 0;
        return true;
    }
    run->steps++;
    if (run->options->most_steps && run->steps > run->options->most_steps) {
        run_fail(run, op, "more than %lld steps", (long long)run->options->most_steps);
    }
    if (interp_is_sync(op->kind)) {
        if (!interp_async(run, op)) {
            agent->waiting = op;
            return false;
        }
        agent->waiting = NULL;
        frame->at = op->next;
    } else {
        frame->at = op->next; /* before a region op grows the list of frames */
        if (op->kind == OP_ROLES) {
            run_roles(run, op);
        } else if (op_has(op, TRAIT_REGION) && op->kind != OP_FOLD) {
            control_begin(run, op);
        } else if (op_has(op, TRAIT_ELEMENTWISE)) {
            interp_elementwise(run, op);
        } else {
            run_leaf(run, op);
        }
    }
    if (run->options->watch) {
        interp_watch(run, op);
    }
    /* An operand whose last use is this op is released, unless a trace may still ask for it. */
    if (!run->options->watch || !run->options->watch->tensor) {
        for (int i = 0; i < op->n_operands; i++) {
            const Value *value = op->operands[i];
            if (value && value->type->kind == TYPE_ARRAY && run->last_use[value->id] == op) {
                array_drop(run, run->cells[value->id].array);
                run->cells[value->id].array = NULL;
            }
        }
    }
    return true;
}

void run_region(InterpRun *run, const Op *op, const Block *block)
{
    size_t base = run->agent->frames.n;
    Frame frame = {.op = op, .block = block, .at = block->first};
    ARENA_PUSH(run->arena, &run->agent->frames, frame);
    for (;;) {
        const Op *at = run->agent->frames.items[run->agent->frames.n - 1].at;
        if (run->agent->frames.n == base + 1 && (!at || at->kind == OP_YIELD)) {
            break;
        }
        if (at && interp_is_sync(at->kind)) {
            run_fail(run, at, "not in a fold");
        }
        step(run);
    }
    run->agent->frames.n--;
}

/* ---- agents ---- */

/* Runs the agent past its next synchronizing op, or to its end; false: it could not move. */
static bool burst(InterpRun *run, Agent *agent)
{
    run->agent = agent;
    bool moved = false;
    while (!agent->done) {
        const Op *op = agent->frames.items[agent->frames.n - 1].at;
        if (!step(run)) {
            return moved;
        }
        moved = true;
        if (op && (interp_is_sync(op->kind) || op->kind == OP_CLUSTER_REDUCE ||
                   op->kind == OP_CLUSTER_REDUCE_SCATTER)) {
            return true;
        }
    }
    return moved;
}

/* One scheduling round: an agent drawn from the seed moves, or a bulk load arrives. */
static bool round_of(InterpRun *run, Agent *agents, int n)
{
    if (cluster_left(run) && agents[0].id) { /* only roles: the block's own agent ends the block */
        return false;
    }
    if (run_random(run) % 4 == 0) {
        async_complete_one(run);
    }
    int first = (int)(run_random(run) % (uint64_t)n);
    bool left = false;
    for (int i = 0; i < n; i++) {
        Agent *agent = &agents[(first + i) % n];
        if (!agent->done && burst(run, agent)) {
            return true;
        }
        left |= !agent->done;
    }
    if (left && !async_complete_one(run)) {
        /* Deadlock: the message lists the op at which each agent waits. */
        Text who = text_new(run->arena);
        const Op *op = NULL;
        for (int i = 0; i < n; i++) {
            if (!agents[i].done && agents[i].waiting) {
                text_printf(&who, "%s%s at ", op ? "; " : "", agents[i].name);
                print_op(run->func, agents[i].waiting, &who);
                op = agents[i].waiting;
            }
        }
        run->agent = NULL;
        run_fail(run, NULL, "deadlock: no thread can continue: %s", who.data);
    }
    return left;
}

static void run_agents(InterpRun *run, Agent *agents, int n)
{
    while (round_of(run, agents, n)) {}
}

static void begin_role(InterpRun *run, const Op *op, Agent *agent, int role, const Agent *parent)
{
    if (run->n_agents == MAX_AGENTS) {
        run_fail(run, op, "more than %d roles in a block", MAX_AGENTS - 1);
    }
    agent->id = (int)run->n_agents++;
    agent->name = arena_printf(run->arena, "role %d", agent->id - 1);
    agent->clock = 1;
    agent->known = parent->known;
    Frame frame = {.op = op, .block = op->regions[role], .at = op->regions[role]->first};
    ARENA_PUSH(run->arena, &agent->frames, frame);
}

static void run_roles(InterpRun *run, const Op *op)
{
    Agent *parent = run->agent;
    Buffer *memory = buffer_zeroed(run, sizeof(Agent) * op->n_regions);
    Agent *agents = (Agent *)(void *)memory->bytes;
    for (int i = 0; i < op->n_regions; i++) {
        begin_role(run, op, &agents[i], i, parent);
    }
    run_agents(run, agents, op->n_regions);
    for (int i = 0; i < op->n_regions; i++) {
        run->agent = &agents[i];
        if (cluster_left(run)) {
            /* The block will run again from its start: the role's frames are dropped. */
            Agent *agent = &agents[i];
            while (agent->frames.n) {
                drop_block(run, agent->frames.items[--agent->frames.n].block);
            }
            continue;
        }
        async_end_agent(run, &agents[i], op);
        clocks_release(run, &agents[i], &parent->joined);
    }
    run->agent = parent;
    if (cluster_left(run)) {
        parent->frames.items[parent->frames.n - 1].at = NULL;
    }
    buffer_drop(run, memory);
}

/* ---- last uses and sources of samples ---- */

static bool begins_samples(OpKind kind)
{
    switch (kind) {
    case OP_REDUCE:
    case OP_CLUSTER_REDUCE:
    case OP_CLUSTER_REDUCE_SCATTER:
    case OP_SCAN:
    case OP_FOLD:
    case OP_SORT:
    case OP_GATHER:
    case OP_DOT:
    case OP_DOT_ASYNC:
    case OP_CAST:
    case OP_LOAD:
    case OP_SHARED_LOAD: return true;
    default: return op_info(kind)->traits & TRAIT_APPROX;
    }
}

/* Are sums taken of the value, or of what is made of it: as masked elements, or times a factor that
 * leaves the sum? */
static bool find_sum(Memo *seen, const Value *value)
{
    bool found = false;
    for (const ValueUse *use = value->uses; use && !found; use = use->next) {
        const Op *op = use->op;
        bool passes = op->kind == OP_SELECT || op->kind == OP_ADD || op->kind == OP_SUB ||
                      op->kind == OP_MUL || op->kind == OP_DIV || op->kind == OP_FMA ||
                      op->kind == OP_NEG || op_moves_axes(op);
        found = (op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum")) ||
                (passes && memo_visit(seen, op->results[0]) && find_sum(seen, op->results[0]));
    }
    return found;
}

static bool is_summed(Func *func, const Value *value)
{
    Memo *seen = memo_open(func);
    bool found = find_sum(seen, value);
    memo_close(seen);
    return found;
}

/* Records each value's last use, the scattered tensors, a random source per inexact result, and
 * whether exponentials are summed. A nested region may run again, so a value that it uses lives
 * until the value's own region ends. */
static void collect_uses(InterpRun *run, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->n_operands; i++) {
            const Value *value = op->operands[i];
            if (value) {
                run->last_use[value->id] =
                    (value->def ? value->def->parent : value->block) == block ? op : NULL;
            }
        }
        if (op->kind == OP_SCATTER) {
            run->scattered[op->operands[0]->id] = true;
        }
        run->sums_exponentials =
            run->sums_exponentials ||
            (op->kind == OP_NAMED && text_equal(op_word(op, ATTR_FN), "exp") &&
             is_summed(run->func, op->results[0]));
        for (int i = 0; begins_samples(op->kind) && i < op->n_results; i++) {
            run->source[op->results[i]->id] = run->sources++;
        }
        for (int i = 0; i < op->n_regions; i++) {
            collect_uses(run, op->regions[i]);
        }
    }
}

/* ---- parameters ---- */

/* The strides along the parameter's own axes; NULL: it is contiguous. */
static const int64_t *strides_of(InterpRun *run, const Param *param, const int64_t *given,
                                 const int64_t *dims)
{
    int rank = param->value->type->rank;
    int64_t whole[MAX_RANK], stride = 1;
    int64_t *strides = ARENA_ARRAY(run->arena, int64_t, rank);
    if ((!given && !param->axis_perm) || param->collapsed) {
        return NULL;
    }
    for (int axis = 0; axis < rank; axis++) {
        whole[param_axis(param, axis)] = dims[axis];
    }
    for (int axis = rank - 1; axis >= 0 && !given; axis--) {
        int64_t extent = whole[axis];
        whole[axis] = stride;
        stride = (int64_t)((uint64_t)stride * (uint64_t)extent);
    }
    for (int axis = 0; axis < rank; axis++) {
        strides[axis] = (given ? given : whole)[param_axis(param, axis)];
    }
    return strides;
}

static void bind_tensor(InterpRun *run, const Param *param, const InterpArg *arg)
{
    Memory *memory = ARENA_NEW(run->arena, Memory);
    Type type = param->value->type;
    memory->name = param->name ? param->name : "a tensor";
    memory->dtype = type->dtype;
    memory->rank = type->rank;
    memory->n = 1;
    for (int i = 0; i < type->rank; i++) {
        memory->dims[i] = run_dim(run, NULL, run->lens, type->dims[i]);
        if (__builtin_mul_overflow(memory->n, memory->dims[i], &memory->n)) {
            run_fail(run, NULL, "%s is too large", memory->name);
        }
    }
    memory->data = arg->tensor.data;
    memory->strides = strides_of(run, param, arg->tensor.strides, memory->dims);
    if (param->io == PARAM_SCRATCH || param->io == PARAM_OUT) {
        memory->unset = ARENA_ARRAY(run->arena, uint8_t, memory->n);
        memset(memory->unset, 1, (size_t)memory->n);
    }
    if (param->io == PARAM_SCRATCH) {
        size_t bytes = dtype_size(memory->dtype, (size_t)memory->n);
        memory->data = arena_alloc(run->arena, bytes);
        memset(memory->data, run->options->seed & 1 ? 0x7f : 0xff, bytes);
        memory->bounds = run->options->bounds ? ARENA_ARRAY(run->arena, double, memory->n) : NULL;
        memory->changes = ARENA_NEW(run->arena, uint64_t);
    }
    if (param->io != PARAM_IN) {
        memory->writers = ARENA_ARRAY(run->arena, uint32_t, memory->n);
    }
    bool asked = memory->writers && param->io != PARAM_SCRATCH && arg->tensor.bound;
    if (run->options->bounds && asked && memory->n) {
        memory->bounds =
            param->axis_perm ? ARENA_ARRAY(run->arena, double, memory->n) : arg->tensor.bound;
        memset(memory->bounds, 0, (size_t)memory->n * sizeof(double));
    }
    if (run->scattered[param->value->id] && memory->writers) {
        memory_mark(run, memory);
    }
    run->cells[param->value->id].memory = memory;
}

/* Copies error bounds, which are stored in the order of the tensor's own axes, to the caller's
 * axes. */
static void return_bounds(InterpRun *run, const Param *param, const InterpArg *arg)
{
    const Memory *memory = run->cells[param->value->id].memory;
    int64_t steps[MAX_RANK], step = 1;
    for (int at = memory->rank - 1; at >= 0; at--) { /* the caller's axes */
        for (int axis = 0; axis < memory->rank; axis++) {
            if (param_axis(param, axis) == at) {
                steps[axis] = step;
                step *= memory->dims[axis];
            }
        }
    }
    for (int64_t i = 0; i < memory->n; i++) {
        int64_t rest = i, to = 0;
        for (int axis = memory->rank - 1; axis >= 0; axis--) {
            to += rest % memory->dims[axis] * steps[axis];
            rest /= memory->dims[axis];
        }
        arg->tensor.bound[to] = memory->bounds[i];
    }
}

/* The memory of the tensor that the parameter is an alias of, with its own axes. */
static void bind_alias(InterpRun *run, const Param *param)
{
    Memory *memory = ARENA_NEW(run->arena, Memory);
    *memory = *run->cells[param->alias->id].memory;
    memory->rank = param->value->type->rank;
    for (int i = 0; i < memory->rank; i++) {
        memory->dims[i] = run_dim(run, NULL, run->lens, param->value->type->dims[i]);
    }
    run->cells[param->value->id].memory = memory;
}

static void bind_params(InterpRun *run, const InterpArg *args)
{
    for (size_t i = 0; i < run->func->params.n; i++) {
        static const InterpArg none = {0};
        const Param *param = &run->func->params.items[i];
        if (param->im2col) {
            interp_bind_view(run, param);
        } else if (param->alias) {
            bind_alias(run, param);
        } else if (param->io == PARAM_SCRATCH) {
            bind_tensor(run, param, &none); /* the caller's `args` hold no scratch */
        } else if (param->value->type->kind == TYPE_TENSOR) {
            bind_tensor(run, param, &args[i]);
        } else {
            const InterpArg *arg = &args[i];
            Array *array = array_new(run, param->value->type->dtype, 0, NULL);
            bool is_float = dtype_is_float(array->dtype);
            array_fill(array, is_float ? (Scalar){.f = arg->number} : (Scalar){.i = arg->integer});
            run->cells[param->value->id].array = array;
        }
    }
}

/* ---- entry ---- */

static InterpRun *run_new(Func *func, Arena *arena, const int64_t *sizes,
                          const InterpOptions *options, Text *problem)
{
    InterpRun *run = ARENA_NEW(arena, InterpRun);
    run->func = func;
    run->arena = arena;
    run->options = options;
    run->problem = problem;
    run->random = options->seed;
    run->cells = ARENA_ARRAY(arena, Cell, func->n_values);
    run->last_use = ARENA_ARRAY(arena, const Op *, func->n_values);
    run->source = ARENA_ARRAY(arena, uint32_t, func->n_values);
    run->scattered = ARENA_ARRAY(arena, bool, func->n_values);
    run->extents = ARENA_ARRAY(arena, int64_t, func->dimvars.n);
    run->lens = ARENA_ARRAY(arena, int64_t, func->dimvars.n);
    for (size_t i = 0; i < func->dimvars.n; i++) {
        bool is_size = func->dimvars.items[i]->kind == DIM_SIZE;
        run->extents[i] = run->lens[i] = is_size ? sizes[i] : 0;
    }
    return run;
}

static bool run_body(InterpRun *run, const InterpArg *args)
{
    if (setjmp(run->failed)) {
        return false;
    }
    for (size_t i = 0; i < run->func->functions.n; i++) {
        collect_uses(run, run->func->functions.items[i].block);
    }
    collect_uses(run, run->func->body);
    bind_params(run, args);
    Agent *block = ARENA_NEW(run->arena, Agent);
    block->name = "the block";
    block->clock = 1;
    run->n_agents = 1;
    Frame body = {.block = run->func->body, .at = run->func->body->first};
    ARENA_PUSH(run->arena, &block->frames, body);
    run_agents(run, block, 1);
    for (size_t i = 0; i < run->func->params.n; i++) {
        const Param *param = &run->func->params.items[i];
        if (param->axis_perm && param->io != PARAM_IN &&
            run->cells[param->value->id].memory->bounds) {
            return_bounds(run, param, &args[i]);
        }
    }
    return true;
}

/* When memory runs out, the run's arena is freed and the error continues at the outer guard. */
static void out_of_memory(Func *func, Arena *arena, jmp_buf *outer)
{
    arena_free(arena);
    func->arena->guard = outer;
    if (outer) {
        longjmp(*outer, 1);
    }
}

bool interp_func(Func *func, const InterpArg *args, const int64_t *sizes,
                 const InterpOptions *options, Text *problem)
{
    Arena *arena = ARENA_NEW(func->arena, Arena); /* not a local: it lives across a longjmp */
    jmp_buf *outer = func->arena->guard;
    jmp_buf guard;
    arena_init(arena, func->arena->allocator);
    if (setjmp(guard)) {
        out_of_memory(func, arena, outer);
        return false;
    }
    arena->guard = func->arena->guard = &guard;
    bool fine = run_body(run_new(func, arena, sizes, options, problem), args);
    func->arena->guard = outer;
    arena_free(arena);
    return fine;
}
