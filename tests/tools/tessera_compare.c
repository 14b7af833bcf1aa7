/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program in the interpreter before the first pass and after every pass, with several
 * orders of blocks and roles, and compares the results. An error of a pass is thus found at that
 * pass, without any device. From the pass on that chooses the steps of loops, the comparison is
 * with the original program run with those steps, because values that are rounded once per step
 * depend on them.
 *
 *     tessera-compare [--target NAME] [--set KEY[.SUB]=VALUE]… [--seeds N] [--facts]
 *                   --size M=5,N=7 FILE
 *
 * FILE is IR text of the tensor level. --facts gives the passes the facts that follow from the
 * sizes (multiples, bounds), as in a compilation for known sizes. The exit code is 5 if results
 * differ. */
#include "ir/interp/interp.h"
#include "ir/loop_steps.h"
#include "ir/target/target.h"
#include "ir/text/ir_text.h"
#include "tests/tools/shared/ir_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMS = 64, MAX_LINES = 32 };

typedef struct Options {
    const char *target, *file, *sizes;
    const char *lines[MAX_LINES];
    int n_lines;
    bool facts;
    uint64_t seeds;
} Options;

typedef struct Run {
    Func *func;
    Diags *diags;
    Arena *arena;
    int64_t sizes[256];
    InterpArg args[MAX_PARAMS];
    size_t elements[MAX_PARAMS];
    void *first[MAX_PARAMS]; /* what inout tensors hold before */
    void *want[MAX_PARAMS];
    double *bound[MAX_PARAMS];
    Func *walked; /* as it was, in the steps of its schedule; NULL: they are the same, or taken */
    uint64_t seeds;
    int64_t compared, different;
} Run;

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double random_normal(uint64_t *state)
{
    double u = ((double)(random_next(state) >> 11) + 1) * 0x1p-53;
    double v = (double)(random_next(state) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static int usage(const char *what)
{
    fprintf(stderr, "tessera-compare: %s\n", what);
    return 2;
}

static bool parse_options(int argc, char **argv, Options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--facts") == 0) {
            o->facts = true;
            continue;
        }
        if (argv[i][0] != '-') {
            o->file = argv[i];
            continue;
        }
        if (!value) {
            return false;
        }
        if (strcmp(argv[i], "--target") == 0) {
            o->target = value;
        } else if (strcmp(argv[i], "--size") == 0) {
            o->sizes = value;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            o->seeds = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--set") == 0 && o->n_lines < MAX_LINES) {
            o->lines[o->n_lines++] = value;
        } else {
            return false;
        }
        i++;
    }
    return o->file && o->sizes;
}

/* As runtime/compile/size_facts.c. */
static void give_facts(DimVar *var, int64_t size)
{
    int64_t unit = 1;
    while (8 * unit < size) {
        unit *= 2;
    }
    var->most = size > 0 ? (size + unit - 1) / unit * unit : 1;
    var->multiple = size == var->most ? size : size > 0 ? size & -size : 65536;
    var->multiple = var->multiple > 65536 ? 65536 : var->multiple;
}

static bool read_sizes(Run *run, const Options *o)
{
    char *list = arena_strdup(run->arena, o->sizes), *rest = NULL;
    for (size_t i = 0; i < sizeof run->sizes / sizeof *run->sizes; i++) {
        run->sizes[i] = -1;
    }
    for (char *item = strtok_r(list, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(item, '=');
        if (!equals) {
            return false;
        }
        *equals = 0;
        DimVar *var = func_size(run->func, item);
        run->sizes[var->id] = strtoll(equals + 1, NULL, 10);
        if (o->facts) {
            give_facts(var, run->sizes[var->id]);
        } else {
            var->multiple = 1;
            var->most = INT64_MAX;
        }
    }
    return !func_derive_sizes(run->func, run->sizes);
}

static void make_tensor(Run *run, size_t p, uint64_t *state)
{
    const Param *param = &run->func->params.items[p];
    Type type = param->value->type;
    size_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        int64_t extent = 0;
        poly_eval(type->dims[i], run->sizes, &extent);
        n *= (size_t)extent;
    }
    run->elements[p] = n;
    size_t bytes = dtype_size(type->dtype, n);
    char *data = arena_alloc(run->arena, bytes + 1);
    for (size_t i = 0; i < n; i++) {
        Scalar s;
        if (dtype_is_float(type->dtype)) {
            s.f = random_normal(state);
        } else {
            s.i = (int64_t)(random_next(state) % 17);
        }
        scalar_pack(type->dtype, data, i, s);
    }
    run->args[p].tensor.data = data;
    if (param->io == PARAM_INOUT) {
        run->first[p] = arena_copy(run->arena, data, bytes);
    }
}

