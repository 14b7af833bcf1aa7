/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera check`: runs a kernel on the interpreter and on each backend of this machine, at sizes
 * with partial tiles, and compares the results. It also reports how each access is kept in bounds
 * and how far rounding takes the results from the f64 reference. */
#include "cli/commands/cmd_check.h"

#include "cli/commands/cmd_functions.h"
#include "cli/data/array_args.h"
#include "cli/data/backend_args.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"
#include "runtime/api/api_debug.h"

#include <stdlib.h>
#include <string.h>

typedef struct Backend {
    const char *name, *device;
    int optimize;
    TesseraDevice *at; /* NULL: this machine has no such device */
    TesseraKernel *kernel;
    double worst; /* largest deviation, as a share of the bound */
    bool exact;   /* all results so far equal the interpreter's bit by bit */
    size_t rounds;
} Backend;

enum { BACKENDS = 4 };

typedef struct Check {
    const Options *options;
    Options here;    /* with the variant's bindings */
    Session session; /* whose kernel has shapes and facts */
    TesseraOptions compile;
    Backend backends[BACKENDS];
    TesseraFact *facts;
    size_t n_sizes;
    Rounding *roundings;      /* by parameter */
    const char *no_reference; /* why there is no run in f64 */
    size_t rounds;
    bool differs;
} Check;

/* ---- one launch ---- */

/* Compares one result of a backend with that of the interpreter. */
static void compare_one(Check *c, Backend *backend, size_t nth, const Array *array, const void *got,
                        const TesseraArg *want, const TesseraArg *wide)
{
    TesseraDifference d;
    size_t elements, bytes;
    TesseraType type = array->tensor.type;
    tensor_bytes(&array->tensor, &elements, &bytes);
    void *wanted = tensor_packed(&want->tensor);
    if (tessera_compare(type, elements, got, wanted, want->bound, &d) != TESSERA_OK) {
        c->differs = true;
        printf("  %-8s %s differs in %zu of %zu elements; first at %zu: %.9g, interpreter "
               "%.9g, allowed %.3g\n",
               backend->name, array->param->name, d.different, elements, d.first, d.got, d.want,
               d.bound);
    }
    backend->worst = d.worst > backend->worst ? d.worst : backend->worst;
    backend->exact = backend->exact && memcmp(got, wanted, bytes) == 0;
    if (wide && wide->tensor.type == TESSERA_F64) {
        rounding_add(&c->roundings[nth], type, elements, got, wide->tensor.data);
    }
    free(wanted);
}

static int compare(Check *c, Backend *backend, const Arrays *arrays, const TesseraArg *args,
                   const TesseraArg *want, const TesseraArg *wide)
{
    for (size_t i = 0; i < arrays->n; i++) {
        const Array *array = &arrays->items[i];
        if (!array_is_result(array)) {
            continue;
        }
        void *got = args_download(backend->at, array, &args[i]);
        if (!got) {
            return fail_context(c->session.context);
        }
        compare_one(c, backend, i, array, got, &want[i], wide ? &wide[i] : NULL);
        free(got);
    }
    backend->rounds++;
    return 0;
}

static int launch_once(Check *c, Backend *backend, const TesseraArg *args, size_t n,
                       TesseraLaunch **launch)
{
    timeout_begin(c->options);
    bool ok = tessera_prepare(backend->kernel, backend->at, args, n, launch) == TESSERA_OK;
    run_begin(c->options, strcmp(backend->device, "cpu") == 0, c->session.signature->name,
              backend->name);
    TesseraMessages messages;
    ok = ok && tessera_launch(*launch, NULL) == TESSERA_OK &&
         tessera_launch_messages(*launch, NULL, &messages) == TESSERA_OK;
    run_end();
    return ok ? fail_assertions(&messages) : fail_context(c->session.context);
}

static int execute(Check *c, Backend *backend, const Arrays *arrays, const TesseraArg *want,
                   const TesseraArg *wide)
{
    TesseraLaunch *launch = NULL;
    TesseraArg *args = arrays_args(arrays, false);
    int code = args_upload(backend->at, arrays, args) ? 0 : fail_context(c->session.context);
    code = code ? code : launch_once(c, backend, args, arrays->n, &launch);
    code = code ? code : compare(c, backend, arrays, args, want, wide);
    tessera_launch_free(launch);
    args_release(backend->at, arrays, args);
    free(args);
    return code;
}

/* ---- the interpreter ---- */

static TesseraStatus interpret(const Check *c, const TesseraOptions *options, const Arrays *arrays,
                               const TesseraArg *args)
{
    run_begin(c->options, false, c->session.signature->name, "the interpreter");
    TesseraStatus status = tessera_interpret(c->session.program, options, args, arrays->n);
    run_end();
    return status;
}

/* The f64 reference; NULL if the program cannot be run in f64, which is reported. */
static TesseraArg *run_wide(Check *c, const TesseraOptions *compile, const Arrays *arrays)
{
    if (c->no_reference) {
        return NULL;
    }
    TesseraOptions options = *compile;
    TesseraArg *args = args_for_interpreter(arrays, true);
    options.wide = true;
    options.n_strides = 0; /* f64 copies are row-major */
    if (interpret(c, &options, arrays, args) == TESSERA_OK) {
        return args;
    }
    const char *message = tessera_error(c->session.context)->message;
    c->no_reference = session_text(message, strcspn(message, "\n"));
    args_free(arrays, args);
    return NULL;
}

static int run_round(Check *c, const TesseraOptions *compile, const Arrays *arrays)
{
    TesseraArg *want = NULL, *wide = NULL;
    const Backend *last = NULL; /* the backend whose device `want` was computed for */
    int code = 0;
    for (size_t i = 0; i < BACKENDS && code == 0; i++) {
        Backend *backend = &c->backends[i];
        if (!backend->kernel) {
            continue;
        }
        if (!last || strcmp(last->device, backend->device) != 0) {
            args_free(arrays, want);
            want = args_for_interpreter(arrays, false);
            /* The interpreter uses the loop steps of this backend's code. */
            TesseraOptions options = *compile;
            TesseraMessages messages;
            options.target = tessera_device_info(backend->at)->target;
            bool ok = interpret(c, &options, arrays, want) == TESSERA_OK &&
                      tessera_interpret_messages(c->session.context, &messages) == TESSERA_OK;
            code = ok ? fail_assertions(&messages) : fail_context(c->session.context);
        }
        if (!last && code == 0) {
            wide = run_wide(c, compile, arrays);
            /* The interpreter's own results are compared with the f64 reference, too. */
            for (size_t k = 0; wide && k < arrays->n; k++) {
                const Array *array = &arrays->items[k];
                if (array_is_result(array) && wide[k].tensor.type == TESSERA_F64) {
                    size_t elements, bytes;
                    void *wanted = tensor_packed(&want[k].tensor);
                    tensor_bytes(&array->tensor, &elements, &bytes);
                    rounding_add(&c->roundings[k], array->tensor.type, elements, wanted,
                                 wide[k].tensor.data);
                    free(wanted);
                }
            }
        }
        last = backend;
        code = code ? code : execute(c, backend, arrays, want, wide);
    }
    args_free(arrays, want);
    args_free(arrays, wide);
    return code;
}

/* ---- rounds ---- */

static bool can_have(const Check *c, const TesseraSize *sizes)
{
    const TesseraSignature *bound = tessera_kernel_signature(c->session.kernel);
    for (size_t i = 0; i < bound->n_params; i++) {
        TesseraTensor shape;
        if (tessera_kernel_shape(c->session.kernel, i, sizes, c->n_sizes, &shape) != TESSERA_OK) {
            return false; /* N - 5 of a small N */
        }
    }
    return true;
}

static void show_sizes(const Check *c, const TesseraSize *sizes)
{
    if (c->n_sizes == 0) {
        return;
    }
    fputs(c->rounds ? "; " : "  sizes    ", stdout);
    for (size_t i = 0; i < c->n_sizes; i++) {
        printf("%s%s=%lld", i ? " " : "", sizes[i].name, (long long)sizes[i].value);
    }
}

/* Compiles again for the sizes that no tensor determines. */
static int compile_for_sizes(Check *c, const TesseraOptions *compile)
{
    for (size_t i = 0; i < BACKENDS && compile->n_sizes > 0; i++) {
        Backend *backend = &c->backends[i];
        TesseraOptions options = *compile;
        if (!backend->at) {
            continue;
        }
        options.target = tessera_device_info(backend->at)->target;
        options.optimize = backend->optimize;
        tessera_kernel_free(backend->kernel);
        backend->kernel = NULL;
        timeout_begin(c->options);
        if (tessera_compile(c->session.program, &options, &backend->kernel) != TESSERA_OK) {
            return fail_context(c->session.context);
        }
        timeout_end();
    }
    return 0;
}

static int make_round(Check *c, const TesseraSize *sizes)
{
    Arrays arrays;
    Options with_consts;
    TesseraOptions compile = c->compile;
    TesseraSize *undetermined = session_alloc((c->n_sizes + 1) * sizeof *undetermined);
    memcpy(undetermined, sizes, c->n_sizes * sizeof *sizes);
    size_t n_undetermined =
        check_undetermined(tessera_kernel_signature(c->session.kernel), undetermined, c->n_sizes);
    compile.sizes = sizes;
    compile.n_sizes = c->n_sizes;
    int code = arrays_read(&c->here, &c->session, &arrays, &with_consts);
    code = code ? code : arrays_complete(&c->here, &c->session, &compile, true, &arrays);
    for (size_t i = 0; i < arrays.n && code == 0; i++) {
        Array *array = &arrays.items[i];
        if (array->param->rank >= 0 && !array->given && array->param->io != TESSERA_OUT) {
            array_randomize(array, c->options->seed + c->rounds);
        }
    }
    /* All rounds use the same code, unless no tensor determines a size. */
    compile.sizes = undetermined;
    compile.n_sizes = n_undetermined;
    code = code ? code : compile_for_sizes(c, &compile);
    code = code ? code : run_round(c, &compile, &arrays);
    arrays_free(&c->session, &arrays);
    return code;
}

static int run_rounds(Check *c)
{
    TesseraSize *sizes = session_alloc((c->n_sizes + 1) * sizeof *sizes);
    TesseraSize *tried = session_alloc((c->n_sizes + 1) * CHECK_ROUNDS * sizeof *tried);
    int code = 0, left_out = 0;
    for (int round = 0; round < CHECK_ROUNDS && code == 0; round++) {
        check_sizes(c->session.kernel, c->facts, c->n_sizes, &c->here, round, sizes);
        bool repeated = c->n_sizes == 0 && round > 0;
        for (size_t i = 0; i < c->rounds && c->n_sizes; i++) {
            repeated =
                repeated || memcmp(&tried[i * c->n_sizes], sizes, c->n_sizes * sizeof *sizes) == 0;
        }
        if (repeated || !can_have(c, sizes)) {
            continue;
        }
        if (check_hopeless(c->session.kernel, &c->here, sizes, c->n_sizes)) {
            left_out++;
            continue;
        }
        memcpy(&tried[c->rounds * c->n_sizes], sizes, c->n_sizes * sizeof *sizes);
        show_sizes(c, sizes);
        fflush(stdout);
        code = make_round(c, sizes);
        c->rounds++;
    }
    puts("");
    if (left_out > 0) {
        printf("  left out %d of the sizes that were chosen: interpreting them would take minutes; "
               "--size gives others\n",
               left_out);
    }
    return code;
}

/* ---- backends ---- */

static int compile_backend(Check *c, Backend *backend)
{
    TesseraOptions options = c->compile;
    if (tessera_device_open(c->session.context, backend->device, 0, &backend->at) != TESSERA_OK) {
        backend->at = NULL;
        return 0;
    }
    options.target = tessera_device_info(backend->at)->target;
    options.optimize = backend->optimize;
    backend->exact = true;
    return tessera_compile(c->session.program, &options, &backend->kernel) == TESSERA_OK
               ? 0
               : fail_context(c->session.context);
}

/* Finds the facts that the source itself assumes about its sizes. */
static int find_facts(Check *c)
{
    TesseraDebug stop = {.stop_after = "frontend"};
    const TesseraSignature *signature = c->session.signature;
    TesseraFact *any = session_alloc((signature->n_sizes + 1) * sizeof *any);
    for (size_t i = 0; i < signature->n_sizes; i++) {
        any[i] = (TesseraFact){signature->sizes[i], 1, 0, 0};
    }
    c->compile.facts = any;
    c->compile.n_facts = signature->n_sizes;
    TesseraOptions options = c->compile;
    options.target = "native";
    tessera_debug(c->session.context, &stop);
    int code = tessera_compile(c->session.program, &options, &c->session.kernel) == TESSERA_OK
                   ? 0
                   : fail_context(c->session.context);
    tessera_debug(c->session.context, NULL);
    size_t n = code == 0 ? tessera_kernel_signature(c->session.kernel)->n_sizes : 0;
    c->facts = session_alloc((n + 1) * sizeof *c->facts);
    for (size_t i = 0; i < n; i++) {
        TesseraFact *fact = &c->facts[c->n_sizes];
        tessera_kernel_fact(c->session.kernel, i, fact);
        fact->name = session_text(fact->name, strlen(fact->name));
        c->n_sizes += !tessera_kernel_follows(c->session.kernel, i);
    }
    return code;
}

/* ---- output ---- */

static int show_proofs(const Check *c, const Backend *backend)
{
    TesseraAccesses a;
    if (tessera_kernel_accesses(backend->kernel, &a) != TESSERA_OK) {
        return fail_context(c->session.context);
    }
    printf("  bounds   %s: %zu access%s inside by proof, %zu guarded", backend->name, a.inside,
           a.inside == 1 ? "" : "es", a.guarded);
    if (a.clipped) {
        printf(", %zu clipped by the copy engine", a.clipped);
    }
    puts("");
    return 0;
}

static int show_atomics(const Check *c)
{
    TesseraAccesses a;
    if (tessera_kernel_accesses(c->session.kernel, &a) != TESSERA_OK) {
        return fail_context(c->session.context);
    }
    for (size_t i = 0; i < a.n_float_sums; i++) {
        printf("  atomics  floats are summed in any order at %s: runs may differ there\n",
               a.float_sums[i]);
    }
    return 0;
}

static void show_roundings(const Check *c)
{
    const TesseraSignature *bound = tessera_kernel_signature(c->session.kernel);
    if (c->no_reference) {
        printf("  f64      cannot be run in f64: %s\n", c->no_reference);
        return;
    }
    for (size_t i = 0; i < bound->n_params; i++) {
        const Rounding *r = &c->roundings[i];
        if (r->any) {
            printf("  f64      %s: at most %.3g of its largest element from it; at most %.3g ulp "
                   "of %s (%.6g for %.6g)\n",
                   bound->params[i].name, r->share, r->ulps, bound->params[i].type, r->got,
                   r->exact);
        }
    }
}

static void show_head(const Check *c)
{
    printf("%s", c->session.signature->name);
    for (size_t i = 0; i < c->compile.n_bindings; i++) {
        printf("%s%s=%s", i ? ", " : " with ", c->compile.bindings[i].name,
               c->compile.bindings[i].value);
    }
    puts("");
}

/* ---- the command ---- */

static int check_compiled(Check *c)
{
    int code = show_proofs(c, &c->backends[1]);
    for (size_t i = 2; i < BACKENDS && code == 0; i++) {
        code = c->backends[i].kernel ? show_proofs(c, &c->backends[i]) : 0;
    }
    timeout_end();
    code = code ? code : show_atomics(c);
    code = code ? code : run_rounds(c);
    for (size_t i = 0; i < BACKENDS && code == 0; i++) {
        const Backend *backend = &c->backends[i];
        if (!backend->at) {
            printf("  %-8s none here\n", backend->name);
        } else if (backend->worst <= 1 && backend->exact) {
            printf("  %-8s the interpreter's bits on all %zu\n", backend->name, backend->rounds);
        } else if (backend->worst <= 1) {
            printf("  %-8s within the interpreter's bound on all %zu (at most %.3g of it)\n",
                   backend->name, backend->rounds, backend->worst);
        }
    }
    if (code == 0) {
        show_roundings(c);
    }
    return code;
}

static int check_variant(const Options *options, size_t variant)
{
    static const Backend all[BACKENDS] = {
        {.name = "cpu -O0", .device = "cpu", .optimize = -1},
        {.name = "cpu -O3", .device = "cpu", .optimize = 3},
        {.name = "cuda", .device = "cuda"},
        {.name = "hip", .device = "hip"},
    };
    Check c = {.options = options, .here = *options};
    TesseraPair *pairs;
    size_t n;
    int code = session_open(options, &c.session);
    if (code != 0) {
        return code;
    }
    memcpy(c.backends, all, sizeof all);
    c.roundings = session_alloc(c.session.signature->n_params * sizeof *c.roundings);
    code = check_bindings(c.session.signature, options, variant, &pairs, &n);
    if (code == 0) {
        c.here.sets.items = pairs;
        c.here.sets.n = n;
        c.compile = (TesseraOptions){.kernel = options->kernel,
                                     .bindings = pairs,
                                     .n_bindings = n,
                                     .strides = options->strides.items,
                                     .n_strides = options->strides.n,
                                     .lines = options->schedule.items,
                                     .n_lines = options->schedule.n,
                                     .pins = options->no_pins ? "" : options->pins};
        show_head(&c);
        code = find_facts(&c);
    }
    for (size_t i = 0; i < BACKENDS && code == 0; i++) {
        code = compile_backend(&c, &c.backends[i]);
    }
    code = code ? code : check_compiled(&c);
    for (size_t i = 0; i < BACKENDS; i++) {
        tessera_kernel_free(c.backends[i].kernel);
        tessera_device_free(c.backends[i].at);
    }
    session_close(&c.session);
    if (code) {
        return code;
    }
    return c.differs ? TESSERA_DIFFERENT : 0;
}

static int check_kernel(const Options *options, const TesseraSignature *signature)
{
    Options one = *options;
    int worst = 0;
    one.kernel = signature->name;
    size_t variants = check_variants(signature, options);
    for (size_t i = 0; i < variants && (worst == 0 || worst == TESSERA_DIFFERENT); i++) {
        int code = check_variant(&one, i);
        worst = code ? code : worst;
    }
    return worst;
}

int cmd_check(const Options *options)
{
    Session session;
    Options all = *options;
    int worst = 0;
    all.describe = true; /* any number of kernels */
    int code = session_open(&all, &session);
    if (code != 0) {
        return code;
    }
    for (size_t i = 0; i < tessera_program_kernels(session.program); i++) {
        const TesseraSignature *kernel = tessera_program_kernel(session.program, i);
        if (!session.signature || session.signature == kernel) {
            code = check_kernel(options, kernel);
            worst = code ? code : worst;
        }
    }
    session_close(&session);
    return worst;
}
