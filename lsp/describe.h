/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a name, a word, a schedule key: a line of code, and text in Markdown. */
#ifndef TESSERA_LSP_DESCRIBE_H
#define TESSERA_LSP_DESCRIBE_H

#include "ir/schedule.h"
#include "lsp/names.h"

typedef enum WordKind {
    WORD_BUILTIN,
    WORD_DECLARATION,
    WORD_STATEMENT,
    WORD_OTHER,
    WORD_OPERATOR,
} WordKind;
typedef struct Word {
    const char *name;
    WordKind kind;
    const char *signature; /* NULL: it is no function */
    const char *doc;
} Word;
/* The words of words.def, in its order; NULL past the last one. */
const Word *word_at(size_t index);
const Word *word_find(const char *name);

/* "fn softmax(x, axis: const i64 = -1)", "let e: f32[M, N]". */
const char *definition_code(const Analysis *a, Arena *arena, const Definition *definition);
/* The comment above it, where it comes from, its axes; "": nothing. */
const char *definition_text(const Analysis *a, Arena *arena, const Definition *definition);
/* The type that was found for the name; NULL: none. */
const char *definition_type(const Analysis *a, const Definition *definition);
const char *schedule_key_text(Arena *arena, const ScheduleKey *key);
/* A parameter as it is written: "axis: const i64 = -1". */
const char *param_code(const Analysis *a, Arena *arena, const ParamDecl *param);
/* The schedule or tune block that holds the offset; NULL: none. */
const ScheduleDecl *schedule_around(const Analysis *a, uint32_t offset);
/* "<stdlib/norms.tile>" as "norms"; NULL: the source is none of the library. */
const char *library_module(const Analysis *a, Arena *arena, int source);

#endif
