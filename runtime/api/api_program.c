/* SPDX-License-Identifier: Apache-2.0 */
/* Public programs. A program is parsed once for its signatures. Each compilation parses the text
 * again, in an arena of its own, so that it can be freed with everything it allocated. */
#include "runtime/api/api_objects.h"

#include "frontend/messages/frontend_errors.h"

#include "ir/ir_errors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static TesseraSignature signature_of(TesseraProgram *program, const KernelSignature *from)
{
    static const TesseraIo ios[] = {TESSERA_IN, TESSERA_OUT, TESSERA_INOUT};
    /* Sizes that select a variant (`assume D in 64, 128`) are the choices of a kernel. */
    TesseraChoice *choices = ARENA_ARRAY(&program->work.arena, TesseraChoice, from->sizes.n);
    size_t n_choices = 0;
    for (size_t i = 0; i < from->sizes.n; i++) {
        TesseraChoice choice = {.size = from->sizes.items[i]};
        choice.values = frontend_allowed(program->module, from, choice.size, &choice.n);
        if (choice.n > 0) {
            choices[n_choices++] = choice;
        }
    }
    TesseraParam *params = ARENA_ARRAY(&program->work.arena, TesseraParam, from->params.n);
    for (size_t i = 0; i < from->params.n; i++) {
        const KernelParam *param = &from->params.items[i];
        params[i] = (TesseraParam){
            .name = param->name,
            .type = param->dtype,
            .rank = param->rank,
            .dims = (const char *const *)param->dims,
            .io = ios[param->io],
            .is_const = param->is_const,
            .fallback = param->fallback,
        };
    }
    return (TesseraSignature){
        .name = from->name,
        .params = params,
        .n_params = from->params.n,
        .generics = (const char *const *)from->generics.items,
        .classes = (const char *const *)from->classes.items,
        .n_generics = from->generics.n,
        .sizes = (const char *const *)from->sizes.items,
        .n_sizes = from->sizes.n,
        .choices = choices,
        .n_choices = n_choices,
        .doc = from->doc,
        .any_rank = from->any_rank,
    };
}

typedef struct ParseTask {
    TesseraProgram *program;
    const char *name, *text;
    size_t n;
    const char *folder; /* of imports; NULL: none */
} ParseTask;

static bool parse_task(void *user)
{
    ParseTask *task = user;
    TesseraProgram *program = task->program;
    ErrorBoundary *work = &program->work;
    if (task->n > MAX_SOURCE) {
        diag_failure(&work->diags, DIAG_SOURCE, "%s: more than %d MiB of source", task->name,
                     MAX_SOURCE_MIB);
        return false;
    }
    int source = diags_add_source(&work->diags, task->name, task->text, task->n);
    const Source *kept = &work->diags.sources.items[source];
    program->name = kept->name;
    program->text = kept->text;
    program->n = kept->n;
    program->imports = (Imports){.arena = &work->arena};
    program->imports.folder = task->folder ? arena_strdup(&work->arena, task->folder) : NULL;
    Importer importer = imports_reader(&program->imports);
    program->module = frontend_parse(&work->arena, &work->diags, source, &importer);
    if (!program->module) {
        return false;
    }
    for (size_t i = 0; i < frontend_kernel_count(program->module); i++) {
        TesseraSignature signature =
            signature_of(program, frontend_kernel(program->module, i));
        ARENA_PUSH(&program->work.arena, &program->signatures, signature);
    }
    return true;
}

static void parse_reproducer(void *user, Text *out)
{
    const ParseTask *task = user;
    text_printf(out, "# tessera %s, reading %s\n", TESSERA_VERSION, task->name);
    text_add_n(out, task->text, task->n);
}

static TesseraStatus parse_text(TesseraContext *context, const ParseTask *what,
                                TesseraProgram **out)
{
    ParseTask task = *what;
    TesseraProgram *program = handle_take(context, sizeof *program);
    if (!program) {
        return TESSERA_ENVIRONMENT;
    }
    work_init(&program->work, context);
    work_init(&program->inferred, context);
    work_init(&program->tuning, context);
    task.program = program;
    TesseraStatus status = error_boundary_run(&program->work, parse_task, parse_reproducer, &task);
    if (status != TESSERA_OK) {
        tessera_program_free(program);
        return status;
    }
    *out = program;
    return TESSERA_OK;
}

