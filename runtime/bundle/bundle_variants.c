/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the variants of a kernel in a bundle: which types, constants and size facts each of them
 * is compiled with. */
#include "runtime/api/api_objects.h"
#include "runtime/bundle/bundle_build.h"

#include <string.h>

static bool is_generic(const TesseraSignature *signature, const char *name)
{
    for (size_t i = 0; i < signature->n_generics; i++) {
        if (text_equal(signature->generics[i], name)) {
            return true;
        }
    }
    return false;
}

static bool is_choice(const TesseraSignature *signature, const char *name)
{
    for (size_t i = 0; i < signature->n_choices; i++) {
        if (text_equal(signature->choices[i].size, name)) {
            return true;
        }
    }
    return false;
}

static bool is_param(const TesseraSignature *signature, const char *name)
{
    for (size_t i = 0; i < signature->n_params; i++) {
        if (text_equal(signature->params[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* True if the kernel has a generic, choice, parameter or size of this name. */
static bool has_name(const TesseraSignature *signature, const char *name)
{
    return is_generic(signature, name) || is_choice(signature, name) || is_param(signature, name) ||
           signature_has_size(signature, name);
}

static bool any_has(const BundleBuilder *builder, const char *name)
{
    for (size_t i = 0; i < builder->program->signatures.n; i++) {
        if (has_name(&builder->program->signatures.items[i], name)) {
            return true;
        }
    }
    return false;
}

/* True if a variant keeps its entry for `name` when it is applied to this kernel. An entry is only
 * dropped if another kernel has the name; otherwise compilation reports the unknown name. */
static bool keeps(const BundleBuilder *builder, const TesseraSignature *signature, const char *name)
{
    bool one = builder->options->kernel || builder->program->signatures.n == 1;
    return one || has_name(signature, name) || !any_has(builder, name);
}

bool bundle_is_for(const BundleBuilder *builder, const TesseraSignature *signature,
                   const TesseraOptions *variant)
{
    bool all = true;
    for (size_t i = 0; i < variant->n_bindings; i++) {
        all = all && keeps(builder, signature, variant->bindings[i].name);
    }
    for (size_t i = 0; i < variant->n_sizes; i++) {
        all = all && keeps(builder, signature, variant->sizes[i].name);
    }
    for (size_t i = 0; i < variant->n_facts; i++) {
        all = all && keeps(builder, signature, variant->facts[i].name);
    }
    for (size_t i = 0; i < variant->n_strides; i++) {
        all = all && keeps(builder, signature, variant->strides[i].name);
    }
    return all;
}

const char *bundle_bound_to(const TesseraOptions *options, const char *name)
{
    for (size_t i = 0; i < options->n_bindings; i++) {
        if (text_equal(options->bindings[i].name, name)) {
            return options->bindings[i].value;
        }
    }
    return NULL;
}

static void add_facts(const BundleBuilder *builder, const TesseraSignature *signature,
                      const TesseraFact *from, size_t n, TesseraOptions *to)
{
    TesseraFact *facts = ARENA_ARRAY(&builder->work->arena, TesseraFact, to->n_facts + n + 1);
    for (size_t i = 0; i < to->n_facts; i++) {
        facts[i] = to->facts[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (keeps(builder, signature, from[i].name)) {
            facts[to->n_facts++] = from[i];
        }
    }
    to->facts = facts;
}

TesseraOptions bundle_variant_of(const BundleBuilder *builder, const TesseraSignature *signature,
                                 const TesseraOptions *from)
{
    TesseraOptions to = *from;
    to.kernel = signature->name;
    /* The bindings of the whole bundle apply unless the variant has its own. */
    const TesseraBundleOptions *options = builder->options;
    TesseraPair *pairs =
        ARENA_ARRAY(&builder->work->arena, TesseraPair, to.n_bindings + options->n_bindings + 1);
    size_t n = 0;
    for (; n < to.n_bindings; n++) {
        pairs[n] = to.bindings[n];
    }
    for (size_t i = 0; i < options->n_bindings; i++) {
        const char *name = options->bindings[i].name;
        if (keeps(builder, signature, name) && !bundle_bound_to(&to, name)) {
            pairs[n++] = options->bindings[i];
        }
    }
    to.bindings = pairs;
    to.n_bindings = n;
    add_facts(builder, signature, builder->options->facts, builder->options->n_facts, &to);
    return to;
}

/* The options with every size left open: each gets the fact that it is a multiple of 1. */
TesseraOptions bundle_any_size(const BundleBuilder *builder, const TesseraSignature *signature,
                               const TesseraOptions *from)
{
    TesseraOptions to = *from;
    TesseraFact *any = ARENA_ARRAY(&builder->work->arena, TesseraFact, signature->n_sizes + 1);
    size_t n = 0;
    for (size_t i = 0; i < signature->n_sizes; i++) {
        if (!is_choice(signature, signature->sizes[i])) {
            any[n++] = (TesseraFact){.name = signature->sizes[i], .multiple = 1};
        }
    }
    to.n_sizes = to.n_strides = to.n_facts = to.n_args = 0;
    add_facts(builder, signature, builder->options->facts, builder->options->n_facts, &to);
    add_facts(builder, signature, any, n, &to);
    return to;
}
