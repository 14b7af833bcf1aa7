/* SPDX-License-Identifier: Apache-2.0 */
/* Serializes requests to the compile worker; one function per struct writes and reads. */
#include "runtime/compile/compilation.h"
#include "runtime/compile/worker_request.h"

#include <string.h>

typedef struct Wire {
    Arena *arena;
    Text *out; /* NULL: it is read */
    const char *in;
    size_t n, at;
    bool bad;
} Wire;

enum { MAX_ITEMS = 1 << 16 };

static void serialize_bytes(Wire *wire, void *bytes, size_t n)
{
    if (wire->out) {
        text_add_n(wire->out, bytes, n);
    } else if (wire->bad || n > wire->n - wire->at) {
        memset(bytes, 0, n);
        wire->bad = true;
    } else {
        memcpy(bytes, wire->in + wire->at, n);
        wire->at += n;
    }
}

static void serialize_number(Wire *wire, uint64_t *number)
{
    serialize_bytes(wire, number, sizeof *number);
}

static void serialize_i64(Wire *wire, int64_t *number)
{
    serialize_bytes(wire, number, sizeof *number);
}

/* Any bytes, ended by a zero. */
static void serialize_long(Wire *wire, const char **text, uint64_t *n)
{
    serialize_number(wire, n);
    if (wire->out) {
        text_add_n(wire->out, *text, (size_t)*n);
    } else if (wire->bad || *n > wire->n - wire->at) {
        *text = NULL;
        *n = 0;
        wire->bad = true;
    } else {
        *text = arena_strndup(wire->arena, wire->in + wire->at, (size_t)*n);
        wire->at += (size_t)*n;
    }
}

static void serialize_text(Wire *wire, const char **text)
{
    uint64_t is = *text != NULL, n = *text ? strlen(*text) : 0;
    serialize_number(wire, &is);
    if (is) {
        serialize_long(wire, text, &n);
    } else {
        *text = NULL;
    }
}

/* How many there are; space for them where they are read. */
static void *serialize_list(Wire *wire, const void *items, size_t *n, size_t bytes)
{
    uint64_t count = *n;
    serialize_number(wire, &count);
    wire->bad = wire->bad || count > MAX_ITEMS;
    *n = wire->bad ? 0 : (size_t)count;
    return wire->out ? (void *)(uintptr_t)items : arena_alloc(wire->arena, *n * bytes + 1);
}

static const TesseraPair *serialize_pairs(Wire *wire, const TesseraPair *from, size_t *n)
{
    TesseraPair *pairs = serialize_list(wire, from, n, sizeof *pairs);
    for (size_t i = 0; i < *n; i++) {
        serialize_text(wire, &pairs[i].name);
        serialize_text(wire, &pairs[i].value);
    }
    return pairs;
}

static void serialize_arg(Wire *wire, TesseraArg *arg)
{
    TesseraTensor *tensor = &arg->tensor;
    uint64_t type = (uint64_t)tensor->type;
    int64_t rank = tensor->rank;
    serialize_number(wire, &type);
    serialize_i64(wire, &rank);
    wire->bad = wire->bad || rank > TESSERA_MAX_RANK || rank < -1;
    if (!wire->out) {
        *arg = (TesseraArg){.tensor = {.type = (TesseraType)type}};
        tensor->rank = wire->bad ? -1 : (int)rank;
    }
    /* Of the address of an array only the alignment matters. */
    enum { PAGE = 4096 };
    uint64_t place = (uintptr_t)tensor->data % PAGE + (tensor->data ? PAGE : 0);
    serialize_number(wire, &place);
    if (!wire->out) {
        tensor->data = (void *)(uintptr_t)place;
    }
    for (int i = 0; i < tensor->rank; i++) {
        serialize_i64(wire, &tensor->dims[i]);
    }
    uint64_t has = tensor->strides != NULL;
    serialize_number(wire, &has);
    if (!has) {
        return;
    }
    int64_t *strides = wire->out ? (int64_t *)(uintptr_t)tensor->strides
                                 : ARENA_ARRAY(wire->arena, int64_t, TESSERA_MAX_RANK);
    for (int i = 0; i < tensor->rank; i++) {
        serialize_i64(wire, &strides[i]);
    }
    tensor->strides = strides;
}

