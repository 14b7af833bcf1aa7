/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of loops over ranges. A source may give them (`by 128`), or a schedule chooses them,
 * and results that are rounded once per step depend on them. `source` is a function as the front
 * end built it, `scheduled` the same function after the passes. */
#ifndef TESSERA_IR_LOOP_STEPS_H
#define TESSERA_IR_LOOP_STEPS_H

#include "ir/ir.h"

/* True if the schedule may choose the step of some range. */
bool steps_any(const Func *source);
/* Gives the ranges of `source` the steps that the schedule chose. */
void steps_take(Func *source, const Func *scheduled);
/* The steps on which bits of results may depend, as "j=128,k=64"; "" where there are none.
 * `folded`: by DimVar.id, along which something is folded: steps of other parallel ranges only
 * share work. */
void steps_words(const Func *source, const Func *scheduled, const bool *folded, Text *words);

#endif