TesseraStatus tessera_program_parse(TesseraContext *context, const char *name, const char *text,
                                    size_t n, TesseraProgram **out)
{
    const char *null = NULL_ARGUMENT({out, "program"}, {name, "name"}, {n > 0 ? text : "", "text"});
    if (out) {
        *out = NULL;
    }
    if (!context || null) {
        return context_null(context, __func__, null ? null : "context");
    }
    return parse_text(context, &(ParseTask){NULL, name, text ? text : "", n, NULL}, out);
}

void tessera_program_free(TesseraProgram *program)
{
    ANSWER_FREED(program, );
    if (program) {
        TesseraContext *context = program->work.context;
        work_free(&program->inferred);
        work_free(&program->tuning);
        work_free(&program->work);
        handle_drop(context, &program->handle);
    }
}

/* ---- files ---- */

static TesseraStatus cannot_read(TesseraContext *context, const char *path, const char *why)
{
    return context_fail_code(context, TESSERA_ENVIRONMENT, ERR_CANNOT_READ,
                             "cannot read %.300s: %s", path, why);
}

/* Reads the whole file into a buffer that grows, because a pipe has no length. */
static TesseraStatus read_all(TesseraContext *context, FILE *file, const char *path, char **text,
                              size_t *n)
{
    size_t cap = 1 << 16;
    *n = 0;
    *text = context_take(context, cap);
    while (*text) {
        *n += fread(*text + *n, 1, cap - *n, file);
        if (ferror(file)) {
            return cannot_read(context, path, strerror(errno));
        }
        if (*n < cap || *n > MAX_SOURCE) {
            return TESSERA_OK;
        }
        char *bigger = context_take(context, cap * 2);
        if (bigger) {
            memcpy(bigger, *text, *n);
        }
        context_drop(context, *text);
        *text = bigger;
        cap *= 2;
    }
    return TESSERA_ENVIRONMENT;
}

TesseraStatus tessera_program_read(TesseraContext *context, const char *path,
                                   TesseraProgram **program)
{
    char *text = NULL;
    size_t n = 0;
    if (program) {
        *program = NULL;
    }
    if (!context || !path || !program) {
        return context_null(context, __func__, !path ? "path" : !program ? "program" : "context");
    }
    FILE *file = fopen(path, "rbe");
    if (!file) {
        return cannot_read(context, path, strerror(errno));
    }
    TesseraStatus status = read_all(context, file, path, &text, &n);
    fclose(file);
    if (status == TESSERA_OK) {
        const char *slash = strrchr(path, '/');
        char *folder = slash ? context_take(context, (size_t)(slash - path) + 2) : NULL;
        if (folder) {
            memcpy(folder, path, (size_t)(slash - path) + 1);
        }
        status =
            parse_text(context, &(ParseTask){NULL, path, text, n, folder ? folder : "."}, program);
        context_drop(context, folder);
    }
    context_drop(context, text);
    return status;
}

/* ---- kernels ---- */

size_t tessera_program_kernels(const TesseraProgram *program)
{
    ANSWER_FREED(program, 0);
    return program ? program->signatures.n : 0;
}

const char *tessera_program_file(const TesseraProgram *program, size_t index)
{
    ANSWER_FREED(program, NULL);
    if (!program || !program->imports.folder || index > program->imports.texts.n) {
        return NULL;
    }
    return index == 0 ? program->name : program->imports.texts.items[index - 1].file;
}

const TesseraSignature *tessera_program_kernel(const TesseraProgram *program, size_t index)
{
    ANSWER_FREED(program, NULL);
    return program && index < program->signatures.n ? &program->signatures.items[index] : NULL;
}

