/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of schedule blocks on sizes, `schedule k when M <= 64 and K % 16 == 0`, evaluated by
 * the facts about sizes of this compilation. Private to the component. */
#ifndef TESSERA_FRONTEND_SCHEDULE_WHEN_CLAUSE_H
#define TESSERA_FRONTEND_SCHEDULE_WHEN_CLAUSE_H

#include "frontend/syntax/ast.h"

typedef enum Answer { ANSWER_NO, ANSWER_YES, ANSWER_OPEN } Answer;

/* Reports an expression that is not a condition on the sizes of the function. */
bool when_check(Func *func, const Expr *condition);
/* Evaluates a condition that was checked. `sizes` is by DimVar.id, negative for a size that is not
 * given, or NULL. OPEN: some of the allowed sizes satisfy it, and some do not. */
Answer when_holds(Func *func, const int64_t *sizes, const Expr *condition);

#endif
