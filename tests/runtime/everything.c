/* SPDX-License-Identifier: Apache-2.0 */
/* A program that calls every function of the public headers: each allocation fails once, and each
 * driver call, alone and together with all later ones. Nothing crashes or leaks, and each failure
 * is reported. A function that the headers declare and this file does not call is an error. */
#include "tests/mock_driver/mock.h"
#include "tests/runtime/harness.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* ---- what was called ---- */

enum { MAX_NAMES = 256, SIDE = 16, BYTES = SIDE * SIDE * 4 };
static const char *called[MAX_NAMES];
static size_t n_called;

static void note(const char *name)
{
    size_t i = 0;
    while (i < n_called && strcmp(called[i], name) != 0) {
        i++;
    }
    if (i == n_called && n_called < MAX_NAMES) {
        called[n_called++] = name;
    }
}

/* The call, noted. What goes on: whether all was well so far; what is made after an error is not
 * there, and nothing is done with it. */
#define DO(name, ...) (note(#name), (name)(__VA_ARGS__))
#define TRY(name, ...)                                                                             \
    do {                                                                                           \
        TesseraStatus status_ = DO(name, __VA_ARGS__);                                             \
        if (status_ != TESSERA_OK) {                                                               \
            w->failed = #name;                                                                     \
            return status_;                                                                        \
        }                                                                                          \
    } while (0)

/* ---- an allocator for many threads that fails once ---- */

typedef struct Failing {
    pthread_mutex_t lock;
    int n, fail_at, open;
} Failing;

static void *failing_alloc(void *user, size_t bytes)
{
    Failing *f = user;
    pthread_mutex_lock(&f->lock);
    bool fails = ++f->n == f->fail_at;
    f->open += !fails;
    pthread_mutex_unlock(&f->lock);
    return fails ? NULL : malloc(bytes ? bytes : 1);
}

static void failing_release(void *user, void *memory)
{
    Failing *f = user;
    pthread_mutex_lock(&f->lock);
    f->open--;
    pthread_mutex_unlock(&f->lock);
    free(memory);
}

/* ---- the program ---- */

static const char TEXT[] = "kernel chain(x: f32[N, N], a: f32) -> f32[N, N] {\n"
                           "    let y = x @ x\n    print(\"a\", a)\n    return a * (y @ y)\n}\n";
static const TesseraFact ANY = {"N", 1, 0, 0};
static char folder[64], path[96];
static const TesseraBundle *bundle;

typedef struct World {
    const char *kind, *failed;
    bool first; /* nothing is to fail: what runs assemblers, and is tested alone, is done as well */
    TesseraContext *context;
    TesseraProgram *program, *read;
    TesseraKernel *kernel, *later;
    TesseraTask *task;
    TesseraBundled *bundled;
    TesseraDevice *device, *wrapped;
    TesseraLaunch *launch, *of_bundle, *ready;
    TesseraEvent *before, *after;
    TesseraGraph *graph;
    struct DLManagedTensor *managed;
    void *stream, *memory[3], *pinned;
    TesseraRequest requests[2];
} World;

static void listen(void *user, TesseraLogLevel level, const char *message)
{
    (void)user, (void)level, (void)message;
}

