/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one case through the public interface: on the interpreter first, then in each way on the
 * device. */
#include "tests/fuzz/fuzz.h"

#include "runtime/api/api_debug.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, APART = 64, CANARY = 0xa5 };

/* Host memory that ends where the process may not read: what runs past it is seen. */
typedef struct Block {
    unsigned char *map, *data;
    size_t mapped, bytes;
} Block;

static Block block_new(size_t bytes)
{
    Block b = {.bytes = bytes};
    size_t rounded = (bytes + APART - 1) / APART * APART;
    size_t pages = (rounded + PAGE - 1) / PAGE * PAGE;
    b.mapped = pages + 2 * PAGE;
    b.map = mmap(NULL, b.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages) {
        mprotect(b.map + PAGE, pages, PROT_READ | PROT_WRITE);
        memset(b.map + PAGE, CANARY, pages);
    }
    b.data = b.map + PAGE + pages - rounded;
    return b;
}

/* Is all of it but the data as it was? */
static bool block_whole(const Block *b)
{
    const unsigned char *end = b->map + b->mapped - PAGE;
    for (const unsigned char *p = b->map + PAGE; p < end; p++) {
        if ((p < b->data || p >= b->data + b->bytes) && *p != CANARY) {
            return false;
        }
    }
    return true;
}

typedef struct Slot {
    const char *name;
    TesseraIo io;
    TesseraTensor shape; /* rank -1: a scalar */
    size_t elements, bytes;
    void *first; /* what it holds before */
    void *want;  /* the interpreter's */
    double *bound;
    TesseraArg scalar;
} Slot;

typedef struct Fuzz {
    const Case *c;
    const char *device;
    TesseraContext *context;
    TesseraProgram *program;
    TesseraOptions options;
    TesseraFact facts[MAX_NAMES];
    Slot slots[2 * MAX_NAMES];
    size_t n;
    Outcome *outcome;
} Fuzz;

static bool failed(Fuzz *f, TesseraStatus status, const char *way, bool front)
{
    static const char *const words[] = {"ok",          "refused", "usage",
                                        "environment", "fault",   "differs"};
    if (status == TESSERA_OK) {
        return false;
    }
    const char *word = status == TESSERA_INTERNAL ? "internal" : words[status];
    if (front && (status == TESSERA_SOURCE || status == TESSERA_USAGE)) {
        word = "invalid";
    }
    outcome_set(f->outcome, word, way, "%s", tessera_error(f->context)->message);
    return true;
}

static void give_sizes(Fuzz *f)
{
    const Case *c = f->c;
    f->options =
        (TesseraOptions){.target = "native", .bindings = c->bindings, .n_bindings = c->n_bindings};
    if (c->any) {
        for (size_t i = 0; i < c->n_sizes; i++) {
            f->facts[i] = (TesseraFact){.name = c->sizes[i].name, .multiple = 1};
        }
        f->options.facts = f->facts;
        f->options.n_facts = c->n_sizes;
    } else {
        f->options.sizes = c->sizes;
        f->options.n_sizes = c->n_sizes;
    }
}

/* ---- arguments ---- */

static void make_tensor(Fuzz *f, Slot *slot)
{
    slot->elements = 1;
    for (int i = 0; i < slot->shape.rank; i++) {
        slot->elements *= (size_t)slot->shape.dims[i];
    }
    slot->bytes = tessera_type_size(slot->shape.type, slot->elements);
    slot->first = malloc(slot->bytes + 1);
    if (slot->io == TESSERA_OUT) {
        memset(slot->first, 1, slot->bytes);
    } else {
        data_fill(f->c, slot->name, slot->shape.type, slot->first, slot->elements);
    }
    if (slot->io != TESSERA_IN) {
        slot->want = malloc(slot->bytes + 1);
        slot->bound = calloc(slot->elements + 1, sizeof *slot->bound);
    }
}

