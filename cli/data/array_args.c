/* SPDX-License-Identifier: Apache-2.0 */
/* The array arguments of a run: they are read from files or filled with random values, copied to
 * the device, and copied back. */
#include "cli/data/array_args.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the command line gives ---- */

static size_t param_index(const TesseraSignature *signature, const char *name)
{
    size_t i = 0;
    while (i < signature->n_params && strcmp(signature->params[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* A size in the position of an argument, as after the space in `--size M=3 N=4`; NULL if it is
 * none. */
static const char *size_option(const TesseraSignature *signature, const char *text)
{
    size_t n = strcspn(text, "=");
    for (size_t i = 0; i < signature->n_sizes; i++) {
        if (strlen(signature->sizes[i]) == n && strncmp(signature->sizes[i], text, n) == 0) {
            return "--size";
        }
    }
    for (size_t i = 0; i < signature->n_generics; i++) {
        if (strlen(signature->generics[i]) == n && strncmp(signature->generics[i], text, n) == 0) {
            return "--set";
        }
    }
    return NULL;
}

static int unknown_param(const TesseraSignature *signature, const char *text)
{
    const char *option = size_option(signature, text);
    if (option) {
        return fail_code(FAIL_PARAMETER, TESSERA_USAGE,
                         "%s has no parameter for '%.60s': that is given as %s %.60s",
                         signature->name, text, option, text);
    }
    char list[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < signature->n_params && n < sizeof list; i++) {
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                              signature->params[i].name);
    }
    return fail_code(FAIL_PARAMETER, TESSERA_USAGE, "%s has no parameter for '%.60s': it has %s",
                     signature->name, text, list);
}

/* The element type of a parameter, as far as the command line determines it. */
static int wanted_type(const TesseraParam *param, const Options *options)
{
    TesseraType type;
    const char *name = param->type;
    for (size_t i = 0; i < options->sets.n; i++) {
        bool binds = strcmp(options->sets.items[i].name, param->type) == 0;
        name = binds ? options->sets.items[i].value : name;
    }
    return tessera_type_find(name, &type) ? (int)type : NO_TYPE;
}

static int give_value(const Session *session, const char *text, Arrays *arrays, Options *options)
{
    const TesseraSignature *signature = session->signature;
    char *name = name_before(text, '=');
    const char *value = name ? text + strlen(name) + 1 : text;
    size_t i = 0;
    if (name) {
        i = param_index(signature, name);
    } else { /* the next input without one */
        while (i < signature->n_params &&
               (arrays->items[i].given || signature->params[i].is_const ||
                signature->params[i].io == TESSERA_OUT)) {
            i++;
        }
    }
    if (i == signature->n_params) {
        return unknown_param(signature, text);
    }
    const TesseraParam *param = &signature->params[i];
    if (param->io == TESSERA_OUT) {
        return fail_code(FAIL_PARAMETER, TESSERA_USAGE, "'%s' is a result: -o %s=%.60s",
                         param->name, param->name, value);
    }
    if (param->is_const) {
        /* The value of a const parameter is a binding. */
        options->sets.items =
            session_grow(options->sets.items, options->sets.n, sizeof *options->sets.items);
        options->sets.items[options->sets.n++] = (TesseraPair){param->name, value};
        return 0;
    }
    if (arrays->items[i].given) {
        return fail_code(FAIL_PARAMETER, TESSERA_USAGE, "'%s' is given twice", param->name);
    }
    arrays->items[i].given = true;
    arrays->items[i].from = value;
    if (param->rank < 0) {
        return 0; /* it is read once its type is known */
    }
    arrays->n_files++;
    Array *array = &arrays->items[i];
    int wanted = wanted_type(param, options);
    const char *part = slice_after(value);
    char *path = copy_or_exit(value, part ? (size_t)(part - value) : strlen(value));
    size_t elements;
    int code = npy_read(path, wanted, &array->tensor);
    free(path);
    if (code != 0) {
        return code;
    }
    array->block = array->tensor.data;
    tensor_bytes(&array->tensor, &elements, &array->bytes);
    return part ? slice_apply(part, &array->tensor) : 0;
}

/* The next result without an output file. */
static size_t next_output(const TesseraSignature *signature, const Arrays *arrays)
{
    size_t i = 0;
    while (i < signature->n_params &&
           (signature->params[i].io == TESSERA_IN || arrays->items[i].to)) {
        i++;
    }
    return i;
}

static int give_output(const Session *session, const char *text, Arrays *arrays)
{
    const TesseraSignature *signature = session->signature;
    char *name = name_before(text, '=');
    const char *path = name ? text + strlen(name) + 1 : text;
    size_t i = name ? param_index(signature, name) : next_output(signature, arrays);
    if (name && i == signature->n_params) {
        return unknown_param(signature, name);
    }
    if (i == signature->n_params) {
        return fail_code(FAIL_PARAMETER, TESSERA_USAGE, "-o %.200s: %s has no more results", text,
                         signature->name);
    }
    if (signature->params[i].io == TESSERA_IN || arrays->items[i].to) {
        return fail_code(FAIL_PARAMETER, TESSERA_USAGE, "-o %.200s: '%s' %s", text, name,
                         arrays->items[i].to ? "is given twice" : "is no result");
    }
    /* An output file is written by one result, unless it is a device or standard output. */
    bool taken = false;
    for (size_t k = 0; k < arrays->n; k++) {
        const char *other = arrays->items[k].to;
        if (other && strcmp(other, path) == 0 && strcmp(path, "-") != 0 &&
            strncmp(path, "/dev/", 5) != 0) {
            taken = true;
            break;
        }
    }
    if (taken) {
        return fail_code(FAIL_PARAMETER, TESSERA_USAGE,
                         "-o %.200s: another result is written "
                         "there",
                         text);
    }
    arrays->items[i].to = path;
    return 0;
}

/* An output without a name takes the next result, so there are as many of them as results. */
static int check_outputs(const Options *options, const Session *session, const Arrays *arrays)
{
    const TesseraSignature *signature = session->signature;
    size_t left = next_output(signature, arrays);
    for (size_t i = 0; i < options->outputs.n && left < signature->n_params; i++) {
        const char *text = options->outputs.items[i];
        char *name = name_before(text, '=');
        if (!name) {
            return fail_code(FAIL_PARAMETER, TESSERA_USAGE,
                             "-o %.200s: %s has several results and '%s' is not written; name the "
                             "result, as in -o %s=FILE, or give one -o for each",
                             text, signature->name, signature->params[left].name,
                             signature->params[left].name);
        }
    }
    return 0;
}

int arrays_read(const Options *options, const Session *session, Arrays *arrays,
                Options *with_consts)
{
    const TesseraSignature *signature = session->signature;
    int code = 0;
    timeout_end(); /* files may be slow */
    *with_consts = *options;
    *arrays = (Arrays){.n = signature->n_params};
    arrays->items = alloc_or_exit(arrays->n * sizeof *arrays->items);
    arrays->known = alloc_or_exit(arrays->n * sizeof *arrays->known);
    for (size_t i = 0; i < arrays->n; i++) {
        arrays->items[i] = (Array){.param = &signature->params[i], .tensor = {.rank = -1}};
    }
    for (size_t i = 0; i < options->values.n && code == 0; i++) {
        code = give_value(session, options->values.items[i], arrays, with_consts);
    }
    for (size_t i = 0; i < options->outputs.n && code == 0; i++) {
        code = give_output(session, options->outputs.items[i], arrays);
    }
    code = code ? code : check_outputs(options, session, arrays);
    for (size_t i = 0; i < arrays->n; i++) {
        arrays->known[i] = arrays->items[i].tensor;
    }
    return code;
}

/* ---- the rest ---- */

static int complete_tensor(const Options *options, const Session *session,
                           const TesseraOptions *compile, const Arrays *arrays, size_t index)
{
    Array *array = &arrays->items[index];
    const TesseraParam *param = array->param;
    size_t elements, bytes;
    TesseraTensor shape;
    TesseraStatus status =
        tessera_kernel_shape(session->kernel, index, compile->sizes, compile->n_sizes, &shape);
    if (status != TESSERA_OK) {
        int code = fail_context(session->context);
        if (status != TESSERA_USAGE || param->io == TESSERA_OUT) {
            return code;
        }
        return fail_code(FAIL_NOT_GIVEN, TESSERA_USAGE,
                         "'%s' is not given: %s=FILE.npy, or --size for random values", param->name,
                         param->name);
    }
    const char *name = param->name;
    const char *words = NULL;
    for (size_t i = 0; i < options->strides.n; i++) {
        if (strcmp(options->strides.items[i].name, name) == 0) {
            words = options->strides.items[i].value;
            break;
        }
    }

    if (array->given) {
        return words ? array_apply_strides(array, words, compile) : 0;
    }
    if (param->io != TESSERA_OUT && !arrays->random) {
        return fail_code(FAIL_NOT_GIVEN, TESSERA_USAGE,
                         "'%s' is not given: %s=FILE.npy, or --size for random values", param->name,
                         param->name);
    }
    if (!tensor_bytes(&shape, &elements, &bytes)) {
        return fail(TESSERA_SOURCE, "'%s' has more elements than memory can hold", param->name);
    }
    shape.data = calloc(1, bytes ? bytes : 1);
    if (!shape.data) {
        return fail(TESSERA_ENVIRONMENT, "no memory for the %zu bytes of '%s'", bytes, param->name);
    }
    array->tensor = shape;
    array->block = shape.data;
    array->bytes = bytes;
    if (param->io != TESSERA_OUT) {
        tensor_random(&array->tensor, options->seed, param->name, arrays->bench);
    }
    return words ? array_apply_strides(array, words, compile) : 0;
}

int arrays_complete(const Options *options, const Session *session, const TesseraOptions *compile,
                    bool bench, Arrays *arrays)
{
    const TesseraSignature *bound = tessera_kernel_signature(session->kernel);
    inputs_begin(options);
    /* If some arrays come from files, a missing one is an error, unless --size asks for
     * random values. */
    arrays->random = bench || arrays->n_files == 0 || options->sizes.n > 0;
    arrays->bench = bench;
    size_t kept = 0;
    for (size_t i = 0; i < arrays->n; i++) { /* const parameters are no arguments */
        if (!arrays->items[i].param->is_const) {
            arrays->items[kept++] = arrays->items[i];
        }
    }
    arrays->n = kept;
    for (size_t i = 0; i < kept; i++) {
        Array *array = &arrays->items[i];
        const char *fallback = array->param->fallback;
        array->param = &bound->params[i];
        int code = 0;
        if (array->param->rank >= 0) {
            code = complete_tensor(options, session, compile, arrays, i);
        } else if (array->given || fallback || bench) {
            const char *text = "1";
            if (array->given) {
                text = array->from;
            } else if (fallback) {
                text = fallback;
            }
            code = scalar_read(array->param, text, array);
        } else {
            code = fail_code(FAIL_NOT_GIVEN, TESSERA_USAGE, "'%s' is not given: %s=NUMBER",
                             array->param->name, array->param->name);
        }
        if (code != 0) {
            return code;
        }
    }
    timeout_end();
    return 0;
}

/* ---- the device ---- */

/* The CPU computes on the host arrays themselves, so that large ones exist once. */
static bool is_here(const Session *session)
{
    return strcmp(tessera_device_info(session->device)->kind, "cpu") == 0;
}

int arrays_upload(const Session *session, Arrays *arrays, bool copy)
{
    for (size_t i = 0; i < arrays->n; i++) {
        Array *array = &arrays->items[i];
        if (array->param->rank < 0) {
            continue;
        }
        if (is_here(session)) {
            array->memory = array->block;
            continue;
        }
        if (tessera_alloc(session->device, array->bytes, &array->memory) != TESSERA_OK ||
            (copy && tessera_copy_in(session->device, array->memory, array->block, array->bytes) !=
                         TESSERA_OK)) {
            return fail_context(session->context);
        }
    }
    return 0;
}

int arrays_download(const Session *session, Arrays *arrays)
{
    for (size_t i = 0; i < arrays->n; i++) {
        Array *array = &arrays->items[i];
        if (array->param->rank < 0 || array->param->io == TESSERA_IN || is_here(session)) {
            continue;
        }
        if (tessera_copy_out(session->device, array->block, array->memory, array->bytes) !=
            TESSERA_OK) {
            return fail_context(session->context);
        }
    }
    return 0;
}

void *array_moved(const Array *array, void *block)
{
    return (char *)block + ((char *)array->tensor.data - (char *)array->block);
}

TesseraArg *arrays_args(const Arrays *arrays, bool on_device)
{
    TesseraArg *args = alloc_or_exit(arrays->n * sizeof *args);
    for (size_t i = 0; i < arrays->n; i++) {
        const Array *array = &arrays->items[i];
        args[i] = (TesseraArg){
            .tensor = array->tensor, .number = array->number, .integer = array->integer};
        if (on_device && array->param->rank >= 0) {
            args[i].tensor.data = array_moved(array, array->memory);
        }
    }
    return args;
}

void arrays_give_strides(const Arrays *arrays, TesseraOptions *compile)
{
    TesseraArg *args = session_alloc(arrays->n * sizeof *args);
    size_t n = 0;
    for (size_t i = 0; i < arrays->n; i++) {
        if (!arrays->items[i].param->is_const) {
            args[n++].tensor = arrays->items[i].tensor; /* of rank -1 when it is not given */
        }
    }
    compile->args = args;
    compile->n_args = n;
}

void arrays_free(const Session *session, Arrays *arrays)
{
    for (size_t i = 0; i < arrays->n; i++) {
        if (session->device && arrays->items[i].memory != arrays->items[i].block) {
            tessera_release(session->device, arrays->items[i].memory);
        }
        free(arrays->items[i].block);
    }
    free(arrays->items);
    free(arrays->known);
    *arrays = (Arrays){0};
}