/* What needs no context, and what one is told. */
static TesseraStatus use_context(World *w)
{
    const TesseraDiagnostic *diagnostics;
    TesseraExplanation why;
    TesseraCacheInfo info;
    const TesseraCacheEntry *entries;
    TesseraType type;
    size_t n, m;
    float one = 1;
    TesseraDifference difference;
    ck_assert_str_eq(DO(tessera_version), TESSERA_VERSION);
    ck_assert(DO(tessera_explain, "E0402", &why) && DO(tessera_explanation, 0, &why));
    ck_assert(DO(tessera_type_find, "f32", &type) && DO(tessera_type_is_float, type));
    ck_assert_str_eq(DO(tessera_type_name, type), "f32");
    ck_assert(DO(tessera_type_bytes, type) == 4 && DO(tessera_type_size, TESSERA_I4, 3) == 2);
    DO(tessera_put, type, &one, 0, 2);
    ck_assert(DO(tessera_get, type, &one, 0) == 2);
    ck_assert_int_eq(DO(tessera_compare, type, 1, &one, &one, NULL, &difference), TESSERA_OK);
    TRY(tessera_log, w->context, listen, NULL);
    TRY(tessera_warn, w->context, NULL);
    ck_assert_str_eq(DO(tessera_warnings, w->context), "");
    ck_assert_uint_eq(DO(tessera_diagnostics, w->context, &diagnostics), 0);
    TRY(tessera_isolate, w->context, TESSERA_ISOLATE_NEVER, NULL, 0);
    TRY(tessera_cache_use, w->context, folder, 0);
    TRY(tessera_cache_info, w->context, &info);
    TRY(tessera_cache_list, w->context, &entries, &n);
    TRY(tessera_cache_verify, w->context, &n, &m);
    TRY(tessera_cache_prune, w->context, 1 << 30, &n);
    TRY(tessera_cache_only, w->context, false);
    TRY(tessera_pins_use, w->context, "off");
    TRY(tessera_pins_use, w->context, NULL);
    return TESSERA_OK;
}

static TesseraStatus use_program(World *w)
{
    const TesseraSignature *signature;
    const char *formatted;
    TesseraInferred inferred;
    TesseraTuning tuning;
    TesseraSize size = {"N", SIDE};
    TesseraOptions options = {.facts = &ANY, .n_facts = 1};
    TesseraOptions sized = {.target = "native", .sizes = &size, .n_sizes = 1};
    TRY(tessera_program_parse, w->context, "text", TEXT, strlen(TEXT), &w->program);
    TRY(tessera_program_read, w->context, path, &w->read);
    ck_assert_uint_eq(DO(tessera_program_kernels, w->program), 1);
    ck_assert_ptr_nonnull(DO(tessera_program_kernel, w->program, 0));
    ck_assert_str_eq(DO(tessera_program_file, w->read, 0), path);
    TRY(tessera_program_find, w->program, "chain", &signature);
    TRY(tessera_format, w->context, "text", TEXT, strlen(TEXT), &formatted);
    TRY(tessera_infer, w->program, &options, NULL, &inferred);
    TRY(tessera_tuning, w->program, &sized, NULL, &tuning);
    ck_assert_str_eq(tuning.kernel, "chain");
    return TESSERA_OK;
}

static TesseraStatus use_oracle(World *w)
{
    float in[SIDE * SIDE] = {1}, out[SIDE * SIDE];
    TesseraOptions options = {.facts = &ANY, .n_facts = 1};
    TesseraArg args[3] = {{.tensor = {in, TESSERA_F32, 2, {SIDE, SIDE}, NULL}},
                          {.number = 2},
                          {.tensor = {out, TESSERA_F32, 2, {SIDE, SIDE}, NULL}}};
    TesseraMessages said;
    TRY(tessera_interpret, w->program, &options, args, 3);
    TRY(tessera_interpret_messages, w->context, &said);
    ck_assert(said.n == 1 && out[0] == 2);
    return TESSERA_OK;
}

static TesseraStatus use_kernel(World *w, const TesseraOptions *options)
{
    TesseraTensor tensor;
    TesseraFact fact;
    TesseraBytes bytes;
    TesseraResources resources;
    TesseraAccesses accesses;
    TesseraSize size = {"N", SIDE};
    const char *text;
    TRY(tessera_compile, w->program, options, &w->kernel);
    ck_assert_uint_eq(DO(tessera_kernel_signature, w->kernel)->n_params, 3);
    TRY(tessera_kernel_shape, w->kernel, 0, &size, 1, &tensor);
    TRY(tessera_kernel_fact, w->kernel, 0, &fact);
    TesseraKernel *vjp;
    TRY(tessera_kernel_vjp, w->kernel, NULL, 0, &vjp);
    tessera_kernel_free(vjp);
    ck_assert(!DO(tessera_kernel_follows, w->kernel, 0));
    TRY(tessera_kernel_emit, w->kernel, "ir", &bytes);
    TRY(tessera_kernel_schedule, w->kernel, true, &text);
    TRY(tessera_kernel_resources, w->kernel, &resources);
    if (w->first || strcmp(w->kind, "cpu") == 0) {
        TRY(tessera_kernel_explain, w->kernel, TESSERA_EXPLAIN_TEXT, &bytes);
    }
    TRY(tessera_kernel_accesses, w->kernel, &accesses);
    return TESSERA_OK;
}

