/* SPDX-License-Identifier: Apache-2.0 */
/* Runs IR text in the interpreter with inputs from files, for tests that know the results.
 *
 *     tessera-interp [--seed N] [--bounds] [--size M=5,N=7] FILE DIR [NAME=VALUE]…
 *
 * A tensor that is read comes from DIR/NAME.in, one that is written goes to DIR/NAME.out, its
 * error bounds (f64) to DIR/NAME.bound: raw bytes in memory order. Scalars are NAME=VALUE. Kernel
 * messages go to standard output, one per line. The exit code is 5, with one line of text, if the
 * program performs an illegal action, and 2 if the input is not a program. */
#include "ir/interp/interp.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMS = 256, MAX_TEXT = 1 << 24 };

typedef struct Job {
    Arena arena;
    Diags diags;
    Func *func;
    const char *folder;
    int64_t sizes[256];
    InterpArg args[MAX_PARAMS];
    size_t elements[MAX_PARAMS];
} Job;

static int complain(const char *what)
{
    fprintf(stderr, "tessera-interp: %s\n", what);
    return 2;
}

static char *read_text(Arena *arena, const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    char *text = arena_alloc(arena, MAX_TEXT);
    *n = fread(text, 1, MAX_TEXT - 1, file);
    text[*n] = 0;
    fclose(file);
    return text;
}

/* ---- what it says ---- */

static void say(void *user, const InterpEvent *note)
{
    static const char *const kinds[] = {"print", "assert", "unordered", "float_atomic"};
    (void)user;
    printf("%s %s", kinds[note->kind], note->text ? note->text : op_info(note->op->kind)->name);
    for (int i = 0; i < note->n; i++) {
        bool is_float = dtype_is_float(note->dtypes[i]);
        if (is_float) {
            printf(" %.9g", note->values[i].f);
        } else {
            printf(" %lld", (long long)note->values[i].i);
        }
    }
    printf("\n");
}

/* ---- parameters ---- */

static const char *path_of(Job *job, const char *name, const char *suffix)
{
    return arena_printf(&job->arena, "%s/%s.%s", job->folder, name, suffix);
}

static bool bind_tensor(Job *job, size_t i)
{
    const Param *param = &job->func->params.items[i];
    Type type = param->value->type;
    size_t n = 1;
    for (int axis = 0; axis < type->rank; axis++) {
        int64_t extent;
        if (!poly_eval(type->dims[axis], job->sizes, &extent) || extent < 0) {
            return false;
        }
        n *= (size_t)extent;
    }
    size_t bytes = dtype_size(type->dtype, n);
    job->elements[i] = n;
    job->args[i].tensor.data = arena_alloc(&job->arena, bytes + 1);
    job->args[i].tensor.bound = ARENA_ARRAY(&job->arena, double, n + 1);
    memset(job->args[i].tensor.data, 0x5a, bytes);
    if (param->io != PARAM_IN && param->io != PARAM_INOUT) {
        return true;
    }
    FILE *file = fopen(path_of(job, param->name, "in"), "rb");
    bool fine = file && fread(job->args[i].tensor.data, 1, bytes, file) == bytes;
    if (file) {
        fclose(file);
    }
    return fine;
}

static bool bind_all(Job *job)
{
    for (size_t i = 0; i < job->func->params.n; i++) {
        if (job->func->params.items[i].value->type->kind == TYPE_TENSOR && !bind_tensor(job, i)) {
            return false;
        }
    }
    return true;
}

static bool write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    bool fine = file && fwrite(data, 1, bytes, file) == bytes;
    return file && fclose(file) == 0 && fine;
}

static bool write_all(Job *job, bool bounds)
{
    bool fine = true;
    for (size_t i = 0; i < job->func->params.n; i++) {
        const Param *param = &job->func->params.items[i];
        if (param->value->type->kind != TYPE_TENSOR ||
            (param->io != PARAM_OUT && param->io != PARAM_INOUT)) {
            continue;
        }
        size_t n = job->elements[i], bytes = dtype_size(param->value->type->dtype, n);
        fine &= write_bytes(path_of(job, param->name, "out"), job->args[i].tensor.data, bytes);
        if (bounds) {
            fine &= write_bytes(path_of(job, param->name, "bound"), job->args[i].tensor.bound,
                                n * sizeof(double));
        }
    }
    return fine;
}

static void give_sizes(Job *job, const char *text)
{
    while (text && *text) {
        size_t n = strcspn(text, "=");
        char *name = arena_strndup(&job->arena, text, n), *end;
        job->sizes[func_size(job->func, name)->id] = strtoll(text + n + (text[n] == '='), &end, 10);
        text = *end == ',' ? end + 1 : NULL;
    }
}

static bool give_scalar(Job *job, const char *text)
{
    size_t n = strcspn(text, "=");
    for (size_t i = 0; i < job->func->params.n; i++) {
        const char *name = job->func->params.items[i].name;
        if (strlen(name) == n && memcmp(name, text, n) == 0 && text[n]) {
            job->args[i].number = strtod(text + n + 1, NULL);
            job->args[i].integer = strtoll(text + n + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

static bool parse(Job *job, const char *path)
{
    size_t n;
    const char *text = read_text(&job->arena, path, &n);
    if (!text) {
        return false;
    }
    Text said = text_new(&job->arena);
    job->func = parse_func(&job->arena, &job->diags, diags_add_source(&job->diags, path, text, n));
    diags_render(&job->diags, &said);
    if (!job->func || verify_func(job->func, &said) != 0) {
        fputs(said.data, stderr);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static Job job;
    InterpOptions options = {.note = say};
    const char *sizes = NULL, *file = NULL;
    arena_init(&job.arena, allocator_default());
    diags_init(&job.diags, &job.arena);
    int i = 1;
    for (; i < argc && (argv[i][0] == '-' || !job.folder); i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            options.seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--size") == 0 && i + 1 < argc) {
            sizes = argv[++i];
        } else if (strcmp(argv[i], "--bounds") == 0) {
            options.bounds = true;
        } else {
            *(file ? &job.folder : &file) = argv[i];
        }
    }
    if (!job.folder || !parse(&job, file) || job.func->params.n > MAX_PARAMS) {
        return complain("no program, or no folder");
    }
    give_sizes(&job, sizes);
    for (; i < argc; i++) {
        if (!give_scalar(&job, argv[i])) {
            return complain("no such scalar");
        }
    }
    if (!bind_all(&job)) {
        return complain("a tensor's file is missing or too short");
    }
    Text problem = text_new(&job.arena);
    if (!interp_func(job.func, job.args, job.sizes, &options, &problem)) {
        fprintf(stderr, "%s\n", problem.data);
        return 5;
    }
    bool written = write_all(&job, options.bounds);
    arena_free(&job.arena);
    return written ? 0 : complain("cannot write");
}
