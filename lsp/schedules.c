/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles kernels down to their schedules for inlay hints. */
#include "lsp/schedules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a document keeps: the schedules of its kernels, in memory of their own. */
struct DerivedList {
    Arena arena;
    Derived *first;
};

void derived_free(Document *document)
{
    if (document->derived) {
        arena_free(&document->derived->arena);
        free(document->derived);
        document->derived = NULL;
    }
}

const Derived *derived_find(const Document *document, const char *kernel)
{
    for (const Derived *d = document->derived ? document->derived->first : NULL; d; d = d->next) {
        if (text_equal(d->kernel, kernel)) {
            return d;
        }
    }
    return NULL;
}

/* ---- what is given ---- */

typedef struct Given {
    const char *target, *sizes, *sets;
} Given;

/* The word behind `option`, of a line of a comment. */
static void read_option(Arena *arena, const char *line, const char *option, const char **out)
{
    const char *at = strstr(line, option), *end = line + strcspn(line, "\n");
    if (at && at < end) {
        at += strlen(option);
        at += strspn(at, " ");
        *out = arena_strndup(arena, at, strcspn(at, " \n"));
    }
}

static Given given_for(Arena *arena, const Server *server, const KernelDecl *kernel)
{
    static const char mark[] = "tessera: ";
    Given given = {server->target, server->sizes, server->sets};
    const char *line = kernel->signature.doc;
    while (line && strncmp(line, mark, sizeof mark - 1) != 0) {
        line = strchr(line, '\n');
        line += line != NULL;
    }
    if (line) {
        read_option(arena, line, "--target ", &given.target);
        read_option(arena, line, "--size ", &given.sizes);
        read_option(arena, line, "--set ", &given.sets);
    }
    return given;
}

/* The text behind `name=` in a list with commas; NULL: it is not there. */
static const char *value_of(Arena *arena, const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at && *at; at += *at == ',') {
        at += strspn(at, " ");
        if (strncmp(at, name, n) == 0 && at[n] == '=') {
            return arena_strndup(arena, at + n + 1, strcspn(at + n + 1, ", "));
        }
        at += strcspn(at, ",");
    }
    return NULL;
}

/* 4096, or 4k. */
static bool read_size(const char *text, int64_t *size)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    int shift = 0;
    if (*end == 'k') {
        shift = 10;
    } else if (*end == 'm') {
        shift = 20;
    }
    end += shift > 0;
    *size = (int64_t)value << shift;
    return errno == 0 && end != text && *end == 0 && value >= 0 && value < (int64_t)1 << 40;
}

typedef struct Sizes {
    TesseraSize *items;
    size_t n, cap;
} Sizes;
typedef struct Pairs {
    TesseraPair *items;
    size_t n, cap;
} Pairs;

static Sizes sizes_for(Arena *arena, const KernelDecl *kernel, const Given *given)
{
    Sizes sizes = {0};
    for (size_t i = 0; i < kernel->signature.sizes.n; i++) {
        const char *name = kernel->signature.sizes.items[i];
        const char *text = value_of(arena, given->sizes, name);
        TesseraSize size = {name, 0};
        if (text && read_size(text, &size.value)) {
            ARENA_PUSH(arena, &sizes, size);
        }
    }
    return sizes;
}

/* What the settings leave open is what the kernel was type checked with. */
static Pairs bindings_for(Arena *arena, const Module *module, const KernelDecl *kernel,
                          const Given *given, const Sizes *sizes)
{
    Bindings trial = trial_bindings(arena, module, kernel, 0);
    Pairs pairs = {0};
    for (size_t i = 0; i < trial.n; i++) {
        const char *set = value_of(arena, given->sets, trial.items[i].name);
        TesseraPair pair = {trial.items[i].name, set ? set : trial.items[i].text};
        bool sized = false;
        for (size_t k = 0; k < sizes->n; k++) {
            sized = sized || text_equal(sizes->items[k].name, pair.name);
        }
        if (!sized) {
            ARENA_PUSH(arena, &pairs, pair);
        }
    }
    return pairs;
}

/* ---- deriving ---- */

/* "tile M 1; warps 4" of a schedule block. */
static const char *in_a_line(Arena *arena, const char *target, const char *block)
{
    Text text = text_new(arena);
    text_printf(&text, "%s:", target);
    const char *line = strchr(block, '\n');
    for (int n = 0; line && line[1] && line[1] != '}'; n++) {
        line += 1 + strspn(line + 1, " ");
        size_t length = strcspn(line, "\n");
        text_add(&text, n ? "; " : " ");
        text_add_n(&text, line, length);
        line = strchr(line, '\n');
    }
    return text.data;
}