static TesseraStatus use_tasks(World *w, const TesseraOptions *options)
{
    TRY(tessera_compile_start, w->program, options, NULL, NULL, &w->task);
    DO(tessera_task_finished, w->task);
    TRY(tessera_task_wait, w->task, &w->later);
    DO(tessera_task_cancel, w->task);
    for (int i = 0; i < 2; i++) {
        w->requests[i] = (TesseraRequest){.program = i ? w->read : w->program, .options = *options};
    }
    TRY(tessera_compile_all, w->context, w->requests, 2, w->device);
    return TESSERA_OK;
}

static TesseraStatus use_bundled(World *w)
{
    const char *target = "sm_80";
    TesseraBundleOptions options = {.name = "k", .targets = &target, .n_targets = 1};
    TRY(tessera_bundle, w->read, &options, &w->bundled);
    ck_assert(DO(tessera_bundled_header, w->bundled)->n > 0);
    ck_assert(DO(tessera_bundled_object, w->bundled)->n > 0);
    return TESSERA_OK;
}

static TesseraStatus use_device(World *w)
{
    TesseraMemory memory;
    const TesseraAllocation *list;
    size_t n;
    double seconds;
    static float host[SIDE * SIDE];
    ck_assert_str_eq(DO(tessera_device_info, w->device)->kind, w->kind);
    /* Of CUDA's contexts the mock has its own only: tests/device wraps that. */
    bool hip = strcmp(w->kind, "hip") == 0;
    TesseraStatus wrapped =
        DO(tessera_device_wrap, w->context, hip ? "hip" : "cpu", NULL, &w->wrapped);
    ck_assert(wrapped == TESSERA_OK || !w->wrapped);
    for (int i = 0; i < 3; i++) {
        TRY(tessera_alloc, w->device, BYTES, &w->memory[i]);
        TRY(tessera_copy_in, w->device, w->memory[i], host, BYTES);
    }
    TRY(tessera_copy_out, w->device, host, w->memory[0], BYTES);
    TRY(tessera_stream_new, w->device, &w->stream);
    TRY(tessera_alloc_host, w->device, BYTES, &w->pinned);
    TRY(tessera_copy_in_async, w->device, w->memory[0], w->pinned, BYTES, w->stream);
    TRY(tessera_copy_out_async, w->device, w->pinned, w->memory[0], BYTES, w->stream);
    TRY(tessera_copy, w->device, w->memory[1], w->device, w->memory[0], BYTES, w->stream);
    TRY(tessera_copy_time, w->device, w->memory[1], w->memory[0], BYTES, 1, &seconds);
    TRY(tessera_memory, w->device, &memory);
    TRY(tessera_memory_list, w->device, &list, &n);
    ck_assert(n == 4 && memory.allocations == 3);
    return TESSERA_OK;
}

static TesseraStatus use_pool_and_events(World *w)
{
    void *pooled;
    double seconds;
    TRY(tessera_pool_alloc, w->device, BYTES, w->stream, &pooled);
    TRY(tessera_pool_release, w->device, pooled, w->stream);
    TRY(tessera_pool_keep, w->device, 0);
    TRY(tessera_event_new, w->device, &w->before);
    TRY(tessera_event_new, w->device, &w->after);
    TRY(tessera_event_record, w->before, w->stream);
    TRY(tessera_event_record, w->after, w->stream);
    TRY(tessera_event_wait, w->after, NULL);
    TRY(tessera_event_sync, w->after);
    TRY(tessera_event_elapsed, w->before, w->after, &seconds);
    TRY(tessera_sync, w->device, w->stream);
    return TESSERA_OK;
}

