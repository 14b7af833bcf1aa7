/* SPDX-License-Identifier: Apache-2.0 */
/* Memoization for walks over operands. Values share operands, so a walk that visits an operand
 * once per use takes time exponential in the depth of the program. Therefore every recursive walk
 * over `operands[i]->def` asks a memo first.
 *
 *     int64_t found;
 *     if (memo_known(memo, value, key, &found)) { return found; }
 *     …
 *     return memo_keep(memo, value, key, result);
 *
 * `key` is what else the answer depends on: an axis, or which of several questions; 0 if nothing.
 * A memo is opened for one question, or for a pass as long as its answers stay true. */
#ifndef TESSERA_IR_MEMO_H
#define TESSERA_IR_MEMO_H

#include "ir/ir.h"

typedef struct Memo Memo;

/* An empty memo. It reuses the memory of a closed one if possible. */
Memo *memo_open(Func *func);
/* The same for a question about this value of the function; NULL, which the functions below accept,
 * if the value is a parameter and has no operands to visit. */
Memo *memo_about(const Value *value);
void memo_close(Memo *memo);
/* Forgets everything. */
void memo_clear(Memo *memo);

bool memo_known(const Memo *memo, const Value *value, int key, int64_t *found);
/* Returns `found`. */
int64_t memo_keep(Memo *memo, const Value *value, int key, int64_t found);
/* True the first time that it is called for this value. */
bool memo_visit(Memo *memo, const Value *value);

#endif