static void add_derived(struct DerivedList *list, TesseraProgram *program,
                        const TesseraOptions *options)
{
    TesseraKernel *kernel;
    if (tessera_compile(program, options, &kernel) != TESSERA_OK) {
        return;
    }
    const char *block, *reasons;
    if (tessera_kernel_schedule(kernel, false, &block) == TESSERA_OK) {
        Derived *derived = ARENA_NEW(&list->arena, Derived);
        derived->kernel = arena_strdup(&list->arena, options->kernel);
        derived->line = in_a_line(&list->arena, options->target, block);
        bool known = tessera_kernel_schedule(kernel, true, &reasons) == TESSERA_OK;
        derived->block = arena_strdup(&list->arena, known ? reasons : "");
        derived->next = list->first;
        list->first = derived;
    }
    tessera_kernel_free(kernel);
}

static void derive(Server *server, const Analysis *a, const KernelDecl *kernel,
                   struct DerivedList *list, TesseraProgram *program)
{
    Given given = given_for(&list->arena, server, kernel);
    Sizes sizes = sizes_for(&list->arena, kernel, &given);
    Pairs pairs = bindings_for(&list->arena, a->module, kernel, &given, &sizes);
    if (sizes.n == 0) {
        return;
    }
    TesseraOptions options = {.kernel = kernel->name,
                              .target = given.target ? given.target : "native",
                              .sizes = sizes.items,
                              .n_sizes = sizes.n,
                              .bindings = pairs.items,
                              .n_bindings = pairs.n};
    TesseraInferred inferred;
    if (tessera_infer(program, &options, NULL, &inferred) == TESSERA_OK) {
        options.bindings = inferred.bindings;
        options.n_bindings = inferred.n_bindings;
        options.sizes = inferred.sizes;
        options.n_sizes = inferred.n_sizes;
        add_derived(list, program, &options);
    }
}

/* The text as it is in the editor; with imports the file, which may be older. */
static bool read_program(TesseraContext *context, const Document *document, TesseraProgram **out)
{
    const Module *module = document->analysis->module;
    bool file = false;
    for (size_t i = 0; i < module->imports.n; i++) {
        file = file || module->imports.items[i].is_file;
    }
    return (file && document->path
                ? tessera_program_read(context, document->path, out)
                : tessera_program_parse(context, document->uri, document->lined.text,
                                        document->lined.n, out)) == TESSERA_OK;
}

/* False: a message has come before all was done. */
static bool derive_all(Server *server, const Document *document, struct DerivedList *list,
                       TesseraProgram *program)
{
    const Analysis *a = document->analysis;
    for (size_t i = 0; i < a->module->kernels.n; i++) {
        if (transport_has_input(&server->transport)) {
            return false;
        }
        const KernelDecl *kernel = a->module->kernels.items[i];
        if (kernel->signature.name && !kernel->broken) {
            derive(server, a, kernel, list, program);
        }
    }
    return true;
}

static bool guarded(Server *server, const Document *document, struct DerivedList *list,
                    TesseraProgram *program)
{
    jmp_buf guard;
    list->arena.guard = &guard;
    return setjmp(guard) != 0 || derive_all(server, document, list, program);
}

static bool derive_document(Server *server, Document *document)
{
    TesseraContext *context;
    TesseraProgram *program;
    struct DerivedList *list = calloc(1, sizeof *list);
    if (!list || tessera_context_new(NULL, &context) != TESSERA_OK) {
        free(list);
        return true;
    }
    arena_init(&list->arena, allocator_default());
    bool done = true;
    if (read_program(context, document, &program)) {
        done = guarded(server, document, list, program);
        tessera_program_free(program);
    }
    tessera_context_free(context);
    if (done) {
        derived_free(document);
        document->derived = list;
    } else {
        arena_free(&list->arena);
        free(list);
    }
    return done;
}

static bool has_errors(const Analysis *a)
{
    for (size_t i = 0; i < a->diags.list.n; i++) {
        if (a->diags.list.items[i].severity == SEVERITY_ERROR) {
            return true;
        }
    }
    return false;
}

bool derive_schedules(Server *server)
{
    bool any = false;
    for (Document *d = server->documents.first; d; d = d->next) {
        const Analysis *a = d->derived_wanted ? document_analysis(&server->documents, d) : NULL;
        if (!a || !a->module || has_errors(a)) { /* then the old ones stay */
            continue;
        }
        if (!derive_document(server, d)) {
            return false;
        }
        d->derived_wanted = false;
        any = true;
    }
    return any;
}