static bool make_slots(Fuzz *f)
{
    TesseraKernel *kernel = NULL;
    TesseraDebug stop = {.stop_after = "frontend"};
    tessera_debug(f->context, &stop);
    if (failed(f, tessera_compile(f->program, &f->options, &kernel), "", true)) {
        return false;
    }
    const TesseraSignature *signature = tessera_kernel_signature(kernel);
    bool ok = true;
    for (size_t i = 0; i < signature->n_params && ok; i++) {
        const TesseraParam *param = &signature->params[i];
        Slot *slot = &f->slots[f->n++];
        *slot = (Slot){.name = strdup(param->name), .io = param->io};
        ok = !failed(f, tessera_kernel_shape(kernel, i, f->c->sizes, f->c->n_sizes, &slot->shape),
                     "", true);
        if (ok && param->rank < 0) {
            TesseraType type = TESSERA_F32;
            tessera_type_find(param->type, &type);
            slot->shape.rank = -1;
            data_scalar(f->c, slot->name, type, &slot->scalar);
        } else if (ok) {
            make_tensor(f, slot);
        }
    }
    tessera_kernel_free(kernel);
    return ok;
}

static bool interpret(Fuzz *f)
{
    TesseraArg args[2 * MAX_NAMES];
    for (size_t i = 0; i < f->n; i++) {
        Slot *slot = &f->slots[i];
        args[i] = slot->scalar;
        if (slot->shape.rank >= 0) {
            args[i].tensor = slot->shape;
            args[i].tensor.data = slot->want ? slot->want : slot->first;
            args[i].bound = slot->bound;
        }
        if (slot->want) {
            memcpy(slot->want, slot->first, slot->bytes);
        }
    }
    tessera_debug(f->context, NULL);
    return !failed(f, tessera_interpret(f->program, &f->options, args, f->n), "", true);
}

/* ---- one way ---- */

typedef struct Launch {
    TesseraDevice *device;
    bool host;
    Block blocks[2 * MAX_NAMES]; /* on a GPU: only `data`, its memory */
    TesseraArg args[2 * MAX_NAMES];
} Launch;

static bool upload(Fuzz *f, Launch *l, const char *way)
{
    for (size_t i = 0; i < f->n; i++) {
        const Slot *slot = &f->slots[i];
        l->args[i] = slot->scalar;
        if (slot->shape.rank < 0) {
            continue;
        }
        void *memory = NULL;
        if (l->host) {
            l->blocks[i] = block_new(slot->bytes);
            memory = l->blocks[i].data;
            memcpy(memory, slot->first, slot->bytes);
        } else if (failed(f, tessera_alloc(l->device, slot->bytes, &memory), way, false) ||
                   failed(f, tessera_copy_in(l->device, memory, slot->first, slot->bytes), way,
                          false)) {
            return false;
        }
        l->blocks[i].data = memory;
        l->args[i].tensor = slot->shape;
        l->args[i].tensor.data = memory;
    }
    return true;
}

static bool compare(Fuzz *f, Launch *l, const char *way)
{
    for (size_t i = 0; i < f->n; i++) {
        const Slot *slot = &f->slots[i];
        TesseraDifference d;
        if (slot->shape.rank < 0) {
            continue;
        }
        if (l->host && !block_whole(&l->blocks[i])) {
            outcome_set(f->outcome, "outside", way, "writes outside of %s", slot->name);
            return false;
        }
        void *got = malloc(slot->bytes + 1);
        bool bad =
            l->device &&
            failed(f, tessera_copy_out(l->device, got, l->blocks[i].data, slot->bytes), way, false);
        if (!l->device) {
            memcpy(got, l->blocks[i].data, slot->bytes);
        }
        const void *want = slot->want ? slot->want : slot->first;
        if (!bad && slot->want &&
            tessera_compare(slot->shape.type, slot->elements, got, want, slot->bound, &d) !=
                TESSERA_OK) {
            outcome_set(f->outcome, "differs", way,
                        "%s: %zu of %zu elements, first %zu: %.9g, interpreter %.9g, allowed %.3g",
                        slot->name, d.different, slot->elements, d.first, d.got, d.want, d.bound);
            bad = true;
        } else if (!bad && !slot->want && memcmp(got, want, slot->bytes) != 0) {
            outcome_set(f->outcome, "outside", way, "writes to the input %s", slot->name);
            bad = true;
        }
        free(got);
        if (bad) {
            return false;
        }
        f->outcome->compared += slot->want ? slot->elements : 0;
    }
    return true;
}

static void release(Fuzz *f, Launch *l)
{
    for (size_t i = 0; i < f->n; i++) {
        if (l->host && l->blocks[i].map) {
            munmap(l->blocks[i].map, l->blocks[i].mapped);
        } else if (!l->host && l->blocks[i].data) {
            tessera_release(l->device, l->blocks[i].data);
        }
    }
}

