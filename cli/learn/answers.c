/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of a learner's program. For each data set of the lesson both programs get the same
 * random inputs; the reference runs on the interpreter, the learner's on the interpreter and on the
 * CPU. An element is right if it is as near as the rounding of both programs allows. */
#include "cli/learn/answers.h"
#include "cli/data/array_args.h"
#include "cli/data/backend_args.h"
#include "cli/interrupt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Answers {
    const Lesson *lesson;
    const LessonSetting *setting;
    Options options;
    Session reference, *learner;
    TesseraOptions compile; /* of the reference, with this setting */
    Arrays arrays;
    AnswerResult *result;
    bool reported;
} Answers;

/* ---- programs ---- */

static int open_programs(Answers *a, const char *path)
{
    const char *kernel = a->lesson->kernel;
    const char *text = lesson_file(a->lesson, "reference.tile");
    text = text ? text : lesson_file(a->lesson, "solution.tile");
    Session *reference = &a->reference, *learner = a->learner;
    if (tessera_context_new(NULL, &reference->context) != TESSERA_OK ||
        tessera_context_new(NULL, &learner->context) != TESSERA_OK) {
        a->reported = true;
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    if (tessera_program_parse(reference->context, "reference.tile", text, strlen(text),
                              &reference->program) != TESSERA_OK ||
        tessera_program_find(reference->program, kernel, &reference->signature) != TESSERA_OK) {
        a->reported = true;
        return fail_context(reference->context);
    }
    TesseraStatus status = tessera_program_read(learner->context, path, &learner->program);
    if (status == TESSERA_OK) {
        status = tessera_program_find(learner->program, kernel, &learner->signature);
    }
    return (int)status;
}

static bool same_param(const TesseraParam *a, const TesseraParam *b)
{
    bool same = strcmp(a->name, b->name) == 0 && strcmp(a->type, b->type) == 0 &&
                a->rank == b->rank && a->io == b->io && a->is_const == b->is_const;
    for (int i = 0; same && i < a->rank; i++) {
        same = strcmp(a->dims[i], b->dims[i]) == 0;
    }
    return same;
}

/* The learner may change the body, not what the kernel takes and gives. */
static bool check_signature(Answers *a)
{
    const TesseraSignature *want = a->reference.signature, *got = a->learner->signature;
    bool same = want->n_params == got->n_params && want->n_generics == got->n_generics;
    for (size_t i = 0; same && i < want->n_params; i++) {
        same = same_param(&want->params[i], &got->params[i]);
    }
    if (!same) {
        snprintf(a->result->where, sizeof a->result->where,
                 "the first line of the kernel has changed: parameters, results and their types "
                 "must stay as they were (`tessera learn reset` gives them back)");
    }
    return same;
}

/* ---- inputs ---- */

static void scale_inputs(Answers *a)
{
    for (size_t i = 0; i < a->arrays.n && a->setting->times != 1; i++) {
        const Array *array = &a->arrays.items[i];
        size_t elements, bytes;
        if (array->param->rank < 0 || array->param->io == TESSERA_OUT ||
            !tessera_type_is_float(array->tensor.type)) {
            continue;
        }
        tensor_bytes(&array->tensor, &elements, &bytes);
        for (size_t k = 0; k < elements; k++) {
            double value = tessera_get(array->tensor.type, array->tensor.data, k);
            tessera_put(array->tensor.type, array->tensor.data, k, value * a->setting->times);
        }
    }
}

static int make_arrays(Answers *a)
{
    Options with_consts;
    Session *s = &a->reference;
    int code = arrays_read(&a->options, s, &a->arrays, &with_consts);
    a->options = with_consts;
    code = code ? code : session_options(&a->options, s, NULL, &a->compile);
    if (code != 0) {
        return code;
    }
    a->compile.target = "native";
    a->compile.pins = "";
    tessera_kernel_free(s->kernel);
    s->kernel = NULL;
    if (tessera_compile(s->program, &a->compile, &s->kernel) != TESSERA_OK) {
        return fail_context(s->context);
    }
    code = arrays_complete(&a->options, s, &a->compile, false, &a->arrays);
    if (code == 0) {
        scale_inputs(a);
    }
    return code;
}

/* ---- comparing ---- */

static void element_name(char *out, size_t n, const TesseraTensor *tensor, size_t index)
{
    size_t used = 0, left = index;
    int64_t at[TESSERA_MAX_RANK];
    for (int i = tensor->rank - 1; i >= 0; i--) {
        at[i] = (int64_t)(left % (size_t)tensor->dims[i]);
        left /= (size_t)tensor->dims[i];
    }
    *out = '\0';
    for (int i = 0; i < tensor->rank && used < n; i++) {
        used += (size_t)snprintf(out + used, n - used, "%s%lld", i ? ", " : "", (long long)at[i]);
    }
}

/* The bounds of rounding are guaranteed ones, and may be far above any error that occurs, or
 * infinite, as behind a mask of infinities. Nothing that a lesson asks for is off by more than this
 * share of the largest element. */
static const double MAX_SHARE = 1.0 / 64;

/* How far an element may be: what rounding does to both programs. */
static double *bounds_of(const TesseraArg *want, const TesseraArg *got, size_t elements)
{
    double *bound = alloc_or_exit((elements ? elements : 1) * sizeof *bound);
    double largest = 0;
    for (size_t i = 0; i < elements; i++) {
        double value = fabs(tessera_get(want->tensor.type, want->tensor.data, i));
        largest = isfinite(value) ? fmax(largest, value) : largest;
    }
    for (size_t i = 0; i < elements; i++) {
        double both = want->bound[i] + got->bound[i];
        bound[i] = fmin(isnan(both) ? INFINITY : both, largest * MAX_SHARE);
    }
    return bound;
}

static bool compare_one(Answers *a, const Array *array, const TesseraArg *want,
                        const TesseraArg *mine, const void *got, const char *where)
{
    TesseraDifference d;
    size_t elements, bytes;
    tensor_bytes(&array->tensor, &elements, &bytes);
    double *bound = bounds_of(want, mine, elements);
    bool same = tessera_compare(array->tensor.type, elements, got, want->tensor.data, bound, &d) ==
                TESSERA_OK;
    free(bound);
    if (!same) {
        char at[160];
        element_name(at, sizeof at, &array->tensor, d.first);
        snprintf(a->result->where, sizeof a->result->where,
                 "at %.200s%s%.60s, on %s: %.60s[%s] is %.6g and should be %.6g; %zu of %zu "
                 "elements are wrong",
                 *a->setting->sizes ? a->setting->sizes : "any size", *a->setting->sets ? ", " : "",
                 a->setting->sets, where, array->param->name, at, d.got, d.want, d.different,
                 elements);
    }
    return same;
}

/* The largest distance from the reference in f64, of the largest element there. */
static void measure_error(Answers *a, const Array *array, const TesseraArg *exact, const void *got)
{
    size_t elements, bytes;
    double distance = 0, largest = 0;
    tensor_bytes(&array->tensor, &elements, &bytes);
    for (size_t i = 0; i < elements; i++) {
        double want = tessera_get(exact->tensor.type, exact->tensor.data, i);
        distance = fmax(distance, fabs(tessera_get(array->tensor.type, got, i) - want));
        largest = fmax(largest, fabs(want));
    }
    a->result->error = fmax(a->result->error, largest > 0 ? distance / largest : distance);
}

/* ---- running ---- */

static int interpret(Answers *a, Session *s, const TesseraOptions *compile, const TesseraArg *args)
{
    run_begin(&a->options, false, a->lesson->kernel, "the interpreter");
    TesseraStatus status = tessera_interpret(s->program, compile, args, a->arrays.n);
    run_end();
    return (int)status;
}

static int run_on_cpu(Answers *a, const TesseraOptions *compile, const TesseraArg *want,
                      const TesseraArg *mine, const TesseraArg *exact, bool *right)
{
    Session *s = a->learner;
    TesseraLaunch *launch = NULL;
    tessera_kernel_free(s->kernel);
    s->kernel = NULL;
    if ((!s->device && tessera_device_open(s->context, "cpu", 0, &s->device) != TESSERA_OK) ||
        tessera_compile(s->program, compile, &s->kernel) != TESSERA_OK) {
        return (int)tessera_error(s->context)->status;
    }
    TesseraArg *args = arrays_args(&a->arrays, false);
    bool ok = args_upload(s->device, &a->arrays, args) &&
              tessera_prepare(s->kernel, s->device, args, a->arrays.n, &launch) == TESSERA_OK;
    run_begin(&a->options, true, a->lesson->kernel, "the CPU");
    ok = ok && tessera_launch(launch, NULL) == TESSERA_OK &&
         tessera_sync(s->device, NULL) == TESSERA_OK;
    run_end();
    for (size_t i = 0; i < a->arrays.n && ok && *right; i++) {
        const Array *array = &a->arrays.items[i];
        void *got = array_is_result(array) ? args_download(s->device, array, &args[i]) : NULL;
        if (got && exact) {
            measure_error(a, array, &exact[i], got);
        } else if (got) {
            *right = compare_one(a, array, &want[i], &mine[i], got, "the CPU");
        }
        ok = !array_is_result(array) || got;
        free(got);
    }
    int code = ok ? 0 : (int)tessera_error(s->context)->status;
    tessera_launch_free(launch);
    args_release(s->device, &a->arrays, args);
    free(args);
    return code;
}

static bool compare_interpreted(Answers *a, const TesseraArg *want, const TesseraArg *mine)
{
    bool right = true;
    for (size_t i = 0; i < a->arrays.n && right; i++) {
        const Array *array = &a->arrays.items[i];
        right = !array_is_result(array) ||
                compare_one(a, array, &want[i], &mine[i], mine[i].tensor.data, "the interpreter");
    }
    return right;
}

/* One data set. */
static int run_data(Answers *a, bool *right)
{
    int code = make_arrays(a);
    if (code != 0) {
        a->reported = true;
        return code;
    }
    bool by_error = a->lesson->max_error > 0;
    TesseraOptions wide = a->compile, compile = a->compile;
    wide.wide = true;
    TesseraArg *want = args_for_interpreter(&a->arrays, false);
    TesseraArg *mine = args_for_interpreter(&a->arrays, false);
    TesseraArg *exact = by_error ? args_for_interpreter(&a->arrays, true) : NULL;
    code = interpret(a, &a->reference, &a->compile, want);
    code = code == 0 && exact ? interpret(a, &a->reference, &wide, exact) : code;
    if (code != 0) {
        a->reported = true;
        fail_context(a->reference.context);
    }
    code = code ? code : interpret(a, a->learner, &compile, mine);
    if (code == 0 && !by_error) {
        *right = compare_interpreted(a, want, mine);
    }
    if (code == 0 && *right) {
        code = run_on_cpu(a, &compile, want, mine, exact, right);
    }
    args_free(&a->arrays, want);
    args_free(&a->arrays, mine);
    args_free(&a->arrays, exact);
    return code;
}

static void close_reference(Answers *a)
{
    tessera_kernel_free(a->reference.kernel);
    tessera_program_free(a->reference.program);
    tessera_context_free(a->reference.context);
}

int answers_compare(const char *path, const Lesson *lesson, const Options *options,
                    Session *session, bool *reported, AnswerResult *result)
{
    Answers a = {.lesson = lesson, .learner = session, .result = result};
    *session = (Session){0};
    *result = (AnswerResult){.right = true};
    int code = open_programs(&a, path);
    if (code == 0) {
        result->right = check_signature(&a);
    }
    for (size_t i = 0; i < lesson->n_data && code == 0 && result->right; i++) {
        a.setting = &lesson->data[i];
        a.options = (Options){.kernel = lesson->kernel,
                              .seed = i + 1,
                              .timeout = options->timeout,
                              .optimize = NOT_GIVEN,
                              .no_pins = true};
        code = setting_apply(a.setting, &a.options);
        code = code ? code : run_data(&a, &result->right);
        arrays_free(&(Session){0}, &a.arrays);
        result->n_data += code == 0;
    }
    if (code == 0 && result->right && lesson->max_error > 0 &&
        !(result->error <= lesson->max_error)) {
        result->right = false;
        snprintf(result->where, sizeof result->where,
                 "the largest error is %.3g of the largest element, and at most %.3g is asked for",
                 result->error, lesson->max_error);
    }
    close_reference(&a);
    *reported = a.reported;
    return code;
}

/* ---- measuring ---- */

/* Launches before the first measured one, and launches that are measured. */
enum { WARM_UP = 3, MEASURED = 10 };

double answers_measure(const char *path, const Lesson *lesson, const Options *options, char *name,
                       size_t n)
{
    Session s = {0};
    Arrays arrays = {0};
    Options here = {.kernel = lesson->kernel,
                    .seed = 1,
                    .timeout = options->timeout,
                    .optimize = NOT_GIVEN,
                    .no_pins = true},
            with_consts;
    TesseraOptions compile;
    TesseraLaunch *launch = NULL;
    double seconds = 0;
    const char *kind = strncmp(lesson->gpu, "gfx", 3) == 0 ? "hip" : "cuda";
    bool ok = setting_apply(&lesson->compile, &here) == 0 &&
              tessera_context_new(NULL, &s.context) == TESSERA_OK &&
              tessera_device_open(s.context, kind, 0, &s.device) == TESSERA_OK &&
              strcmp(tessera_device_info(s.device)->target, lesson->gpu) == 0 &&
              tessera_program_read(s.context, path, &s.program) == TESSERA_OK &&
              tessera_program_find(s.program, lesson->kernel, &s.signature) == TESSERA_OK &&
              arrays_read(&here, &s, &arrays, &with_consts) == 0 &&
              session_options(&with_consts, &s, NULL, &compile) == 0 &&
              tessera_compile(s.program, &compile, &s.kernel) == TESSERA_OK &&
              arrays_complete(&with_consts, &s, &compile, true, &arrays) == 0 &&
              arrays_upload(&s, &arrays, true) == 0;
    TesseraArg *args = ok ? arrays_args(&arrays, true) : NULL;
    ok = ok && tessera_prepare(s.kernel, s.device, args, arrays.n, &launch) == TESSERA_OK &&
         tessera_launch_time(launch, NULL, WARM_UP, &seconds) == TESSERA_OK &&
         tessera_launch_time(launch, NULL, MEASURED, &seconds) == TESSERA_OK;
    if (ok) {
        snprintf(name, n, "%s", tessera_device_info(s.device)->name);
    }
    free(args);
    tessera_launch_free(launch);
    arrays_free(&s, &arrays);
    session_close(&s);
    return ok ? seconds / MEASURED : 0;
}