static void list_kernels(const TesseraProgram *program, char names[256])
{
    names[0] = '\0';
    for (size_t i = 0, n = 0; i < program->signatures.n && n < 256; i++) {
        n += (size_t)snprintf(names + n, 256 - n, "%s%s", i ? ", " : "",
                              program->signatures.items[i].name);
    }
}

/* ---- derivatives, vjp(f), and kernels for another number of axes, f[3] ---- */

typedef struct DerivedTask {
    TesseraProgram *program;
    const char *name;
    const TesseraSignature *found;
} DerivedTask;

static bool derived_task(void *user)
{
    DerivedTask *task = user;
    TesseraProgram *program = task->program;
    const KernelSignature *kernel = frontend_find(program->module, task->name);
    for (size_t i = 0; kernel && i < program->derived.n; i++) {
        if (text_equal(program->derived.items[i]->name, kernel->name)) {
            task->found = program->derived.items[i];
            return true;
        }
    }
    if (kernel) {
        TesseraSignature *signature = ARENA_NEW(&program->work.arena, TesseraSignature);
        *signature = signature_of(program, kernel);
        ARENA_PUSH(&program->work.arena, &program->derived, signature);
        task->found = signature;
    }
    return kernel != NULL;
}

static TesseraStatus find_derived(const TesseraProgram *program, const char *name,
                                  const TesseraSignature **signature)
{
    DerivedTask task = {.program = (TesseraProgram *)program, .name = name};
    ErrorBoundary *work = &task.program->work;
    work->diags.list.n = 0; /* of earlier names */
    work->diags.errors = 0;
    TesseraStatus status = error_boundary_run(work, derived_task, NULL, &task);
    *signature = task.found;
    return status;
}

/* f_3d, where f has `...` in its types: what f[3] is called in code. */
static bool is_of_rank(const TesseraProgram *program, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < program->signatures.n; i++) {
        const TesseraSignature *at = &program->signatures.items[i];
        if (at->any_rank && n == strlen(at->name) + 3 && strncmp(name, at->name, n - 3) == 0) {
            return name[n - 3] == '_' && name[n - 1] == 'd';
        }
    }
    return false;
}

TesseraStatus tessera_program_find(const TesseraProgram *program, const char *name,
                                   const TesseraSignature **signature)
{
    REFUSE_FREED(program);
    TesseraContext *context = program ? program->work.context : NULL;
    if (!program || !signature) {
        return context_null(context, __func__, program ? "signature" : "program");
    }
    *signature = NULL;
    if (!name && program->signatures.n == 1) {
        *signature = &program->signatures.items[0];
        return TESSERA_OK;
    }
    if (!name) {
        char names[256];
        size_t n = program->signatures.n;
        list_kernels(program, names);
        return n == 0 ? context_fail_code(program->work.context, TESSERA_USAGE, ERR_NO_KERNEL,
                                          "%s has no kernel", program->name)
                      : context_fail_code(program->work.context, TESSERA_USAGE, ERR_WHICH_KERNEL,
                                          "%s has %zu kernels: say which, as %s:NAME (%s)",
                                          program->name, n, program->name, names);
    }
    Nearest nearest = nearest_to(name);
    for (size_t i = 0; i < program->signatures.n; i++) {
        const TesseraSignature *at = &program->signatures.items[i];
        if (text_equal(at->name, name)) {
            *signature = at;
            return TESSERA_OK;
        }
        nearest_try(&nearest, at->name);
    }
    if (strpbrk(name, "([") || is_of_rank(program, name)) {
        return find_derived(program, name, signature);
    }
    const char *similar = nearest_found(&nearest);
    char names[256];
    list_kernels(program, names);
    if (similar) {
        return context_fail_code(context, TESSERA_USAGE, ERR_NO_KERNEL,
                                 "%s has no kernel '%.100s': did you mean '%s'?", program->name,
                                 name, similar);
    }
    return context_fail_code(context, TESSERA_USAGE, ERR_NO_KERNEL, "%s has no kernel '%.100s'%s%s",
                             program->name, name, *names ? ": it has " : "", names);
}