static bool launch(Fuzz *f, TesseraKernel *kernel, TesseraDevice *device, const char *way)
{
    Launch l = {.device = device, .host = strcmp(f->device, "cpu") == 0};
    TesseraLaunch *prepared = NULL;
    bool ok = upload(f, &l, way) &&
              !failed(f, tessera_prepare(kernel, device, l.args, f->n, &prepared), way, false) &&
              !failed(f, tessera_launch(prepared, NULL), way, false) &&
              !failed(f, tessera_sync(device, NULL), way, false) && compare(f, &l, way);
    tessera_launch_free(prepared);
    release(f, &l);
    return ok;
}

/* What the passes made of it, interpreted: no device is needed. */
static bool run_passes(Fuzz *f, const Way *way, const TesseraOptions *options)
{
    TesseraArg args[2 * MAX_NAMES];
    Launch l = {.host = true};
    bool ok = upload(f, &l, way->text);
    memcpy(args, l.args, sizeof args);
    ok = ok && !failed(f, tessera_interpret(f->program, options, args, f->n), way->text, false) &&
         compare(f, &l, way->text);
    release(f, &l);
    return ok;
}

/* What is made, not run: no device is needed. */
static bool make_code(Fuzz *f, TesseraKernel *kernel, const Way *way)
{
    TesseraBytes bytes;
    return !failed(f, tessera_kernel_emit(kernel, way->kind, &bytes), way->text, false);
}

static bool run_way(Fuzz *f, const Way *way, TesseraDevice *device)
{
    TesseraOptions options = f->options;
    TesseraDebug debug = {.skip = way->skip, .n_skip = way->n_skip, .verify = true};
    TesseraKernel *kernel = NULL;
    options.target = way->passes ? way->passes
                     : way->code ? way->code
                                 : tessera_device_info(device)->target;
    options.optimize = way->optimize;
    options.lines = way->lines;
    options.n_lines = way->n_lines;
    debug.stop_after = way->stop ? way->stop : way->passes ? "vectorize" : NULL;
    if (failed(f, tessera_debug(f->context, &debug), way->text, false)) {
        return false;
    }
    bool ok =
        way->passes
            ? run_passes(f, way, &options)
            : !failed(f, tessera_compile(f->program, &options, &kernel), way->text, false) &&
                  (way->code ? make_code(f, kernel, way) : launch(f, kernel, device, way->text));
    tessera_kernel_free(kernel);
    /* A schedule line may be refused: that is an answer. */
    if (!ok && way->n_lines &&
        (strcmp(f->outcome->status, "refused") == 0 || strcmp(f->outcome->status, "usage") == 0)) {
        outcome_set(f->outcome, "ok", "", "%s", "");
        return true;
    }
    return ok;
}

static void run_ways(Fuzz *f)
{
    TesseraDevice *device = NULL;
    int threads = 1 + (int)(f->c->seed % 3);
    bool host = strcmp(f->device, "cpu") == 0;
    if (failed(f, tessera_device_open(f->context, f->device, host ? threads : 0, &device), "",
               false)) {
        return;
    }
    for (size_t i = 0; i < f->c->n_ways; i++) {
        if (!run_way(f, &f->c->ways[i], device)) {
            break;
        }
    }
    tessera_device_free(device);
}

static void drop(Fuzz *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free((char *)f->slots[i].name);
        free(f->slots[i].first);
        free(f->slots[i].want);
        free(f->slots[i].bound);
    }
    tessera_program_free(f->program);
    tessera_context_free(f->context);
}

void case_run(const Case *c, const char *device, Outcome *outcome)
{
    Fuzz f = {.c = c, .device = device, .outcome = outcome};
    *outcome = (Outcome){.status = "ok", .way = ""};
    tessera_context_new(NULL, &f.context);
    give_sizes(&f);
    if (!failed(&f, tessera_program_parse(f.context, c->name, c->text, c->n, &f.program), "",
                true) &&
        make_slots(&f) && interpret(&f)) {
        run_ways(&f);
    }
    for (size_t i = 0; i < f.n; i++) {
        for (size_t k = 0; f.slots[i].bound && k < f.slots[i].elements; k++) {
            outcome->unbounded += !(f.slots[i].bound[k] < INFINITY);
        }
    }
    drop(&f);
}
