/* SPDX-License-Identifier: Apache-2.0 */
/* Prints size expressions in the syntax of the source language. */
#include "ir/text/ir_text.h"

static void put_sum(Text *text, Dim dim);

static bool is_name(Dim dim)
{
    return dim->n_terms == 1 && dim->terms[0].n == 1 && dim->terms[0].coef == 1 &&
           !dim->terms[0].vars[0]->unnamed;
}

static void put_quotient(Text *text, const DimVar *var)
{
    if (var->by == 1) { /* a fact about a sum */
        put_sum(text, var->of);
        return;
    }
    text_add(text, is_name(var->of) ? "" : "(");
    put_sum(text, var->of);
    text_printf(text, is_name(var->of) ? " // %lld" : ") // %lld", (long long)var->by);
}

/* `alone`: nothing stands next to it that would bind as tightly. */
static void put_factor(Text *text, const DimVar *var, bool alone)
{
    if (!var->unnamed) {
        text_add(text, var->name);
        return;
    }
    text_add(text, alone ? "" : "(");
    put_quotient(text, var);
    text_add(text, alone ? "" : ")");
}

/* What is added first, then what is taken away, the number last. */
static void put_sum(Text *text, Dim dim)
{
    bool first = true;
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < dim->n_terms; i++) {
            const PolyTerm *term = &dim->terms[i];
            int when = term->n == 0 ? 2 : term->coef < 0;
            if (when == pass) {
                int64_t coef = term->coef;
                bool minus = coef < 0;
                text_add(text, first ? (minus ? "-" : "") : (minus ? " - " : " + "));
                uint64_t size = minus ? 0 - (uint64_t)coef : (uint64_t)coef;
                bool counted = size != 1 || term->n == 0;
                if (counted) {
                    text_printf(text, "%llu%s", (unsigned long long)size, term->n ? "*" : "");
                }
                for (int j = 0; j < term->n; j++) {
                    text_add(text, j ? "*" : "");
                    put_factor(text, term->vars[j], !counted && term->n == 1 && !(first && minus));
                }
                first = false;
            }
        }
    }
    text_add(text, first ? "0" : "");
}

void say_dim(const Func *func, Dim dim, Text *out)
{
    const char *name = func ? func_dim_name(func, dim) : NULL;
    if (name) {
        text_add(out, name);
    } else {
        put_sum(out, dim);
    }
}

void say_size(const DimVar *var, Text *out)
{
    put_factor(out, var, true);
}