static TesseraStatus use_dlpack(World *w)
{
    TesseraTensor tensor = {w->memory[0], TESSERA_F32, 2, {SIDE, SIDE}, NULL};
    TRY(tessera_dlpack_out, w->device, &tensor, NULL, NULL, &w->managed);
    TRY(tessera_dlpack_in, w->context, w->managed, &tensor, NULL, NULL);
    return TESSERA_OK;
}

static TesseraStatus use_launch(World *w)
{
    TesseraMessages said;
    double seconds;
    TesseraArg args[3] = {{.tensor = {w->memory[0], TESSERA_F32, 2, {SIDE, SIDE}, NULL}},
                          {.number = 2},
                          {.tensor = {w->memory[1], TESSERA_F32, 2, {SIDE, SIDE}, NULL}}};
    void *tensors[2] = {w->memory[2], w->memory[1]};
    TRY(tessera_kernel_load, w->kernel, w->device);
    TRY(tessera_prepare, w->kernel, w->device, args, 3, &w->launch);
    TRY(tessera_launch_reserve, w->launch, w->stream);
    TRY(tessera_launch, w->launch, w->stream);
    TRY(tessera_launch_set, w->launch, 0, w->memory[2]);
    TRY(tessera_launch_set_scalar, w->launch, 1, 3, 0);
    TRY(tessera_launch_with, w->launch, w->stream, tensors, 2);
    TesseraSearch nothing = {&w->launch, 1, NULL, 0, tensors};
    ck_assert_int_eq(DO(tessera_launch_find, &nothing, tensors), -1);
    TRY(tessera_launch_time, w->launch, w->stream, 1, &seconds);
    TRY(tessera_launch_messages, w->launch, w->stream, &said);
    ck_assert(DO(tessera_workspace_size, w->launch) > 0 && DO(tessera_launch_says, w->launch));
    return TESSERA_OK;
}

/* The CPU has no graphs, and says so. */
static TesseraStatus use_graph(World *w)
{
    bool cpu = strcmp(w->kind, "cpu") == 0;
    TesseraStatus begun = DO(tessera_capture_begin, w->device, w->stream);
    TesseraStatus launched = begun ? begun : DO(tessera_launch, w->launch, w->stream);
    TesseraStatus ended = DO(tessera_capture_end, w->device, w->stream, &w->graph);
    /* Of no graph it would be the last failure, and hide that of the capture. */
    TesseraStatus last = w->graph || cpu ? DO(tessera_graph_launch, w->graph, w->stream) : ended;
    ck_assert(!cpu || (begun == TESSERA_ENVIRONMENT && ended == begun && last));
    w->failed = "of a graph";
    return cpu ? TESSERA_OK : begun ? begun : launched ? launched : last;
}

static TesseraStatus use_bundle(World *w)
{
    uint64_t values[3] = {(uintptr_t)w->memory[0], (uintptr_t)w->memory[1], SIDE};
    TesseraArg args[2] = {{.tensor = {w->memory[0], TESSERA_F32, 1, {SIDE}, NULL}},
                          {.tensor = {w->memory[1], TESSERA_F32, 1, {SIDE}, NULL}}};
    TRY(tessera_bundle_prepare, bundle, "twice", w->device, args, 2, &w->of_bundle);
    ck_assert_ptr_nonnull(strstr(DO(tessera_launch_variant, w->of_bundle), "any size"));
    TRY(tessera_bundle_ready, bundle, 0, w->device, values, 3, &w->ready);
    TRY(tessera_bundle_launch, bundle, 0, w->device, w->stream, values, 3);
    return TESSERA_OK;
}