static void make_args(Run *run)
{
    uint64_t state = 42;
    if (run->func->params.n > MAX_PARAMS) {
        fprintf(stderr, "more than %d parameters\n", MAX_PARAMS);
        exit(2);
    }
    for (size_t p = 0; p < run->func->params.n; p++) {
        if (run->func->params.items[p].value->type->kind == TYPE_TENSOR) {
            make_tensor(run, p, &state);
        } else {
            run->args[p].number = 0.25;
            run->args[p].integer = 3;
        }
    }
}

static bool interpret(Run *run, Func *func, uint64_t seed, bool bounds, const char *when)
{
    InterpOptions options = {.seed = seed, .bounds = bounds};
    Text problem = text_new(run->arena);
    func_derive_sizes(func, run->sizes); /* a pass may have made one */
    if (interp_func(func, run->args, run->sizes, &options, &problem)) {
        return true;
    }
    fprintf(stderr, "after %s, seed %" PRIu64 ": %s\n", when, seed, problem.data);
    run->different++;
    return false;
}

static void keep_answers(Run *run)
{
    for (size_t p = 0; p < run->func->params.n; p++) {
        Type type = run->func->params.items[p].value->type;
        if (run->func->params.items[p].io == PARAM_IN) {
            continue;
        }
        size_t bytes = dtype_size(type->dtype, run->elements[p]);
        run->want[p] = arena_copy(run->arena, run->args[p].tensor.data, bytes);
        run->bound[p] = run->args[p].tensor.bound;
        run->args[p].tensor.bound = NULL;
    }
}

static void compare_param(Run *run, size_t p, uint64_t seed, const char *when)
{
    DType dtype = run->func->params.items[p].value->type->dtype;
    const char *got = run->args[p].tensor.data, *want = run->want[p];
    int64_t before = run->different;
    for (size_t i = 0; i < run->elements[p]; i++) {
        Scalar g = scalar_unpack(dtype, got, i), w = scalar_unpack(dtype, want, i);
        bool same = dtype_is_float(dtype) ? fabs(g.f - w.f) <= run->bound[p][i] ||
                                                (isnan(g.f) && isnan(w.f)) || g.f == w.f
                                          : g.i == w.i;
        run->compared++;
        if (!same && run->different++ == before) {
            fprintf(stderr, "after %s, seed %" PRIu64 ": %s[%zu] is %.9g, not %.9g (bound %.3g)\n",
                    when, seed, run->func->params.items[p].name, i, g.f, w.f, run->bound[p][i]);
        }
    }
}

/* As it was before the first run, or rubbish. */
static void reset_param(Run *run, size_t p)
{
    DType dtype = run->func->params.items[p].value->type->dtype;
    size_t bytes = dtype_size(dtype, run->elements[p]);
    if (run->first[p]) {
        memcpy(run->args[p].tensor.data, run->first[p], bytes);
    } else if (run->want[p]) {
        memset(run->args[p].tensor.data, 0x7f, bytes);
    }
}

static bool run_and_compare(Run *run, const char *when)
{
    for (uint64_t seed = 1; seed <= run->seeds; seed++) {
        for (size_t p = 0; p < run->func->params.n; p++) {
            reset_param(run, p);
        }
        if (!interpret(run, run->func, seed, false, when)) {
            return false;
        }
        for (size_t p = 0; p < run->func->params.n; p++) {
            if (run->want[p]) {
                compare_param(run, p, seed, when);
            }
        }
    }
    return run->different == 0;
}

/* What is wanted, and how far it may be off. */
static bool take_answers(Run *run, Func *func, const char *when)
{
    for (size_t p = 0; p < run->func->params.n; p++) {
        Type type = run->func->params.items[p].value->type;
        if (type->kind == TYPE_TENSOR && run->func->params.items[p].io != PARAM_IN) {
            reset_param(run, p);
            run->args[p].tensor.bound = ARENA_ARRAY(run->arena, double, run->elements[p] + 1);
        }
    }
    if (!interpret(run, func, 0, true, when)) {
        return false;
    }
    keep_answers(run);
    return true;
}

