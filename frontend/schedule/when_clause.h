/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of schedule blocks on sizes, `schedule k when M <= 64 and K % 16 == 0`, evaluated on
 * what this compilation knows of the sizes. Private to the component. */
#ifndef TESSERA_FRONTEND_SCHEDULE_WHEN_CLAUSE_H
#define TESSERA_FRONTEND_SCHEDULE_WHEN_CLAUSE_H

#include "frontend/syntax/ast.h"

typedef enum Answer { ANSWER_NO, ANSWER_YES, ANSWER_OPEN } Answer;

/* Reports what is no condition on the function's sizes. */
bool when_check(Func *func, const Expr *condition);
/* Of a condition that was checked; `sizes` by DimVar.id, negative where not given, or NULL. OPEN:
 * some of the sizes that are allowed meet it, some do not. */
Answer when_holds(Func *func, const int64_t *sizes, const Expr *condition);

#endif