static TesseraStatus use_all(World *w, const TesseraAllocator *allocator)
{
    const TesseraFinding *findings;
    size_t n;
    note("tessera_context_new"); /* a name for: */
    TRY(tessera_context_open, TESSERA_ABI, allocator, &w->context);
    TesseraStatus status = use_context(w);
    status = status ? status : use_program(w);
    status = status ? status : use_oracle(w);
    if (status == TESSERA_OK) {
        TRY(tessera_device_open, w->context, w->kind, 0, &w->device);
        TesseraOptions options = {.target = DO(tessera_device_info, w->device)->target,
                                  .facts = &ANY,
                                  .n_facts = 1,
                                  .optimize = 1};
        ck_assert_ptr_nonnull(DO(tessera_target, w->context, 0));
        status = use_kernel(w, &options);
        status = status ? status : use_tasks(w, &options);
    }
    status = status ? status : use_bundled(w);
    status = status ? status : use_device(w);
    status = status ? status : use_pool_and_events(w);
    status = status ? status : use_dlpack(w);
    status = status ? status : use_launch(w);
    status = status ? status : use_graph(w);
    status = status ? status : use_bundle(w);
    if (status == TESSERA_OK && w->first) {
        TRY(tessera_doctor, w->context, &findings, &n);
    }
    return status;
}

static void free_all(World *w)
{
    if (w->managed) {
        struct {
            char tensor[48];
            void *context;
            void (*deleter)(void *self);
        } taken;
        memcpy(&taken, w->managed, sizeof taken);
        taken.deleter(w->managed);
    }
    DO(tessera_graph_free, w->graph);
    DO(tessera_launch_free, w->launch);
    tessera_launch_free(w->of_bundle);
    tessera_launch_free(w->ready);
    DO(tessera_event_free, w->before);
    tessera_event_free(w->after);
    DO(tessera_release_host, w->device, w->pinned);
    DO(tessera_stream_free, w->device, w->stream);
    DO(tessera_release, w->device, w->memory[0]);
    DO(tessera_task_free, w->task);
    DO(tessera_kernel_free, w->kernel);
    tessera_kernel_free(w->later);
    tessera_kernel_free(w->requests[0].kernel);
    tessera_kernel_free(w->requests[1].kernel);
    tessera_device_free(w->wrapped);
    DO(tessera_device_free, w->device);
    DO(tessera_bundled_free, w->bundled);
    DO(tessera_program_free, w->program);
    tessera_program_free(w->read);
    DO(tessera_context_free, w->context);
}

/* One run; what it could not do is told. */
static TesseraStatus run(const char *kind, Failing *failing, bool first)
{
    TesseraAllocator allocator = {failing_alloc, failing_release, failing};
    World w = {.kind = kind, .first = first};
    TesseraStatus status = use_all(&w, &allocator);
    if (w.context && status != TESSERA_OK) {
        const TesseraError *error = DO(tessera_error, w.context);
        ck_assert_msg(error->status == status && *error->message, "%s: %d, told %d: %s", w.failed,
                      status, error->status, error->message);
    }
    free_all(&w);
    ck_assert_msg(failing->open == 0, "%s: %d left at %d", w.failed, failing->open,
                  failing->fail_at);
    return status;
}

/* ---- what is there before ---- */

static void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(name, "wb");
    ck_assert(file && fwrite(bytes, 1, n, file) == n);
    fclose(file);
}

/* A library with a bundle in it: its functions are not called, so what they want is not there. */
static void make_bundle(void)
{
    static const char text[] = "kernel twice(x: f32[N]) -> f32[N] = x + x\n";
    static const char *const targets[] = {"x86-64-v3", "sm_90a", "gfx942"};
    TesseraBundleOptions options = {.name = "k",
                                    .targets = targets,
                                    .n_targets = 3,
                                    .facts = &ANY,
                                    .n_facts = 1,
                                    .shared = true};
    TesseraBundled *made;
    char library[96];
    snprintf(folder, sizeof folder, "/tmp/tessera-all-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/twice.tile", folder);
    snprintf(library, sizeof library, "%s/k.so", folder);
    write_file(path, text, strlen(text));
    parse(text);
    ck_assert_int_eq(tessera_bundle(program, &options, &made), TESSERA_OK);
    write_file(library, tessera_bundled_object(made)->data, tessera_bundled_object(made)->n);
    tessera_bundled_free(made);
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    bundle = dlsym(handle, "k_bundle");
    ck_assert_ptr_nonnull(bundle);
}

static void begin(void)
{
    setup();
    make_bundle();
}