static bool after_pass(void *user, const Pass *pass, Func *func, double seconds)
{
    Run *run = user;
    (void)func;
    (void)seconds;
    if (run->walked && !run->diags->errors && strcmp(pass->name, "tile") == 0) {
        if (!take_answers(run, run->walked, "the front end, in the schedule's steps")) {
            return false;
        }
        run->walked = NULL;
    }
    if (run->diags->errors || run_and_compare(run, pass->name)) {
        return true;
    }
    Text text = text_new(run->arena);
    print_func(run->func, &text);
    fprintf(stderr, "%s", text.data);
    return false;
}

static bool begin(Run *run, const Options *o)
{
    run->func->target = target_find(o->target ? o->target : "sm_90a");
    if (!run->func->target || !read_sizes(run, o)) {
        return false;
    }
    for (int i = 0; i < o->n_lines; i++) {
        if (!tool_add_entry(run->func, o->lines[i])) {
            return false;
        }
    }
    return true;
}

/* As compile() of runtime/compile/compile.c runs them. */
static bool run_passes(Func *func, const PassHooks *hooks)
{
    bool done = passes_run_before_tile(func, hooks);
    TileRetry *retry = done ? retry_begin(func, hooks) : NULL;
    while (done && !passes_run_from_tile(func, hooks)) {
        done = retry_with_smaller_tiles(retry);
    }
    return done;
}

/* The program once more, to be walked in the steps that the passes choose; NULL: they choose none,
 * or fail, which is told when they run for good. */
static Func *walk_as_scheduled(const Run *run, const Options *o, int source)
{
    Run again = {.arena = run->arena, .diags = run->diags};
    size_t told = run->diags->list.n;
    int errors = run->diags->errors;
    again.func = parse_func(run->arena, run->diags, source);
    Func *walked = steps_any(again.func) ? parse_func(run->arena, run->diags, source) : NULL;
    PassHooks hooks = {0};
    if (walked && begin(&again, o) && run_passes(again.func, &hooks) &&
        run->diags->errors == errors) {
        steps_take(walked, again.func);
    } else {
        walked = NULL;
    }
    run->diags->list.n = told;
    run->diags->errors = errors;
    return walked;
}

static int run_all(Run *run, const Options *o, int source)
{
    if (!begin(run, o)) {
        return usage("unknown target or schedule key, or sizes that are not M=1,N=2");
    }
    run->walked = walk_as_scheduled(run, o, source);
    make_args(run);
    if (!take_answers(run, run->func, "the front end")) {
        return 5;
    }
    PassHooks hooks = {.user = run, .after = after_pass, .verify = true};
    bool done = run_passes(run->func, &hooks);
    Text text = text_new(run->arena);
    diags_render(run->diags, &text);
    fputs(text.data, stderr);
    printf("%" PRId64 " compared, %" PRId64 " different\n", run->compared, run->different);
    return run->different ? 5 : done && !run->diags->errors ? 0 : 1;
}

int main(int argc, char **argv)
{
    Options o = {.seeds = 2};
    Arena arena;
    Diags diags;
    jmp_buf out;
    size_t n = 0;
    if (!parse_options(argc, argv, &o)) {
        return usage(
            "[--target NAME] [--set LINE=VALUE] [--seeds N] [--facts] --size M=5,N=7 FILE");
    }
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    Run *run = ARENA_NEW(&arena, Run);
    if (setjmp(out)) {
        Text text = text_new(&arena);
        diags_render(&diags, &text);
        fputs(text.data, stderr);
        return 70;
    }
    diags.bug_guard = arena.guard = &out;
    char *text = tool_read(&arena, o.file, &n);
    if (!text) {
        return usage("cannot read the file");
    }
    run->arena = &arena;
    run->diags = &diags;
    run->seeds = o.seeds;
    int source = diags_add_source(&diags, o.file, text, n), status = 1;
    run->func = parse_func(&arena, &diags, source);
    if (run->func) {
        status = run_all(run, &o, source);
    } else {
        Text problems = text_new(&arena);
        diags_render(&diags, &problems);
        fputs(problems.data, stderr);
    }
    arena_free(&arena);
    return status;
}
