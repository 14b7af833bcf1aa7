/* SPDX-License-Identifier: Apache-2.0 */
/* Code generation without the cache: by the code generator's table of functions, or by a worker
 * process. */
#include "runtime/compile/compilation.h"

bool compilation_emit(Compilation *c, EmitKind kind, const CodegenOptions *options, Code *code,
                      Plan *plan)
{
    const CodegenTable *codegen = codegen_open(&c->work->arena, &c->work->diags);
    size_t n_diags = c->work->diags.list.n;
    int errors = c->work->diags.errors;
    bool made = codegen && codegen->emit(c->func, kind, options, code, plan);
    while (codegen && !made && c->retry && retry_with_less_stack(c->retry, n_diags, errors)) {
        made = codegen->emit(c->func, kind, options, code, plan);
    }
    return made;
}

bool generate_code(Compilation *c, EmitKind kind, Code *code, Plan *plan)
{
    CodegenOptions options = compilation_codegen(c);
    bool done;
    bool good = worker_emit(c, kind, code, plan, &done);
    return done ? good : compilation_emit(c, kind, &options, code, plan);
}