static void end(void)
{
    char command[96];
    teardown();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* ---- the tests ---- */

static bool was_called(const char *name, size_t n)
{
    for (size_t i = 0; i < n_called; i++) {
        if (strlen(called[i]) == n && strncmp(called[i], name, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Each function that a header declares: "TESSERA_API … tessera_name(". */
static int check_header(const char *name)
{
    static char text[1 << 17];
    char header[1024];
    int n = 0;
    snprintf(header, sizeof header, "%s/include/tessera/%s", SOURCE_FOLDER, name);
    FILE *file = fopen(header, "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (const char *at = text; (at = strstr(at, "\nTESSERA_API ")); n++) {
        const char *stop = at = strchr(at, '(');
        while (isalnum((unsigned char)stop[-1]) || stop[-1] == '_') {
            stop--;
        }
        ck_assert_msg(was_called(stop, (size_t)(at - stop)), "%.*s is not among what fails here",
                      (int)(at - stop), stop);
    }
    return n;
}

START_TEST(allocations)
{
    Failing failing = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ck_assert_int_eq(run("cpu", &failing, true), TESSERA_OK); /* the cache has all code now */
    failing.n = 0;
    ck_assert_int_eq(run("cpu", &failing, false), TESSERA_OK);
    int told = 0, n = failing.n;
    for (int at = 1; at <= n; at++) {
        failing = (Failing){.lock = PTHREAD_MUTEX_INITIALIZER, .fail_at = at};
        TesseraStatus status = run("cpu", &failing, false);
        ck_assert_int_eq(status == TESSERA_OK ? TESSERA_ENVIRONMENT : status, TESSERA_ENVIRONMENT);
        told += status != TESSERA_OK;
    }
    ck_assert_int_gt(2 * told, n);
    int functions = check_header("launch.h") + check_header("tessera.h");
    printf("%d functions: each of %d allocations failed once, %d were told\n", functions, n, told);
}
END_TEST

/* One device, that of its own ordinal: the doctor opens all that there are. */
static void reset_driver(Mock *driver, void (*reset)(int fail_at), int fail_at)
{
    reset(fail_at);
    driver->n_devices = 1;
    driver->opened = 0;
}

static void fail_calls(const char *kind, const char *library)
{
    char name[1024];
    Failing failing = {.lock = PTHREAD_MUTEX_INITIALIZER};
    snprintf(name, sizeof name, "%s/lib/%s", MOCK_FOLDER, library);
    if (strcmp(kind, "hip") == 0) {
        setenv("ROCM_PATH", MOCK_FOLDER, 1);
    }
    void *handle = dlopen(name, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    Mock *driver = dlsym(handle, "mock");
    void (*reset)(int fail_at);
    *(void **)&reset = dlsym(handle, "mock_reset");
    reset_driver(driver, reset, 0);
    ck_assert_int_eq(run(kind, &failing, true), TESSERA_OK);
    reset_driver(driver, reset, 0);
    ck_assert_int_eq(run(kind, &failing, false), TESSERA_OK);
    int n = driver->calls, told = 0;
    for (int i = 1; i <= 2 * n; i++) {
        failing = (Failing){.lock = PTHREAD_MUTEX_INITIALIZER};
        reset_driver(driver, reset, (i + 1) / 2);
        driver->fail_on = i % 2 == 0;
        told += run(kind, &failing, false) != TESSERA_OK;
        ck_assert_msg(driver->open == 0 && driver->pushed == 0, "%s: %d open", driver->last,
                      driver->open);
    }
    ck_assert_int_gt(told, n);
    printf("%s: each of %d driver calls failed, alone and with all after it; %d were told\n", kind,
           n, told);
}

START_TEST(cuda)
{
    fail_calls("cuda", "libcuda.so.1");
}
END_TEST

START_TEST(hip)
{
    fail_calls("hip", "libamdhip64.so.6");
}
END_TEST

UNIT_TESTS(runtime_everything)
{
    TCase *tests = tcase_create("everything");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, allocations);
    tcase_add_test(tests, cuda);
    tcase_add_test(tests, hip);
    return tests;
}