/* What is written is not changed, though the same walk could. */
static void serialize_options(Wire *wire, TesseraOptions *o)
{
    int64_t optimize = o->optimize;
    serialize_text(wire, &o->kernel);
    serialize_text(wire, &o->target);
    o->bindings = serialize_pairs(wire, o->bindings, &o->n_bindings);
    o->strides = serialize_pairs(wire, o->strides, &o->n_strides);
    TesseraSize *sizes = serialize_list(wire, o->sizes, &o->n_sizes, sizeof *sizes);
    for (size_t i = 0; i < o->n_sizes; i++) {
        serialize_text(wire, &sizes[i].name);
        serialize_i64(wire, &sizes[i].value);
    }
    TesseraFact *facts = serialize_list(wire, o->facts, &o->n_facts, sizeof *facts);
    for (size_t i = 0; i < o->n_facts; i++) {
        serialize_text(wire, &facts[i].name);
        serialize_i64(wire, &facts[i].multiple);
        serialize_i64(wire, &facts[i].least);
        serialize_i64(wire, &facts[i].most);
    }
    TesseraArg *args = serialize_list(wire, o->args, &o->n_args, sizeof *args);
    for (size_t i = 0; i < o->n_args; i++) {
        serialize_arg(wire, &args[i]);
    }
    const char **lines = serialize_list(wire, o->lines, &o->n_lines, sizeof *lines);
    for (size_t i = 0; i < o->n_lines; i++) {
        serialize_text(wire, &lines[i]);
    }
    serialize_i64(wire, &optimize);
    serialize_text(wire, &o->device);
    o->sizes = sizes;
    o->facts = facts;
    o->args = args;
    o->lines = lines;
    o->optimize = (int)optimize;
}

static void serialize_imports(Wire *wire, Imports *imports)
{
    ImportedText *texts =
        serialize_list(wire, imports->texts.items, &imports->texts.n, sizeof *texts);
    serialize_text(wire, &imports->folder);
    for (size_t i = 0; i < imports->texts.n; i++) {
        uint64_t n = texts[i].n;
        serialize_text(wire, &texts[i].path);
        serialize_text(wire, &texts[i].file);
        serialize_long(wire, &texts[i].text, &n);
        texts[i].n = (size_t)n;
        wire->bad = wire->bad || !texts[i].path || !texts[i].file;
    }
    imports->texts.items = texts;
}

static void serialize_pinned(Wire *wire, PinLookup *pinned)
{
    uint64_t flags = pinned->forbidden + 2 * (uint64_t)pinned->named, n = pinned->n;
    serialize_number(wire, &flags);
    serialize_text(wire, &pinned->bucket);
    serialize_text(wire, &pinned->file);
    if (pinned->file) {
        serialize_long(wire, &pinned->text, &n);
    }
    pinned->n = (size_t)n;
    pinned->forbidden = flags & 1 || !pinned->text;
    pinned->named = flags & 2;
}

static void serialize_all(Wire *wire, WorkerRequest *order)
{
    serialize_text(wire, &order->build);
    serialize_number(wire, &order->kind);
    serialize_text(wire, &order->name);
    serialize_long(wire, &order->text, &order->n);
    serialize_options(wire, &order->options);
    serialize_imports(wire, order->imports);
    serialize_pinned(wire, &order->pinned);
}

void worker_request_write(const WorkerRequest *order, Text *bytes)
{
    WorkerRequest copy = *order;
    Imports imports = order->imports ? *order->imports : (Imports){0};
    copy.imports = &imports;
    serialize_all(&(Wire){.arena = bytes->arena, .out = bytes}, &copy);
}

bool worker_request_read(Arena *arena, const char *bytes, size_t n, WorkerRequest *order)
{
    Wire wire = {.arena = arena, .in = bytes, .n = n};
    *order = (WorkerRequest){.imports = ARENA_NEW(arena, Imports)};
    order->imports->arena = arena;
    serialize_all(&wire, order);
    return !wire.bad && wire.at == n && order->build && order->name && order->options.target &&
           order->kind <= EMIT_OBJ;
}
