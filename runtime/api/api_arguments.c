/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of public arguments before anything else happens: NULL, unknown types, contradictory
 * options. */
#include "runtime/api/api_objects.h"

#include "ir/ir_errors.h"

#include <inttypes.h>
#include <stdio.h>

TesseraStatus args_check(TesseraContext *context, const TesseraSignature *signature,
                         const TesseraArg *args, size_t n)
{
    if (n > 0 && !args) {
        return context_null(context, signature->name, "the list of arguments");
    }
    if (n != signature->n_params) {
        return context_usage(context, "%s takes %zu arguments, not %zu", signature->name,
                             signature->n_params, n);
    }
    for (size_t i = 0; i < n; i++) {
        const TesseraParam *param = &signature->params[i];
        TesseraStatus status =
            param->rank < 0 ? TESSERA_OK
                            : tensor_check(context, signature->name, param->name, &args[i].tensor);
        if (status != TESSERA_OK) {
            return status;
        }
    }
    return TESSERA_OK;
}

/* ---- options ---- */

const char *options_null(const TesseraOptions *o)
{
    bool lists = (o->bindings || !o->n_bindings) && (o->sizes || !o->n_sizes) &&
                 (o->facts || !o->n_facts) && (o->lines || !o->n_lines) &&
                 (o->args || !o->n_args) && (o->strides || !o->n_strides);
    for (size_t i = 0; lists && i < o->n_bindings; i++) {
        if (!o->bindings[i].name || !o->bindings[i].value) {
            return "a name or value of options.bindings";
        }
    }
    for (size_t i = 0; lists && i < o->n_sizes; i++) {
        if (!o->sizes[i].name) {
            return "a name of options.sizes";
        }
    }
    for (size_t i = 0; lists && i < o->n_facts; i++) {
        if (!o->facts[i].name) {
            return "a name of options.facts";
        }
    }
    for (size_t i = 0; lists && i < o->n_strides; i++) {
        if (!o->strides[i].name || !o->strides[i].value) {
            return "a name or value of options.strides";
        }
    }
    for (size_t i = 0; lists && i < o->n_lines; i++) {
        if (!o->lines[i]) {
            return "a line of options.lines";
        }
    }
    return lists ? NULL : "a list of options";
}

bool signature_has_size(const TesseraSignature *signature, const char *name)
{
    for (size_t i = 0; i < signature->n_sizes; i++) {
        if (text_equal(signature->sizes[i], name)) {
            return true;
        }
    }
    return false;
}

static TesseraStatus no_size(const TesseraProgram *program, const TesseraSignature *signature,
                             const char *name)
{
    TesseraContext *context = program->work.context;
    size_t long_as;
    const char *definition =
        frontend_definition(program->module, signature->name, name, &long_as);
    char list[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < signature->n_sizes && n < sizeof list; i++) {
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : ": it has ",
                              signature->sizes[i]);
    }
    if (definition) {
        return context_fail_code(context, TESSERA_USAGE, ERR_NO_SIZE,
                                 "%s has no size '%.100s', which it defines as %.*s%s",
                                 signature->name, name, (int)long_as, definition, list);
    }
    return context_fail_code(context, TESSERA_USAGE, ERR_NO_SIZE, "%s has no size '%.100s'%s",
                             signature->name, name, list);
}

static TesseraStatus check_fact(const TesseraProgram *program, const TesseraSignature *signature,
                                const TesseraFact *fact)
{
    TesseraContext *context = program->work.context;
    if (!signature_has_size(signature, fact->name)) {
        return no_size(program, signature, fact->name);
    }
    if (fact->multiple < 0 || fact->least < 0 || fact->most < 0) {
        return context_usage(context, "what is known of size %s is negative", fact->name);
    }
    if (fact->most > 0 && fact->least > fact->most) {
        return context_usage(context, "size %s cannot be at least %" PRId64 " and at most %" PRId64,
                             fact->name, fact->least, fact->most);
    }
    return TESSERA_OK;
}

static TesseraStatus check_size(const TesseraProgram *program, const TesseraSignature *signature,
                                const TesseraSize *size)
{
    TesseraContext *context = program->work.context;
    if (!signature_has_size(signature, size->name)) {
        return no_size(program, signature, size->name);
    }
    return size->value >= 0 ? TESSERA_OK
                            : context_usage(context, "size %.100s=%" PRId64 " is negative",
                                            size->name, size->value);
}

TesseraStatus options_check(const TesseraProgram *program, const TesseraOptions *options,
                            const TesseraSignature **found)
{
    TesseraContext *context = program->work.context;
    const char *null = options_null(options);
    if (null) {
        return context_usage(context, "%s is NULL", null);
    }
    if (options->optimize < -1 || options->optimize > 3) {
        return context_usage(context, "options.optimize is %d: -1 to 3 are possible",
                             options->optimize);
    }
    TesseraStatus status = tessera_program_find(program, options->kernel, found);
    for (size_t i = 0; i < options->n_facts && status == TESSERA_OK; i++) {
        status = check_fact(program, *found, &options->facts[i]);
    }
    for (size_t i = 0; i < options->n_sizes && status == TESSERA_OK; i++) {
        status = check_size(program, *found, &options->sizes[i]);
    }
    return status;
}

TesseraStatus options_suit_compiling(const TesseraProgram *program, const TesseraOptions *options,
                                     const TesseraSignature **signature)
{
    return options->target ? options_check(program, options, signature)
                           : context_usage(program->work.context, "compiling needs a target");
}
