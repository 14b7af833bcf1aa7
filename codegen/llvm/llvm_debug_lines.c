/* SPDX-License-Identifier: Apache-2.0 */
/* Line tables: which source line an instruction comes from, for profilers and sanitizers.
 * Locations are emitted only as `.loc` in the assembly. A full compile unit would make NVPTX print
 * `.target …, debug`, and the assembler would then stop optimizing. */
#include "codegen/llvm/llvm.h"

#include "ir/build.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

enum { DIRECTIVES_ONLY = 3 /* llvm::DICompileUnit::DebugDirectivesOnly; LLVM-C has no name */ };

struct LlvmLines {
    LLVMDIBuilderRef builder;
    LLVMMetadataRef *files;  /* by source; NULL: not met yet */
    LLVMMetadataRef *scopes; /* of the function at hand, by source, likewise */
    LLVMMetadataRef unit, function;
    int of; /* the source that the function is in */
    Span last;
    SourceLoc place; /* of `last` */
};

static LLVMMetadataRef file_of(Llvm *l, int source)
{
    struct LlvmLines *lines = l->lines;
    if (!lines->files[source]) {
        const char *name = l->diags->sources.items[source].name;
        lines->files[source] = LLVMDIBuilderCreateFile(lines->builder, name, strlen(name), "", 0);
    }
    return lines->files[source];
}

static LLVMMetadataRef scope_of(Llvm *l, int source)
{
    struct LlvmLines *lines = l->lines;
    if (source == lines->of) {
        return lines->function;
    }
    if (!lines->scopes[source]) {
        lines->scopes[source] = LLVMDIBuilderCreateLexicalBlockFile(lines->builder, lines->function,
                                                                    file_of(l, source), 0);
    }
    return lines->scopes[source];
}

static void make_unit(Llvm *l, int source)
{
    static const char flag[] = "Debug Info Version", producer[] = "tessera";
    struct LlvmLines *lines = l->lines;
    LLVMValueRef version = LLVMConstInt(l->i32, LLVMDebugMetadataVersion(), false);
    LLVMAddModuleFlag(l->module, LLVMModuleFlagBehaviorWarning, flag, sizeof flag - 1,
                      LLVMValueAsMetadata(version));
    lines->unit = LLVMDIBuilderCreateCompileUnit(
        lines->builder, LLVMDWARFSourceLanguageC, file_of(l, source), producer, sizeof producer - 1,
        true, "", 0, 0, "", 0, (LLVMDWARFEmissionKind)DIRECTIVES_ONLY, 0, false, false, "", 0, "",
        0);
}

static void find_place(Op *op, void *user)
{
    Span *found = user;
    *found = found->source < 0 ? op->span : *found;
}

void llvm_lines_launch(Llvm *l, LLVMValueRef function, const Op *launch)
{
    Span first = launch->span;
    block_walk(launch->regions[0], find_place, &first);
    /* The first op with a source location names the file and the line of the function. */
    size_t n = l->diags->sources.n, length;
    if (first.source < 0) {
        return;
    }
    if (!l->lines) {
        l->lines = ARENA_NEW(l->arena, struct LlvmLines);
        *l->lines = (struct LlvmLines){.builder = LLVMCreateDIBuilder(l->module)};
        l->lines->files = ARENA_ARRAY(l->arena, LLVMMetadataRef, n);
        make_unit(l, first.source);
    }
    struct LlvmLines *lines = l->lines;
    const char *name = LLVMGetValueName2(function, &length);
    unsigned line = (unsigned)diag_source_loc(l->diags, first).line;
    LLVMMetadataRef file = file_of(l, first.source);
    LLVMMetadataRef type =
        LLVMDIBuilderCreateSubroutineType(lines->builder, file, NULL, 0, LLVMDIFlagZero);
    lines->function =
        LLVMDIBuilderCreateFunction(lines->builder, file, name, length, name, length, file, line,
                                    type, false, true, line, LLVMDIFlagZero, true);
    LLVMSetSubprogram(function, lines->function);
    lines->scopes = ARENA_ARRAY(l->arena, LLVMMetadataRef, n);
    lines->of = first.source;
    lines->last = SPAN_NONE;
}

void llvm_line(Llvm *l, Span span)
{
    struct LlvmLines *lines = l->lines;
    if (!lines || span.source < 0) {
        return;
    }
    if (span.source != lines->last.source || span.start != lines->last.start) {
        lines->last = span;
        lines->place = diag_source_loc(l->diags, span);
    }
    LLVMMetadataRef at = LLVMDIBuilderCreateDebugLocation(l->context, (unsigned)lines->place.line,
                                                          (unsigned)lines->place.column,
                                                          scope_of(l, span.source), NULL);
    LLVMSetCurrentDebugLocation2(l->builder, at);
}

void llvm_lines_leave(Llvm *l)
{
    LLVMSetCurrentDebugLocation2(l->builder, NULL);
}

void llvm_lines_end(Llvm *l)
{
    if (l->lines && l->lines->builder) {
        LLVMDIBuilderFinalize(l->lines->builder);
        LLVMDisposeDIBuilder(l->lines->builder);
        l->lines->builder = NULL;
    }
}
